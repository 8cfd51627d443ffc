//! Inputs of several files, shards of them, and the marks of completed shards.

pub(crate) mod corpus;
pub(crate) mod every_nth_line;
pub(crate) mod shard;
mod shard_mark;
pub(crate) mod shard_run;
pub(crate) mod shards;
