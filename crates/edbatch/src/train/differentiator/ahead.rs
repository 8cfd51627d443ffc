//! Mini-batches that are wired, scheduled and planned while earlier ones run.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::slice;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use edbatch_layout::Program;
use edbatch_models::{Model, Targets};
use edbatch_runtime::{
    BackPart, Given, NotFiniteIn, OutputGradients, Part, Rows, StillWanted, TrainingPart,
    TrainingStep,
};

use super::{Differentiator, Pass, training};
use crate::train::dropout::Dropout;
use crate::train::updater::Updater;
use crate::train::{Times, TrainReport};
use crate::{TrainError, statistics::Tally};

/// A mini-batch of the caller.
type Batch<I, T> = (I, T);

/// A mini-batch from the time it is read to its result.
struct Job<B> {
    number: u64,
    batch: B,
    pass: Pass,
    decided: Result<(), TrainError>,
    time: Duration,
}

/// A model and a program, to decide mini-batches.
struct Decider<'a, M> {
    model: &'a M,
    program: &'a Program,
    dropout: &'a Dropout,
    still_wanted: Option<&'a StillWanted>,
    /// The number of updates before the first mini-batch, and of inputs accumulated before it.
    steps: u64,
    accumulated: u64,
}

impl<M: Model> Decider<'_, M> {
    fn decide<I: AsRef<[M::Input]>, T: AsRef<[Targets]>>(&self, job: &mut Job<Batch<I, T>>) {
        let began = Instant::now();
        let (inputs, targets) = (job.batch.0.as_ref(), job.batch.1.as_ref());
        job.decided = if inputs.len() == targets.len() {
            let first = if job.number == 0 { self.accumulated } else { 0 };
            let dropout = (self.dropout, self.steps + job.number, first);
            let (of, part) = ((self.program, self.still_wanted), 0..inputs.len());
            job.pass.decide(of, self.model, inputs, (part, Some(targets)), dropout)
        } else {
            let (inputs, targets) = (inputs.len(), targets.len());
            Err(TrainError::TargetsOfInputs { inputs, targets })
        };
        job.time = began.elapsed();
    }
}

/// Decides mini-batches until the caller sends no more. Sends `None` if it panics.
fn help<B>(
    jobs: &Mutex<Receiver<Job<B>>>,
    done: Sender<Option<Job<B>>>,
    decide: impl Fn(&mut Job<B>),
) {
    let done = Done(done);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(mut job) = next() {
        decide(&mut job);
        // The caller may have ended early.
        let _ = done.0.send(Some(job));
    }
}

struct Done<B>(Sender<Option<Job<B>>>);

impl<B> Drop for Done<B> {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(None);
        }
    }
}

type Decide<'a, B> = dyn Fn(&mut Job<B>) + 'a;

/// The caller's side of the threads that decide, or a function that decides at once.
struct Deciders<'a, B> {
    jobs: Sender<Job<B>>,
    done: Receiver<Option<Job<B>>>,
    /// Decided mini-batches, in any order.
    decided: Vec<Job<B>>,
    at_once: Option<&'a Decide<'a, B>>,
}

impl<B> Deciders<'_, B> {
    fn push(&mut self, mut job: Job<B>) {
        match self.at_once {
            Some(decide) => {
                decide(&mut job);
                self.decided.push(job);
            }
            None => self.jobs.send(job).expect("the receiver exists until the end"),
        }
    }

    /// Returns a mini-batch once it is decided. `None` if a thread has panicked.
    fn take(&mut self, number: u64) -> Option<Job<B>> {
        loop {
            if let Some(index) = self.decided.iter().position(|job| job.number == number) {
                return Some(self.decided.swap_remove(index));
            }
            self.decided.push(self.done.recv().ok()??);
        }
    }
}

/// Why training ended early.
enum Failure<B> {
    Error(TrainError),
    NotFinite(NotFiniteIn, Box<Job<B>>),
}

impl<M: Model> Differentiator<M> {
    /// Returns true if the backend runs a step while the next one is enqueued. A memory limit may
    /// divide mini-batches, which is not done ahead.
    pub(in crate::train) fn runs_ahead(&mut self) -> bool {
        !self.passes[0].decision.has_memory_limit() && training(&mut self.backend).runs_ahead()
    }

