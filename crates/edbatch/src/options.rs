//! Options of engines and of runs.

use std::sync::Arc;

use edbatch_policy::AnyPolicy;
use edbatch_runtime::{Precision, ThreadPool};

use crate::EngineError;

/// Options of an engine, fixed when it is built.
///
/// Results are bit-identical under all options but [`precision`](Self::precision).
///
/// ```
/// # use edbatch::{Engine, EngineOptions};
/// # use edbatch::models::{Model, TreeLstm, TreeSizes};
/// # use edbatch::runtime::Parameters;
/// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
/// # let model = TreeLstm::new(TreeSizes { vocabulary: 9, embed: 4, hidden: 4, classes: 2 })?;
/// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// # let parameters = Parameters::random(model.network(), &mut rng);
/// let options = EngineOptions::new().threads(2).counts();
/// let engine = Engine::with_options(model, parameters, options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct EngineOptions {
    pub(crate) threads: Option<usize>,
    pub(crate) pool: Option<ThreadPool>,
    pub(crate) policy: Option<AnyPolicy>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) fold_tables: Option<u64>,
    pub(crate) precision: Option<Precision>,
    pub(crate) counts: bool,
    pub(crate) chain: Option<usize>,
}

impl EngineOptions {
    /// The defaults: one thread, the default [`Scheduler`](edbatch_policy::Scheduler), no memory
    /// limit, no folded tables, `f32`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads for each mini-batch, 1 to [`ThreadPool::MAX_THREADS`], including
    /// the caller's. Mini-batches of at least 4 inputs per thread are divided between the threads;
    /// in smaller ones the threads share each batch.
    ///
    /// Several threads lower the latency of a mini-batch. If mini-batches are always waiting, one
    /// engine per thread ([`Engine::fork`](crate::Engine::fork)) has a higher throughput.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Runs on all threads of an existing pool, instead of starting threads. A custom backend may
    /// use the same pool for mini-batches that are not divided into parts.
    #[must_use]
    pub fn pool(mut self, pool: ThreadPool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Sets the policy that picks batches.
    #[must_use]
    pub fn policy(mut self, policy: AnyPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Rejects graphs whose values and weights together need more than this number of bytes, before
    /// they run. If inputs await values, a mini-batch has several graphs, and any of them may be
    /// rejected. Not available with several threads, since each thread holds its own values.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Folds tables, smallest first, up to this number of bytes for all folded tables (default 0:
    /// none). A folded table holds, for each row of a table, the results that depend on this row
    /// only, such as products with a word's embedding. They are computed when the engine is built,
    /// and mini-batches only read them.
    ///
    /// For engines that run many mini-batches on fixed weights. Building takes longer, and the
    /// folded tables count as weights in memory; [forks](crate::Engine::fork) share them. Not
    /// available with [`Engine::with_backend`](crate::Engine::with_backend), where the program
    /// decides ([`Program::fold_tables`](edbatch_layout::Program::fold_tables)).
    #[must_use]
    pub fn fold_tables(mut self, max_bytes: u64) -> Self {
        self.fold_tables = Some(max_bytes);
        self
    }

    /// Sets the precision of products of weights and vectors. With [`Precision::Bf16`], results
    /// have about three digits, and other bits; they are as independent of mini-batches, policies
    /// and threads as in `f32`. On CPUs with an instruction for bf16 the speed is 1.4 to 2.3 times
    /// as high.
    ///
    /// Not available with [`Engine::with_backend`](crate::Engine::with_backend), where the backend
    /// decides. Training is in `f32` alone.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Sets the number of steps of a decoder that share a graph
    /// ([`Build::chain`](edbatch_models::Build::chain)), at least 1. By default the backend chooses
    /// ([`Backend::chain`](edbatch_runtime::Backend::chain)): 1 on a CPU, 8 on a device. Steps
    /// after the end of a sentence are computed and dropped
    /// ([`Statistics::dropped_steps`](crate::Statistics::dropped_steps)).
    #[must_use]
    pub fn chain(mut self, steps: usize) -> Self {
        self.chain = Some(steps);
        self
    }

    /// Also counts gathered bytes, the batches of each kind, and lower bounds on the number of
    /// batches. This takes about as long as scheduling.
    #[must_use]
    pub fn counts(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Returns the pool of the options, or starts a new one.
    ///
    /// # Errors
    /// If the system fails to start a thread.
    pub(crate) fn take_pool(&mut self) -> Result<ThreadPool, EngineError> {
        let threads = self.threads.unwrap_or(1);
        let started = || ThreadPool::try_new(threads);
        let pool = self.pool.take().map_or_else(started, Ok);
        pool.map_err(|error| EngineError::CannotStart { threads, error: Arc::new(error) })
    }

    /// Rejects incompatible options.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let of_pool = self.pool.as_ref().map(ThreadPool::threads);
        let threads = self.threads.or(of_pool).unwrap_or(1);
        if let Some(pool) = of_pool.filter(|&pool| pool != threads) {
            return Err(EngineError::ThreadsOfPool { threads, pool });
        }
        if !(1..=ThreadPool::MAX_THREADS).contains(&threads) {
            return Err(EngineError::Threads { threads });
        }
        if self.memory_limit.is_some() && threads > 1 {
            return Err(EngineError::MemoryLimitWithThreads { threads });
        }
        match (self.fold_tables, self.memory_limit) {
            (Some(tables), Some(limit)) if tables > limit => {
                Err(EngineError::FoldedTablesOverLimit { tables, limit })
            }
            _ => Ok(()),
        }
    }
}

/// Options of one run.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    pub(crate) still_wanted: &'a (dyn Fn(usize) -> bool + Sync),
    pub(crate) only_finite: bool,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self { still_wanted: &|_| true, only_finite: false }
    }
}

impl<'a> RunOptions<'a> {
    /// The defaults: every input is run to its end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a function that returns false for the index of an input to cancel. It is called from
    /// all threads of the engine, before each round, for each input that is running or about to
    /// begin. A cancelled input ends with [`Cancelled`](crate::InputError::Cancelled).
    #[must_use]
    pub fn still_wanted(mut self, still_wanted: &'a (dyn Fn(usize) -> bool + Sync)) -> Self {
        self.still_wanted = still_wanted;
        self
    }

    /// Fails inputs with an output that has a NaN or an infinity, also if only the indices of
    /// largest elements are returned. Such an input runs to its end, and then fails with
    /// [`NotFiniteOutput`](crate::InputError::NotFiniteOutput).
    #[must_use]
    pub fn only_finite(mut self) -> Self {
        self.only_finite = true;
        self
    }
}
