//! The relation "reads" between cells, and the levels of cells that follow from it.
//!
//! Records do not tell it: an encoder and a decoder share one, and so do two kinds of tree nodes.
//! But a decoder never runs in a wave with its encoder, and nodes of both kinds do. So the relation
//! holds the pairs of cells that plans have shown so far.
//!
//! *Cost*: finding waves looks up the writers of rows anyway, so a pair costs an instruction.

use edbatch_graph::Kind;

/// The cells whose values the calls of each cell have read, among the first 64 cells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reads(Vec<u64>);

/// Returns a set of one cell.
pub(crate) fn set(cell: Kind) -> u64 {
    1u64.checked_shl(cell.index() as u32).unwrap_or(0)
}

impl Reads {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds that calls of `reader` have read values of a set of cells.
    pub(crate) fn add(&mut self, reader: Kind, cells: u64) {
        let len = self.0.len().max(reader.index() + 1);
        self.0.resize(len, 0);
        self.0[reader.index()] |= cells;
    }

    /// Returns true if another relation is part of this one.
    pub(crate) fn contain(&self, other: &Self) -> bool {
        let own = self.0.iter().copied().chain([0].into_iter().cycle());
        other.0.iter().zip(own).all(|(other, own)| other & !own == 0)
    }

    /// Adds another relation.
    pub(crate) fn merge(&mut self, other: &Self) {
        (0..).zip(&other.0).for_each(|(reader, &cells)| self.add(Kind::new(reader), cells));
    }

    /// Returns the level of each of these cells. Cells that read each other, directly or through
    /// others, form a component. Any other cell that reads one of these cells has a higher level.
    pub(crate) fn levels(&self, cells: &[Kind]) -> Vec<u32> {
        let of = |all: &[u64], cell: Kind| set(cell) | all.get(cell.index()).copied().unwrap_or(0);
        // The closure of the relation, by Warshall's algorithm.
        let mut all = self.0.clone();
        for through in (0..all.len()).map(Kind::new) {
            let read = all[through.index()];
            let readers = all.iter_mut().filter(|reader| **reader & set(through) != 0);
            readers.for_each(|reader| *reader |= read);
        }
        // A cell follows those that it reads, since it reads more.
        let mut order: Vec<usize> = (0..cells.len()).collect();
        order.sort_by_key(|&cell| of(&all, cells[cell]).count_ones());
        let mut levels = vec![0; cells.len()];
        for (index, &cell) in order.iter().enumerate() {
            let own = of(&all, cells[cell]);
            let is_below = |&&other: &&usize| {
                own & set(cells[other]) != 0 && of(&all, cells[other]) & set(cells[cell]) == 0
            };
            let below = order[..index].iter().filter(is_below).map(|&other| levels[other] + 1);
            levels[cell] = below.max().unwrap_or(0);
        }
        levels
    }
}
