//! Memory planning for ED-Batch: where every tensor lives, so that batches read and write
//! contiguous memory.
#![forbid(unsafe_code)]

pub mod aligned;
mod cell_plan;
mod check;
mod check_cell;
mod compile;
mod plan;
mod planner;
mod program;
mod record_layout;

pub use cell_plan::{Base, CellPlan, CellStep, Elementwise, Mode, Place, Register, Scalar};
pub use check::{PlanError, check};
pub use check_cell::check_cell;
pub use compile::CellStyle;
pub use plan::{Operand, Plan, Step};
pub use planner::{ArenaTooLarge, Given, Planner};
pub use program::{Program, TooLarge};
pub use record_layout::{LINE, RecordLayout, next_line};
