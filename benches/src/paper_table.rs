//! The paper's table of memory costs, as it is printed.
//!
//! By the rule that [`cell_costs`](edbatch_layout::cell_costs) infers, all planned figures are the
//! paper's but those of TreeLSTM-Internal, 3 kernels and 22 kB. Of these the products, eight of one
//! shape, account for 1 kernel and 16 kB; all else in the cell has an ideal layout, which is found.
//! No rule is known by which two kernels and 6 kB remain. The declared figures depend on the order
//! in which the equations are written; those of GRUCell, TreeGRU-Leaf and TreeLSTM-Leaf are the
//! paper's. MVCell's differ because the matrices that come in are not in the order in which its
//! products want them, which the paper does not count.
//!
//! *Source*: the paper, table "memory kernels", at batch 8 and size 64.

/// Memory kernels and the kB that they move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Printed {
    /// Passes that do nothing but copy.
    pub kernels: usize,
    /// What they move, in units of 1024 bytes.
    pub kilobytes: u64,
}

/// A row of the table: a cell, in the order of its declaration, and as the paper plans it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintedCell {
    /// The cell's name.
    pub name: &'static str,
    /// Without a planner.
    pub declared: Printed,
    /// With the paper's.
    pub planned: Printed,
}

/// The seven rows.
pub const PAPER_TABLE: [PrintedCell; 7] = [
    row("GRUCell", [6, 666], [2, 14]),
    row("LSTMCell", [4, 1054], [1, 16]),
    row("MVCell", [2, 260], [2, 260]),
    row("TreeGRU-Internal", [8, 552], [2, 16]),
    row("TreeGRU-Leaf", [4, 268], [2, 8]),
    row("TreeLSTM-Internal", [7, 1064], [3, 22]),
    row("TreeLSTM-Leaf", [3, 396], [1, 6]),
];

const fn row(name: &'static str, declared: [u64; 2], planned: [u64; 2]) -> PrintedCell {
    const fn printed([kernels, kilobytes]: [u64; 2]) -> Printed {
        Printed { kernels: kernels as usize, kilobytes }
    }
    PrintedCell { name, declared: printed(declared), planned: printed(planned) }
}
