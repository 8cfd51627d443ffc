//! Commands that make model folders and policies, and inputs with their targets.

pub(crate) mod examples;
pub(crate) mod export;
pub(crate) mod init;
pub(crate) mod learn;
mod learning_data;
