//! The sums that gradients of parameters consist of, and the lists of them that devices read.
//!
//! All sums and gradients are in one memory. Its first part depends only on the program: the
//! gradients of parameters and the sums that are added to them. It is followed by the sums of rows
//! of tables that a mini-batch names, in the order in which it names them.

mod list;
mod table;
mod totals;

pub(crate) use list::{Added, FIELD, Lists, ROW};
#[cfg(test)]
pub(crate) use table::tiles;
pub(crate) use table::{SumTable, TILE};
pub(crate) use totals::{Completed, TotalList};
