//! Properties of a graph that policies use.

mod bound;
mod chains;
mod kind_frontiers;
mod kind_graph;
mod quotient;

pub use bound::lower_bound;
pub use chains::Chains;
pub use kind_frontiers::KindFrontiers;
pub(crate) use kind_graph::KindGraph;
pub use quotient::quotient;
pub(crate) use quotient::without_kinds;
