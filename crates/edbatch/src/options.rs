//! How an engine is to run mini-batches.

use edbatch_policy::AnyPolicy;
use edbatch_runtime::ThreadPool;

use crate::EngineError;

/// How an engine runs mini-batches; decided once, when it is built.
///
/// None of the options changes a bit of a result.
///
/// ```
/// # use edbatch::{Engine, EngineOptions};
/// # use edbatch::models::{Model, TreeLstm, TreeSizes};
/// # use edbatch::runtime::Parameters;
/// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
/// # let model = TreeLstm::new(TreeSizes { vocabulary: 9, embed: 4, hidden: 4, classes: 2 })?;
/// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// # let parameters = Parameters::random(model.network(), &mut rng);
/// let options = EngineOptions::new().threads(2).plan_cache(64 << 20);
/// let engine = Engine::with_options(model, parameters, options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EngineOptions {
    pub(crate) threads: usize,
    pub(crate) pool: Option<ThreadPool>,
    pub(crate) policy: Option<AnyPolicy>,
    pub(crate) plan_cache: usize,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) fold_tables: Option<u64>,
    pub(crate) counts: bool,
    pub(crate) check_finite: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            pool: None,
            policy: None,
            plan_cache: 0,
            memory_limit: None,
            fold_tables: None,
            counts: false,
            check_finite: false,
        }
    }
}

impl EngineOptions {
    /// One thread, batches as a [`Scheduler`](edbatch_policy::Scheduler) chooses them by default,
    /// no plans kept, no memory limit, no folded tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So many threads for each mini-batch, the caller's among them: 1 to [`ThreadPool::MOST`].
    /// Mini-batches of at least 4 inputs a thread are divided between them; of fewer inputs they
    /// share each batch.
    ///
    /// For mini-batches whose results are wanted soon. Where mini-batches come faster than they are
    /// run, an engine for each thread ([`Engine::another`](crate::Engine::another)) is best.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        (self.threads, self.pool) = (threads, None);
        self
    }

    /// The [`threads`](Self::threads) of a pool that exists, and that a backend of the caller's
    /// choice may claim too, for the batches of what is not divided.
    #[must_use]
    pub fn pool(mut self, pool: ThreadPool) -> Self {
        (self.threads, self.pool) = (pool.threads(), Some(pool));
        self
    }

    /// Batches by this policy.
    #[must_use]
    pub fn policy(mut self, policy: AnyPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Keeps schedules and plans, in at most so many bytes, for graphs of the same topology: calls
    /// that differ only in the rows of tables that they name. The least recently used go first.
    ///
    /// For inputs that come again in the same mini-batches, and for decoders, whose steps are all
    /// alike: [`Statistics::plans_reused`](crate::Statistics::plans_reused) says whether it pays.
    /// Each of several threads keeps its share.
    #[must_use]
    pub fn plan_cache(mut self, bytes: usize) -> Self {
        self.plan_cache = bytes;
        self
    }

    /// Refuses graphs whose values and weights together would take more bytes than this, before
    /// they run. Where instances await values, a mini-batch is several graphs, and a later one may
    /// be the one that is refused. Not for several threads, each of which holds values of its own.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Folds tables, the smallest first, as long as all folded tables take at most so many bytes
    /// (0: none, the default): what a cell makes of a row of a table alone, such as the products of
    /// a word's embedding, is computed when the engine is built, for every row of the table.
    /// Mini-batches read it instead of computing it for the rows that they name.
    ///
    /// For engines that run many mini-batches: it takes a time to build, and memory that counts as
    /// that of weights and is shared with [others](crate::Engine::another). Not for weights that
    /// change. A backend of the caller's choice was loaded with a program in which that is decided
    /// ([`Program::fold_tables`](edbatch_layout::Program::fold_tables)).
    #[must_use]
    pub fn fold_tables(mut self, most_bytes: u64) -> Self {
        self.fold_tables = Some(most_bytes);
        self
    }

    /// Counts lower bounds, gathered bytes and the batches of each kind too, which costs about as
    /// much as scheduling.
    #[must_use]
    pub fn counts(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Looks at the records of all calls, and fails each input of which one has an element that is
    /// not finite ([`InputError::NotFinite`](crate::InputError::NotFinite)), also where what the
    /// input emits would be finite again. The others keep their bits.
    ///
    /// To find out where infinities and NaN come from: no value takes another's memory, every value
    /// is read once more, and the weights are kept beside the backend's. Without the option nothing
    /// of this is done.
    #[must_use]
    pub fn check_finite(mut self) -> Self {
        self.check_finite = true;
        self
    }

    /// Refuses what cannot be had together.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let threads = self.threads;
        if !(1..=ThreadPool::MOST).contains(&threads) {
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

    /// The same for another engine, on the caller's thread; policies are made of its engine's.
    pub(crate) fn another(&self) -> Self {
        let Self { plan_cache, memory_limit, counts, check_finite, .. } = *self;
        Self { plan_cache, memory_limit, counts, check_finite, ..Self::new() }
    }
}

/// How one mini-batch is run.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    pub(crate) still_wanted: &'a (dyn Fn(usize) -> bool + Sync),
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self { still_wanted: &|_| true }
    }
}

impl<'a> RunOptions<'a> {
    /// Every input is run to its end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks before each round, from whichever thread runs it, whether the input of this index is
    /// still wanted. One that is not ends there, as [`Cancelled`](crate::InputError::Cancelled).
    #[must_use]
    pub fn still_wanted(mut self, still_wanted: &'a (dyn Fn(usize) -> bool + Sync)) -> Self {
        self.still_wanted = still_wanted;
        self
    }
}
