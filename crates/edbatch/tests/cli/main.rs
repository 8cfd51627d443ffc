//! The command as its users run it: folders made by `init`, results compared, errors read.

mod support;

mod cells;
mod check_finite;
#[cfg(feature = "cuda")]
mod devices;
mod goldens;
mod hostile;
mod infer;
mod killed;
mod on_error;
mod policies;
mod shard_failures;
mod shards;
mod trace;