    /// Trains on mini-batches. See [`Trainer::train_each`](crate::Trainer::train_each).
    pub(in crate::train) fn train_ahead<I, T>(
        &mut self,
        updater: &mut Updater,
        mini_batches: impl Iterator<Item = Batch<I, T>>,
        each: impl FnMut(TrainReport) -> ControlFlow<()>,
    ) -> Result<(), TrainError>
    where
        I: AsRef<[M::Input]> + Send,
        T: AsRef<[Targets]> + Send,
    {
        // Results of a loop that has panicked.
        while !matches!(training(&mut self.backend).step_ahead(None), Ok(None)) {}
        self.forward = 0;
        self.set = None;
        let steps = updater.steps;
        let accumulated = self.accumulated;
        let decider = Decider {
            model: &self.model,
            program: &self.program,
            dropout: &self.dropout,
            still_wanted: self.still_wanted.as_ref(),
            steps,
            accumulated,
        };
        let threads = self.pool.threads();
        let mut running = Running {
            backend: training(&mut self.backend),
            passes: &mut self.passes,
            tally: &mut self.tally,
            times: &mut self.times,
            updater,
            begun: VecDeque::new(),
        };
        let decide = |job: &mut Job<Batch<I, T>>| decider.decide(job);
        let ((jobs, to_decide), (of_threads, done)) = (mpsc::channel(), mpsc::channel());
        let to_decide = Mutex::new(to_decide);
        let ended = thread::scope(|scope| {
            let mut at_once: Option<&Decide<'_, _>> = Some(&decide);
            for number in 0..if threads > 1 { threads } else { 0 } {
                let (to_decide, of_threads) = (&to_decide, of_threads.clone());
                let thread = thread::Builder::new().name(format!("decider {number}"));
                let started =
                    thread.spawn_scoped(scope, move || help(to_decide, of_threads, decide));
                // If the system starts no thread, the caller decides.
                at_once = at_once.filter(|_| started.is_err());
            }
            let deciders = Deciders { jobs, done, decided: Vec::new(), at_once };
            running.run(deciders, mini_batches, threads as u64 + 1, each)
        });
        match ended {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::NotFinite(NotFiniteIn::Input(input), job)) => {
                let (input, step) = (input as usize, steps + job.number);
                if job.number > 0 {
                    self.accumulated = 0;
                }
                let call = self.not_finite_call(job.batch.0.as_ref(), input, step);
                Err(TrainError::NotFiniteLoss { input, call })
            }
            Err(Failure::NotFinite(NotFiniteIn::Parameter(id), _)) => {
                let parameter = self.program.network().parameter(id).name.clone();
                Err(TrainError::NotFiniteGradient { parameter })
            }
        }
    }
}

/// The mini-batches on the backend.
struct Running<'a, B> {
    backend: &'a mut dyn edbatch_runtime::Training,
    /// The first pass, and the memory of others.
    passes: &'a mut Vec<Pass>,
    tally: &'a mut Tally,
    times: &'a mut Times,
    updater: &'a mut Updater,
    /// The mini-batches without a result.
    begun: VecDeque<Job<B>>,
}

impl<I, T> Running<'_, Batch<I, T>> {
    /// Runs mini-batches in order, while up to `ahead` others are decided.
    fn run(
        &mut self,
        mut deciders: Deciders<'_, Batch<I, T>>,
        mini_batches: impl Iterator<Item = Batch<I, T>>,
        ahead: u64,
        mut each: impl FnMut(TrainReport) -> ControlFlow<()>,
    ) -> Result<(), Failure<Batch<I, T>>> {
        let mut mini_batches = mini_batches.fuse();
        let (mut read, mut next) = (0, 0);
        let mut ended = None;
        loop {
            while ended.is_none()
                && read < next + ahead
                && let Some(batch) = mini_batches.next()
            {
                let pass = match self.passes.len() {
                    1 => Pass::new(self.passes[0].decision.fork()),
                    last => self.passes.remove(last - 1),
                };
                let (decided, time) = (Ok(()), Duration::ZERO);
                deciders.push(Job { number: read, batch, pass, decided, time });
                read += 1;
            }
            let mut job = None;
            if ended.is_none() && next < read {
                let Some(taken) = deciders.take(next) else { return Ok(()) };
                next += 1;
                match taken.decided {
                    Ok(()) => job = Some(taken),
                    Err(error) => ended = Some(Err(Failure::Error(error))),
                }
            }
            if job.is_none() && self.begun.is_empty() {
                return ended.unwrap_or(Ok(()));
            }
            let Some(report) = self.step(job)? else { continue };
            if each(report).is_break() && ended.is_none() {
                ended = Some(Ok(()));
            }
        }
    }

    /// Begins a step, and returns the report of the oldest one that has ended.
    fn step(
        &mut self,
        job: Option<Job<Batch<I, T>>>,
    ) -> Result<Option<TrainReport>, Failure<Batch<I, T>>> {
        let result = match job {
            None => self.backend.step_ahead(None),
            Some(job) => {
                let Pass { plan, targets, given, ends, .. } = &job.pass;
                let weight = 1.0 / ends.len().max(1) as f32;
                // Two steps may run at the same time.
                let slot = job.number as usize % 2;
                let given = Given { initial: &Rows::new(), places: &[], host: given };
                let outputs = OutputGradients::CrossEntropy { targets, weight };
                let ends: Vec<u32> = ends.iter().map(|&(end, ..)| end as u32).collect();
                let part = TrainingPart {
                    forward: Part { slot, plan: &plan.forward, given },
                    back: BackPart { slot, plan, outputs },
                    ends: &ends,
                };
                let parts = if ends.is_empty() { &[] } else { slice::from_ref(&part) };
                let update = Some(self.updater.next(None, self.begun.len() as u64));
                let result =
                    self.backend.step_ahead(Some(&TrainingStep { parts, loss: 0.0, update }));
                self.begun.push_back(job);
                result
            }
        };
        let Some(result) = result.map_err(|error| Failure::Error(error.into()))? else {
            return Ok(None);
        };
        let job = self.begun.pop_front().expect("a result of a step that has begun");
        if let Some(not_finite) = result.not_finite {
            return Err(Failure::NotFinite(not_finite, Box::new(job)));
        }
        self.updater.steps += 1;
        self.tally.add(&job.pass.decision.tally);
        let mut times = Times { decide: job.time, ..Times::default() };
        times.add(result.times);
        self.times.decide += job.time;
        self.times.add(result.times);
        self.passes.push(job.pass);
        let gradient_norm = result.squared_norm.sqrt();
        Ok(Some(TrainReport { loss: result.loss, terms: result.terms, gradient_norm, times }))
    }
}
