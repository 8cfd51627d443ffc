//! The loop over rounds: wire inputs into a graph, schedule it, plan it, run the plan and read the
//! results. Rounds repeat until every input has ended.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::mem;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use edbatch_graph::{Dag, Graph, Value};
use edbatch_layout::{Plan, Program, Want};
use edbatch_models::{Build, BuildError, Mailbox, Model};
use edbatch_policy::{AnyPolicy, Scheduler};
use edbatch_runtime::kernels::{ArgMax, OutOfMemory};
use edbatch_runtime::{
    Backend, BackendError, Given, GivenPlace, Outputs, Part, Rows, StoredRow, ThreadPool, span,
};
use smallvec::SmallVec;

use crate::decide::Decision;
use crate::output::{OUTPUT_ROWS, Output, Results, Sink};
use crate::rendezvous::Rendezvous;
use crate::statistics::Tally;
use crate::store::Store;
use crate::wiring::{Admission, Instances, Round};
use crate::{InputError, RunError, Session, SessionOptions};

/// A backend, and a slot for each thread that runs parts of mini-batches on it.
pub(crate) struct Rounds {
    program: Arc<Program>,
    backend: RwLock<Box<dyn Backend>>,
    /// The network's initial values.
    initial: Rows,
    slots: Vec<Mutex<Slot>>,
    /// Collects the parts of a round that run in different slots.
    pub(crate) rendezvous: Rendezvous,
    /// The steps of a decoder that share a graph.
    pub(crate) chain: usize,
}

/// The decision, the plan and the graph of one part of a mini-batch. The memory is kept for the
/// next mini-batch.
#[derive(Default)]
struct Slot {
    decision: Decision,
    plan: Plan,
    /// The graph of the last run, kept for its memory.
    graph: Option<Graph>,
    round: Round,
    /// The rows of carried values.
    store: Store,
    /// The carried values of the last round, in the order of the graph's given values.
    carried: Vec<StoredRow>,
    places: Vec<GivenPlace>,
    /// The carried values of this round, in the order of its wanted values.
    carrying: Vec<StoredRow>,
}

/// An upper bound on the memory for the schedule and the plan of a graph, in bytes per node.
pub(crate) const LIST_BYTES: usize = 160;

impl Rounds {
    /// Creates the loop with `slots` slots on this backend, which fork the decision.
    pub(crate) fn new(
        program: Arc<Program>,
        backend: Box<dyn Backend>,
        initial: Rows,
        decision: &Decision,
        slots: usize,
    ) -> Self {
        let slot = |_| {
            let (decision, store) = (decision.fork(), Store::new(&program));
            Mutex::new(Slot { decision, store, ..Slot::default() })
        };
        let (slots, chain) = ((0..slots).map(slot).collect(), backend.chain());
        let (backend, rendezvous) = (RwLock::new(backend), Rendezvous::default());
        Self { program, backend, initial, slots, rendezvous, chain }
    }

    /// Creates the loop with one slot on a fork of the backend, with the same policy.
    pub(crate) fn fork(&self) -> Self {
        let (program, initial) = (self.program.clone(), self.initial.clone());
        let fork = Self::new(program, self.backend().fork(), initial, &self.slot(0).decision, 1);
        Self { chain: self.chain, ..fork }
    }

    /// Creates an empty session on a fork of the backend, with the same policy. The session may use
    /// the threads of the pool.
    pub(crate) fn session(&self, pool: &ThreadPool, options: SessionOptions) -> Session {
        let backend = match pool.threads() {
            1 => self.backend().fork(),
            _ => self.backend().fork_with_pool(pool.clone()),
        };
        let (program, initial) = (self.program.clone(), self.initial.clone());
        let decision = self.slot(0).decision.for_session();
        Session::new(program, backend, initial, decision, options)
    }

    /// Runs inputs in a slot, and returns the counts and times. `sink` takes each input's outputs,
    /// or its error.
    pub(crate) fn run<M: Model, I: Borrow<M::Input>, O: Output>(
        &self,
        slot: usize,
        model: &M,
        inputs: impl IntoIterator<Item = I>,
        admission: Admission<'_>,
        sink: &mut impl Sink<O>,
    ) -> Result<Tally, RunError> {
        self.run_rounds(slot, model, inputs, admission, sink, |_, _| Ok(ControlFlow::Continue(())))
    }

