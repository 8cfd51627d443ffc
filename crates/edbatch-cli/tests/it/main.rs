//! End-to-end tests of the command: model folders from `init`, results and error messages.

mod support;

mod book;
mod cells;
mod check_finite;
mod classes;
#[cfg(feature = "cuda")]
mod corpora;
mod devices;
mod export;
mod f1;
mod fuzzed;
mod goldens;
mod gradients;
mod hostile;
mod indices;
mod infer;
mod killed;
mod memory_limits;
#[cfg(unix)]
mod model_files;
mod not_finite_metrics;
mod on_error;
mod policies;
mod shard_failures;
mod shards;
mod text_formats;
mod text_labels;
mod trace;
mod train;
mod train_files;
#[cfg(unix)]
mod train_folders;
mod train_options;
mod train_resume;
