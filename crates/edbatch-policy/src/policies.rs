//! The policies, except for searches.

mod agenda;
mod by_depth;
mod critical;
mod depth;
mod early_outputs;
mod encoding;
mod fsm;
mod in_order;
mod look_ahead;
mod pair_rule;
mod states;
mod sufficient;

pub use agenda::Agenda;
pub use by_depth::ByDepth;
pub use critical::Critical;
pub use depth::Depth;
pub(crate) use early_outputs::EarlyOutputs;
pub use encoding::{Encoding, Symbol, UnknownEncoding};
pub use fsm::{Fsm, FsmTable};
pub use in_order::InOrder;
pub use look_ahead::LookAhead;
pub use pair_rule::PairRule;
pub(crate) use states::States;
pub use sufficient::Sufficient;