    /// Returns the graphs of inputs, one for each round. Runs a graph only if an input awaits one
    /// of its values.
    pub(crate) fn graphs<M: Model>(
        &self,
        model: &M,
        inputs: &[M::Input],
    ) -> Result<Vec<Graph>, RunError> {
        let mut graphs = Vec::new();
        let admission = Admission::new(inputs.len(), &|_| true);
        let ignore = &mut |_: usize, _: Result<&mut Rows, InputError>| {};
        self.run_rounds(0, model, inputs, admission, ignore, |graph, round| {
            round.first_failure()?;
            graphs.push(graph.clone());
            Ok(if round.waits() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(graphs)
    }

    /// Wires an input up to its end or its first await. Returns the number of its nodes, and true
    /// if it awaits a value.
    pub(crate) fn probe<M: Model>(&self, model: &M, input: &M::Input) -> (usize, bool) {
        let mut found = (0, false);
        let ignore = &mut |_: usize, _: Result<&mut Rows, InputError>| {};
        let admission = Admission::new(1, &|_| true);
        let wired = self.run_rounds(0, model, [input], admission, ignore, |graph, round| {
            found = (graph.nodes(), round.waits());
            Ok(ControlFlow::Break(()))
        });
        wired.expect("only plans fail");
        found
    }

    /// Runs rounds until every input has ended. `each` is called before each round runs, and may
    /// end the loop.
    fn run_rounds<M: Model, I: Borrow<M::Input>, O: Output>(
        &self,
        slot: usize,
        model: &M,
        inputs: impl IntoIterator<Item = I>,
        admission: Admission<'_>,
        sink: &mut impl Sink<O>,
        mut each: impl FnMut(&Graph, &Round) -> Result<ControlFlow<()>, RunError>,
    ) -> Result<Tally, RunError> {
        let number = slot;
        let mut slot = self.slot(number);
        slot.drop_carried();
        slot.decision.tally = slot.decision.tally.cleared();
        let graph = slot.graph.take().unwrap_or_else(|| Graph::new(self.program.network().clone()));
        // The inputs' futures write the graph; between polls, this function reads it.
        let graph = RefCell::new(graph);
        graph.borrow_mut().clear();
        let mut inputs = inputs.into_iter();
        let mut instances = Instances::new(admission.only_finite);
        let chain = self.chain;
        let mut start =
            |mailbox| inputs.next().map(|input| wire(model, input, &graph, mailbox, chain));
        loop {
            let _round = span!(DEBUG, "round");
            let wiring = Instant::now();
            let wired = {
                let _stage = span!(DEBUG, "construct");
                instances.wire(&graph, admission, &mut start, &mut slot.round)
            };
            slot.decision.tally.statistics.construct += wiring.elapsed();
            if !wired || each(&graph.borrow(), &slot.round)?.is_break() {
                break;
            }
            slot.place_carried(&graph.borrow())?;
            let Slot { decision, plan, round, .. } = &mut *slot;
            decision.decide(&self.program, &graph.borrow(), &round.wanted, |planner, it| {
                Ok(planner.plan(it, plan)?)
            })?;
            decision.check_memory(self.backend().bytes_of(plan), &**self.backend())?;
            let executing = Instant::now();
            {
                let _stage = span!(DEBUG, "execute");
                // The thread that arrives last locks the slots of all threads.
                drop(slot);
                self.rendezvous.arrive(number, |slots| self.execute(slots))?;
                slot = self.slot(number);
            }
            let Slot { decision, plan, round, .. } = &mut *slot;
            decision.tally.statistics.execute += executing.elapsed();
            if let Some(counts) = decision.tally.rounds.iter_mut().find(|round| round.0 == 0) {
                *counts = (round.turns.len(), graph.borrow().nodes());
            }
            decision.count(&self.program, &graph.borrow(), &[plan]);
            let _stage = span!(DEBUG, "read");
            let (reading, backend) = (Instant::now(), self.backend());
            instances.resume(&graph, round, &backend.outputs(number, plan), sink)?;
            drop(backend);
            decision.tally.statistics.execute += reading.elapsed();
            slot.carry();
        }
        slot.decision.tally.statistics.instances += instances.begun as u64;
        slot.decision.tally.statistics.dropped_steps += instances.dropped as u64;
        // The futures borrow the graph, whose memory is kept for the next run.
        drop(instances);
        slot.graph = Some(graph.into_inner());
        Ok(slot.decision.tally.clone())
    }

    /// Runs the plans of these slots.
    fn execute(&self, slots: &[usize]) -> Result<(), BackendError> {
        let guards: SmallVec<[_; 1]> = slots.iter().map(|&slot| self.slot(slot)).collect();
        let part = |(&slot, guard)| {
            let Slot { plan, places, round, .. }: &Slot = guard;
            let given = Given { initial: &self.initial, places, host: &round.given };
            Part { slot, plan, given }
        };
        let of_slots = guards.iter().map(|guard| &**guard);
        let parts: SmallVec<[_; 1]> = slots.iter().zip(of_slots).map(part).collect();
        let mut backend = self.backend.write().unwrap_or_else(PoisonError::into_inner);
        for (&slot, guard) in slots.iter().zip(&guards) {
            if guard.store.end() > 0 {
                backend.reserve_store(slot, guard.store.end())?;
            }
        }
        backend.run(&parts)
    }

    /// Sets the policy of all slots.
    pub(crate) fn set_policy(&self, policy: &AnyPolicy) {
        for slot in 0..self.slots.len() {
            self.slot(slot).decision.scheduler = Scheduler::by(policy.fork());
        }
    }

    /// Returns true unless the caller set the policy.
    pub(crate) fn schedules_by_default(&self) -> bool {
        self.slot(0).decision.scheduler.is_default()
    }

    pub(crate) fn backend(&self) -> RwLockReadGuard<'_, Box<dyn Backend>> {
        self.backend.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a slot, even after a panic: every run resets it first.
    fn slot(&self, slot: usize) -> MutexGuard<'_, Slot> {
        self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Takes a row of the store for each carried value of the round.
    fn place_carried(&mut self, graph: &Graph) -> Result<(), BackendError> {
        let Self { store, round, carrying, .. } = self;
        let record = |value| graph.record_of(value).expect("checked when it was wanted");
        let carried = |(_, want): &&(Value, Want)| matches!(want, Want::Store(_));
        let records = round.wanted.iter().filter(carried).map(|&(value, _)| record(value));
        store.reserve(records)?;
        carrying.clear();
        for (value, want) in &mut round.wanted {
            if let Want::Store(line) = want {
                let record = record(*value);
                *line = store.take(record);
                carrying.push(StoredRow { record, line: *line });
            }
        }
        Ok(())
    }

    /// Frees the values that were carried to the round that has run. Those that it carries are the
    /// first given values of the next one.
    fn carry(&mut self) {
        let Self { store, carried, places, carrying, .. } = self;
        carried.iter().for_each(|row| store.free(row.record, row.line));
        mem::swap(carried, carrying);
        places.clear();
        places.extend(carried.iter().map(|row| GivenPlace::Stored(row.line)));
    }

    /// Frees all carried values.
    fn drop_carried(&mut self) {
        self.store.clear();
        self.carried.clear();
        self.places.clear();
    }
}

/// Wires one input.
async fn wire<M: Model, I: Borrow<M::Input>>(
    model: &M,
    input: I,
    graph: &RefCell<Graph>,
    mailbox: Rc<RefCell<Mailbox>>,
    chain: usize,
) -> Result<(), BuildError> {
    model.build(&Build::new(graph, &mailbox).with_chain(chain), input.borrow()).await
}

impl Results for Outputs<'_> {
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError> {
        for field in self.fields(wanted) {
            elements.try_reserve(field.len()).map_err(|_| BackendError::Memory {
                what: OUTPUT_ROWS,
                bytes: 4 * (elements.len() + field.len()) as u64,
            })?;
            elements.extend_from_slice(field);
        }
        Ok(())
    }

    fn append_rows(&self, wanted: Range<usize>, rows: &mut Rows) -> Result<(), BackendError> {
        Outputs::append(self, wanted, rows)
            .map_err(|OutOfMemory { bytes }| BackendError::Memory { what: OUTPUT_ROWS, bytes })
    }

    fn arg_max(&self, wanted: usize) -> ArgMax {
        Outputs::arg_max(self, wanted)
    }
}
