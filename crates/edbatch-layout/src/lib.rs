//! Memory planning for ED-Batch: where every tensor is stored, so that batches read and write
//! contiguous memory.
//!
//! - **Inside a cell**, once, when a model is loaded: [`Program::new`] compiles the equations of
//!   every cell to a [`CellPlan`], a few steps over scratch memory. It takes well under a
//!   millisecond per cell. [`cell_text`] and [`cell_dot`] draw a plan, [`CellPlan::moved`] counts
//!   its copies, and [`Program::copied`] explains them.
//! - **Across batches**, for each mini-batch: [`Planner`] gives every node a row in one array, the
//!   arena, and frees the rows of a batch after their last reader. [`check`] proves a plan legal.
//! - **[`aligned`]** is the search used inside cells. It finds an order of variables in memory that
//!   lets batches read their operands in place.
//!
//! ```
//! use edbatch_graph::Kind;
//! use edbatch_layout::{CellStyle, Program, paper_cell};
//!
//! let network = paper_cell("LSTMCell", 64).unwrap()?;
//! let program = Program::new(network.into(), CellStyle::Planned)?;
//! assert_eq!(program.cell(Kind(0)).steps.len(), 3);
//! assert_eq!(program.cell(Kind(0)).moved(8).bytes, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Source*: section 3 of the paper; each module documents its differences.
#![forbid(unsafe_code)]

pub mod aligned;
mod cell_plan;
mod check;
mod check_cell;
mod check_folding;
mod compile;
mod copied;
mod distinct;
mod elementwise;
#[cfg(test)]
mod error_texts;
mod inner_batches;
mod inner_problem;
mod names;
mod paper_cells;
mod paper_rule;
mod picture;
mod plan;
mod planner;
mod program;
mod record_layout;
mod training_plan;

pub use cell_plan::{
    AttentionFields, Base, CellPlan, CellStep, Extent, Hoisted, Mode, Moved, Place, RowKernel,
    RowStep, Scores, Signature, Weight,
};
pub use check::{PlanError, check, check_store, check_training};
pub use check_cell::check_cell;
pub use check_folding::check_folding;
pub use compile::CellStyle;
pub use copied::Copied;
pub use elementwise::{Assignment, Elementwise, Form, Operation, Register};
pub use inner_batches::inner_batches;
pub use paper_cells::{PAPER_CELLS, paper_cell};
pub use paper_rule::{Compared, paper_rule};
pub use picture::{cell_dot, cell_text};
pub use plan::{Action, CellPart, Lookup, Operand, Plan, Step, ValueRow, Want};
pub use planner::{Addressed, ArenaTooLarge, Lifetimes, MiniBatch, Planner};
pub use program::{FoldedTable, Program, TooLarge, batches_of, compile_cell};
pub use record_layout::{LINE, RecordLayout, next_line};
pub use training_plan::{CallSums, GivenSum, TrainingPlan};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
