//! Options of trainers.

use edbatch_policy::AnyPolicy;
use edbatch_runtime::ThreadPool;

use crate::EngineOptions;

/// Options of a [`Trainer`](crate::Trainer), fixed when it is built.
///
/// Gradients have the same bits under all options.
#[derive(Default)]
pub struct TrainerOptions {
    pub(super) engine: EngineOptions,
    pub(super) given_gradients: bool,
    pub(super) frozen: Vec<String>,
}

impl TrainerOptions {
    /// The defaults: one thread, the default scheduler, no memory limit, all parameters trained.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads, as for [engines](EngineOptions::threads).
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.engine = self.engine.threads(threads);
        self
    }

    /// Runs on all threads of an existing pool, instead of starting threads.
    #[must_use]
    pub fn pool(mut self, pool: ThreadPool) -> Self {
        self.engine = self.engine.pool(pool);
        self
    }

    /// Sets the policy that picks batches, such as a learned one.
    #[must_use]
    pub fn policy(mut self, policy: AnyPolicy) -> Self {
        self.engine = self.engine.policy(policy);
        self
    }

    /// Limits the bytes for weights and for the values and gradients of a part of a mini-batch.
    /// [`accumulate`](crate::Trainer::accumulate) halves parts until they fit. Not available with
    /// several threads.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.engine = self.engine.memory_limit(bytes);
        self
    }

    /// Also counts batches of each kind and lower bounds, as for [engines](EngineOptions::counts).
    /// Batches of the way back are not counted: they are those of the way forward.
    #[must_use]
    pub fn counts(mut self) -> Self {
        self.engine = self.engine.counts();
        self
    }

    /// Also computes the gradients of given rows, which
    /// [`backward`](crate::Trainer::backward) returns.
    #[must_use]
    pub fn given_gradients(mut self) -> Self {
        self.given_gradients = true;
        self
    }

    /// Does not train the parameters whose names begin with `prefix`. Their gradients are not
    /// computed.
    #[must_use]
    pub fn frozen(mut self, prefix: impl Into<String>) -> Self {
        self.frozen.push(prefix.into());
        self
    }
}
