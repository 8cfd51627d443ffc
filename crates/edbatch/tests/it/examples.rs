//! The examples, as modules. Their `main` is not used.

// Two examples have a module in common.
#![allow(clippy::duplicate_mod, dead_code, missing_docs)]

#[path = "../../examples/attention_decoder.rs"]
pub(crate) mod attention_decoder;
#[path = "../../examples/child_sum.rs"]
pub(crate) mod child_sum;
#[path = "../../examples/crf.rs"]
pub(crate) mod crf;
#[path = "../../examples/dag.rs"]
pub(crate) mod dag;
#[path = "../../examples/dagnn.rs"]
pub(crate) mod dagnn;
#[path = "../../examples/derivations/main.rs"]
pub(crate) mod derivations;
#[path = "../../examples/early_exit.rs"]
pub(crate) mod early_exit;
#[path = "../../examples/1_own_model.rs"]
pub(crate) mod own_model;
#[path = "../../examples/plans/main.rs"]
pub(crate) mod plans;
#[path = "../../examples/4_train.rs"]
pub(crate) mod train;
#[path = "../../examples/tree_transformer.rs"]
pub(crate) mod tree_transformer;
#[path = "../../examples/3_walkthrough.rs"]
pub(crate) mod walkthrough;
#[path = "../../examples/word_vectors.rs"]
pub(crate) mod word_vectors;
