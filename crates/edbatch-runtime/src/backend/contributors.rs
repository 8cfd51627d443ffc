//! The sums that contribute to the gradient of each parameter.

use edbatch_graph::{Cell, TrainingNetwork};

use super::Gradient;

/// The contributors to the gradient of a parameter.
///
/// Backends add contributions in the same order, so that gradients have the same bits. Cell by cell
/// these are the sums over calls, in the order of the adjoint's sums, then the rows of the cell's
/// tables and the sums of their row adjoints. The initial values are last. The first contribution
/// is copied, but rows of tables are added to zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contributors {
    /// The number of sums over calls of cells.
    pub cells: u32,
    /// True if row adjoints or an initial value contribute.
    pub others: bool,
    /// True if a table reads the parameter row by row.
    pub is_table: bool,
}

impl Contributors {
    /// Returns the contributors to the gradients of all parameters of a network.
    #[must_use]
    pub fn all(training: &TrainingNetwork) -> Vec<Self> {
        let network = &training.network;
        let mut all = vec![Self::default(); network.parameters().len()];
        for adjoint in training.adjoints.iter().flatten() {
            for sum in &adjoint.sums {
                all[sum.parameter().0 as usize].cells += 1;
            }
            for sum in adjoint.tables.iter().flatten().flat_map(|table| &table.sums) {
                all[sum.parameter().0 as usize].others = true;
            }
        }
        for parameter in network.initial_values().iter().flat_map(|initial| &initial.parameters) {
            all[parameter.0 as usize].others = true;
        }
        let tables = network.cells().iter().flat_map(Cell::tables);
        for parameter in tables.filter_map(|table| table.parameter) {
            all[parameter.0 as usize].is_table = true;
        }
        all
    }

    /// Returns true if the only contribution is one sum over calls of a cell. This is the case for
    /// almost all parameters. Such a sum is the gradient: no copy of it is needed.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.cells == 1 && !self.others && !self.is_table
    }

    /// Returns a gradient of zero, without memory. A table that is read only row by row has the
    /// gradients of some rows.
    #[must_use]
    pub fn empty_gradient(&self, is_trained: bool) -> Gradient {
        match is_trained {
            false => Gradient::None,
            true if self.is_table && self.cells == 0 && !self.others => {
                Gradient::Rows { rows: vec![], elements: vec![] }
            }
            true => Gradient::Whole(vec![]),
        }
    }
}

#[cfg(test)]
mod tests {
    use edbatch_graph::{Network, Shape, training_network};

    use super::*;

    #[test]
    fn one_sum_over_calls_is_direct() {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(3))]).unwrap();
        network.initial(state, &["start"]).unwrap();
        let leaf = network.cell("leaf", state, |cell| {
            let own = cell.lookup("word", "words", &[9, 3]);
            let row = cell.lookup("tied", "matrix", &[3, 3]);
            vec![own + row]
        });
        let node = network.cell("node", state, |cell| {
            let [h] = cell.one("child", state);
            let [w, twice] = ["w", "twice"].map(|name| cell.parameter(name, &[3, 3]));
            vec![cell.parameter("matrix", &[3, 3]).matmul(w.matmul(h)) + twice.matmul(h)]
        });
        let root = network.cell("root", state, |cell| {
            let [h] = cell.one("child", state);
            vec![cell.parameter("twice", &[3, 3]).matmul(h)]
        });
        assert!([leaf, node, root].iter().all(Result::is_ok));
        let training = training_network(&network, |_| true, |_| false).unwrap();
        let all = Contributors::all(&training);
        let of = |name: &str| {
            let mut parameters = network.parameters().iter();
            let of = all[parameters.position(|it| it.name == name).unwrap()];
            (of.is_direct(), of.empty_gradient(true))
        };
        let (rows, whole) =
            (Gradient::Rows { rows: vec![], elements: vec![] }, Gradient::Whole(vec![]));
        assert_eq!(of("w"), (true, whole.clone()));
        assert_eq!(of("words"), (false, rows));
        for name in ["twice", "matrix", "start"] {
            assert_eq!(of(name), (false, whole.clone()), "{name}");
        }
        assert_eq!(all[0].empty_gradient(false), Gradient::None);
    }
}
