//! Figures printed in the paper's evaluation: all memory costs, and parts of other tables.
//!
//! The rule inferred by [`paper_rule`](edbatch_layout::paper_rule) reproduces all planned figures
//! except for TreeLSTM-Internal, 3 kernels and 22 kB. Its eight products of one shape account
//! for 1 kernel and 16 kB. The rest of the cell has an ideal layout, which the planner finds. We
//! know no rule that explains the other two kernels and 6 kB. The declared figures depend on the
//! order in which the equations are written; for GRUCell, TreeGRU-Leaf and TreeLSTM-Leaf they
//! agree with the paper. MVCell's differ because its input matrices are not in the order that its
//! products need, which the paper does not count.
//!
//! *Source*: the paper, table "memory kernels", at batch 8 and size 64.

/// The cell; memory kernels and kB (1024 bytes) copied, first with variables as declared, then as
/// planned; and the compile time in ms, from the table "static subgraph compile time".
pub type PrintedCell = (&'static str, [u64; 2], [u64; 2], f64);

/// The paper's table "memory kernels".
pub const PAPER_TABLE: [PrintedCell; 7] = [
    ("GRUCell", [6, 666], [2, 14], 4.82),
    ("LSTMCell", [4, 1054], [1, 16], 12.95),
    ("MVCell", [2, 260], [2, 260], 1.53),
    ("TreeGRU-Internal", [8, 552], [2, 16], 10.43),
    ("TreeGRU-Leaf", [4, 268], [2, 8], 2.91),
    ("TreeLSTM-Internal", [7, 1064], [3, 22], 29.89),
    ("TreeLSTM-Leaf", [3, 396], [1, 6], 3.64),
];

/// By model: speedup of the paper's system over Cavs DyNet on its CPU (section "overall
/// performance"), as means or ranges over sizes.
pub const SPEEDUPS: [(&str, &str); 7] = [
    ("bilstm_tagger", "1.20"),
    ("lstm_nmt", "1.11"),
    ("tree_lstm", "1.63"),
    ("tree_gru", "1.46"),
    ("mv_rnn", "close to 1"),
    ("lattice_lstm", "1.32-2.97"),
    ("lattice_gru", "1.32-2.97"),
];

/// By model: seconds and iterations from the table "RL training time".
pub const LEARNING: [(&str, f64, usize); 8] = [
    ("tree_lstm", 0.154, 50),
    ("tree_gru", 0.141, 50),
    ("mv_rnn", 0.254, 50),
    ("tree_lstm_2type", 2.217, 1000),
    ("bilstm_tagger", 1.629, 50),
    ("bilstm_tagger_char", 6.268, 50),
    ("lattice_lstm", 21.733, 1000),
    ("lattice_gru", 4.911, 1000),
];

/// A model, the size of its vectors, and the size of mini-batches.
pub type CortexKey = (&'static str, usize, usize);

/// The table "ED-Batch vs. Cortex". By model, size of vectors and size of mini-batches:
/// milliseconds of Cortex and of the paper's system for a mini-batch on a V100.
pub const CORTEX: [(CortexKey, [f64; 2]); 8] = [
    (("tree_lstm", 256, 10), [2.244, 2.78]),
    (("tree_lstm", 256, 20), [3.46, 3.52]),
    (("tree_lstm", 512, 10), [8.5, 4.7]),
    (("tree_lstm", 512, 20), [19.21, 4.82]),
    (("tree_gru", 256, 10), [2.3, 2.27]),
    (("tree_gru", 256, 20), [3.73, 3.03]),
    (("tree_gru", 512, 10), [5.6, 3.04]),
    (("tree_gru", 512, 20), [11.7, 3.7]),
];
