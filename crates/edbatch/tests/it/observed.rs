//! A backend that shows its runs to a test.

use std::sync::Arc;

use edbatch_layout::{Lifetimes, Plan, Program};
use edbatch_runtime::{
    Backend, BackendError, Bytes, Outputs, Part, PartLimits, StoredRow, Training,
};

/// A backend with limits of parts and lifetimes of its own, and a function that is called before
/// each run.
pub(crate) struct Observed<F> {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) limits: Option<PartLimits>,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) before_run: F,
}

impl<F: FnMut(&[Part<'_>]) + Send + Sync> Backend for Observed<F> {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        (self.before_run)(parts);
        self.backend.run(parts)
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        self.backend.outputs(slot, plan)
    }

    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError> {
        self.backend.reserve_store(slot, lines)
    }

    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        self.backend.read_stored(slot, rows, to)
    }

    fn bytes(&self) -> Bytes {
        self.backend.bytes()
    }

    /// The fork is not observed.
    fn fork(&self) -> Box<dyn Backend> {
        self.backend.fork()
    }

    fn program(&self) -> Option<&Arc<Program>> {
        self.backend.program()
    }

    fn lifetimes(&self) -> Lifetimes {
        self.lifetimes
    }

    fn training(&mut self) -> Option<&mut dyn Training> {
        self.backend.training()
    }

    fn chain(&self) -> usize {
        self.backend.chain()
    }

    fn division(&self) -> Option<PartLimits> {
        self.limits
    }
}
