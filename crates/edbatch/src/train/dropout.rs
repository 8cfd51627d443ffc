//! The masks of dropout: tables that the trainer adds to a network, and rows that it picks.

use std::sync::Arc;

use edbatch_graph::{Graph, Mask, MaskedNetwork, Network, ParameterId};
use edbatch_runtime::{ParameterError, Parameters};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

/// A model's network with masks, and the tables of these masks.
pub(super) struct Dropout {
    pub(super) network: Arc<Network>,
    masks: Vec<Arc<Vec<f32>>>,
    seed: u64,
}

impl Dropout {
    /// Draws the masks of a network. A network without dropout has none. Masks that are not
    /// `active` drop nothing.
    pub(super) fn new(network: &Network, seed: u64, active: bool) -> Self {
        let MaskedNetwork { network, masks } = network.masked();
        let drawn = masks.iter().enumerate().map(|(index, mask)| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(mixed(seed, index as u64));
            let rate = if active { mask.rate } else { 0.0 };
            let kept = 1.0 / (1.0 - rate);
            let elements = 0..Mask::ROWS as usize * mask.width as usize;
            let draw = |_| if rng.random::<f32>() < rate { 0.0 } else { kept };
            Arc::new(elements.map(draw).collect())
        });
        Self { masks: drawn.collect(), network: Arc::new(network), seed }
    }

    pub(super) fn is_none(&self) -> bool {
        self.masks.is_empty()
    }

    /// Returns the parameters of the model with the masks.
    pub(super) fn with_masks(&self, parameters: &Parameters) -> Result<Parameters, ParameterError> {
        let own = self.network.parameters().len() - self.masks.len();
        let masks = self.masks.iter().cloned();
        Parameters::from_shared(&self.network, shared(parameters, own).chain(masks).collect())
    }

    /// Returns the parameters of the model alone.
    pub(super) fn without_masks(&self, parameters: &Parameters, model: &Network) -> Parameters {
        let values = shared(parameters, model.parameters().len()).collect();
        Parameters::from_shared(model, values).expect("the model's parameters come first")
    }

    /// Copies a graph, and names rows of masks in each call. Input i ends before node `ends[i]`;
    /// its position in the mini-batch is `first` + i.
    ///
    /// The rows depend on the seed, the step, the position, and the number of the call in its input
    /// alone.
    pub(super) fn copy(
        &self,
        graph: &Graph,
        to: &mut Graph,
        ends: impl Iterator<Item = usize>,
        (step, first): (u64, u64),
    ) {
        let of_step = mixed(self.seed, step);
        let mut inputs = (first..).zip(ends).map(|(position, end)| {
            (end, Xoshiro256PlusPlus::seed_from_u64(mixed(of_step, position)))
        });
        let mut of_input = None;
        graph.copy_with_rows(to, |node, rows| {
            while of_input.as_ref().is_none_or(|&(end, _)| end <= node.index()) {
                of_input = Some(inputs.next().expect("each node is of an input"));
            }
            of_input.as_mut().map_or(0, |(_, rng)| rng.random_range(0..rows))
        });
    }
}

/// Returns the first `count` tensors, without copying them.
fn shared(parameters: &Parameters, count: usize) -> impl Iterator<Item = Arc<Vec<f32>>> {
    (0..count as u32).map(|index| parameters.get(ParameterId(index)).clone())
}

/// Mixes two numbers into one that looks random.
fn mixed(one: u64, other: u64) -> u64 {
    let first = Xoshiro256PlusPlus::seed_from_u64(one).next_u64();
    Xoshiro256PlusPlus::seed_from_u64(first ^ other).next_u64()
}

#[cfg(test)]
mod tests {
    use edbatch_graph::Shape;

    use super::*;

    /// One seed for all tables would drop the same elements at every rate and width.
    #[test]
    fn masks_of_two_tables_are_drawn_independently() {
        let mut network = Network::new();
        let [short, long] = [Shape::Vector(10), Shape::Vector(16)];
        let all = network.record("all", [("a", short), ("b", long), ("c", short)]).unwrap();
        network
            .cell("cell", all, |cell| {
                let dropout = |shape, rate| cell.constant(1.0, shape).dropout(rate);
                vec![dropout(short, 0.5), dropout(long, 0.5), dropout(short, 0.4)]
            })
            .unwrap();
        let masks = Dropout::new(&network, 1, true).masks;
        for (one, other, expected) in [(0, 1, 0.25), (0, 2, 0.2), (1, 2, 0.2)] {
            let pairs: Vec<(f32, f32)> =
                masks[one].iter().copied().zip(masks[other].iter().copied()).collect();
            let kept_by_one = pairs.iter().filter(|(one, other)| *one != 0.0 && *other == 0.0);
            let share = kept_by_one.count() as f64 / pairs.len() as f64;
            // Over five standard deviations of 40,960 elements.
            assert!((share - expected).abs() < 0.012, "{one} and {other}: {share}");
        }
    }
}
