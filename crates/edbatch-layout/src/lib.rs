//! Memory planning for ED-Batch: where every tensor lives, so that batches read and write
//! contiguous memory.
#![forbid(unsafe_code)]

pub mod aligned;
mod cell_costs;
mod cell_plan;
mod check;
mod check_cell;
mod compile;
mod inner_batches;
mod names;
mod paper_cells;
mod picture;
mod plan;
mod planner;
mod program;
mod record_layout;

pub use cell_costs::{CellCosts, Compared, Copied, Moved, cell_costs};
pub use cell_plan::{
    Base, CellPlan, CellStep, Elementwise, Hoisted, Mode, Place, Register, Scalar,
};
pub use check::{PlanError, check};
pub use check_cell::check_cell;
pub use compile::CellStyle;
pub use inner_batches::inner_batches;
pub use paper_cells::{PAPER_CELLS, paper_cell};
pub use picture::{cell_dot, cell_text};
pub use plan::{Action, Operand, Plan, Step};
pub use planner::{ArenaTooLarge, Given, Planner};
pub use program::{Program, TooLarge};
pub use record_layout::{LINE, RecordLayout, next_line};
