//! The instances of a mini-batch on their way: wired until they await a value or end, run, and on.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use edbatch_graph::{Graph, Value};
use edbatch_models::{Answer, Awaited, Build, BuildError, Exchange, Model};

use crate::executor::Executor;
use crate::{Rows, RunError, Statistics};

/// An engine's parts, borrowed for the inputs that are under way.
pub(crate) struct InFlight<'e, M> {
    pub(crate) model: &'e M,
    pub(crate) graph: &'e RefCell<Graph>,
    pub(crate) executor: &'e mut Executor,
    pub(crate) statistics: &'e mut Statistics,
}

impl<M: Model> InFlight<'_, M> {
    /// Runs inputs, at most as many at a time as there are `seats`: when one ends, the next joins the
    /// others. Each seat is a list of rows whose memory is used again.
    ///
    /// `inspect` sees each graph, and whether an instance awaits one of its values; where it says no,
    /// the graph is not run and emits nothing. `done` is told the number of each input that ended and
    /// the rows that it emitted, in the order in which they end; it may take the rows.
    pub(crate) fn run<I: Borrow<M::Input>>(
        self,
        seats: Vec<Rows>,
        inputs: impl IntoIterator<Item = I>,
        mut inspect: impl FnMut(&Graph, bool) -> bool,
        mut done: impl FnMut(usize, &mut Rows),
    ) -> Result<(), RunError> {
        let Self { model, graph, executor, statistics } = self;
        graph.borrow_mut().clear();
        let exchange = RefCell::<Exchange>::default();
        let wire = |input: I| {
            let build = Build::new(graph, &exchange);
            async move { model.build(&build, input.borrow()).await }
        };
        let mut inputs = inputs.into_iter().enumerate();
        let mut seats: Vec<_> = seats.into_iter().map(Seat::new).collect();
        // The values that instances want read: emitted, awaited and carried ones, seat by seat.
        let mut wanted = Vec::new();
        let mut carried = Rows::new();
        loop {
            let constructing = Instant::now();
            for seat in seats.iter_mut().filter(|seat| seat.instance.is_none()) {
                let Some((instance, input)) = inputs.next() else { break };
                seat.instance = Some(instance);
                seat.wiring.set(Some(wire(input)));
                statistics.instances += 1;
            }
            wanted.clear();
            for seat in &mut seats {
                seat.advance(graph, &exchange, &mut wanted)?;
            }
            statistics.construct += constructing.elapsed();
            if seats.iter().all(|seat| seat.instance.is_none()) {
                return Ok(());
            }
            let waiting = seats.iter().any(|seat| seat.wiring.is_some());
            if inspect(&graph.borrow(), waiting) {
                executor.run(&graph.borrow(), &carried, &wanted, statistics)?;
                let reading = Instant::now();
                distribute(executor, &mut graph.borrow_mut(), &mut seats, &mut carried);
                statistics.execute += reading.elapsed();
            }
            for seat in seats.iter_mut().filter(|seat| seat.wiring.is_none()) {
                if let Some(instance) = seat.instance.take() {
                    done(instance, &mut seat.output);
                    seat.output.clear();
                }
            }
        }
    }
}

/// Inputs that have been wired to their end.
#[derive(Default)]
pub(crate) struct Wired {
    /// What they emit, input by input.
    pub(crate) emitted: Vec<Value>,
    /// How many values each of them emits.
    pub(crate) counts: Vec<usize>,
}

/// Wires inputs into an empty graph; `false` if one of them awaits a value.
pub(crate) fn wire<M: Model>(
    model: &M,
    graph: &RefCell<Graph>,
    inputs: &[M::Input],
    wired: &mut Wired,
) -> Result<bool, RunError> {
    let Wired { emitted, counts } = wired;
    emitted.clear();
    counts.clear();
    let exchange = RefCell::<Exchange>::default();
    let build = Build::new(graph, &exchange);
    for (instance, input) in inputs.iter().enumerate() {
        match pin!(model.build(&build, input)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return Ok(false),
            Poll::Ready(result) => result.map_err(|error| RunError::Build { instance, error })?,
        }
        let own = &mut exchange.borrow_mut().emitted;
        if own.iter().any(|&value| graph.borrow().record_of(value).is_none()) {
            return Err(RunError::NotCarried { instance });
        }
        counts.push(own.len());
        emitted.append(own);
    }
    Ok(true)
}

/// Where an instance sits while it runs; another one takes the place when it has ended.
struct Seat<W> {
    /// The number of its input, until its output has been taken.
    instance: Option<usize>,
    /// Its wiring, until that has ended.
    wiring: Pin<Box<Option<W>>>,
    output: Rows,
    /// How many values it emitted since its wiring last went on.
    emitted: usize,
    /// What it tells and is told while it waits; while it goes on, that stands in the exchange.
    awaited: Option<Awaited>,
    carried: Vec<Value>,
    answer: Option<Answer>,
}

impl<W: Future<Output = Result<(), BuildError>>> Seat<W> {
    fn new(mut output: Rows) -> Self {
        output.clear();
        let wiring = Box::pin(None);
        let (awaited, carried, answer) = (None, Vec::new(), None);
        Self { instance: None, wiring, output, emitted: 0, awaited, carried, answer }
    }

    /// Lets the wiring go on until it ends or awaits a value, and appends the values that it wants
    /// read. An exchange serves all seats, for one goes on at a time.
    fn advance(
        &mut self,
        graph: &RefCell<Graph>,
        exchange: &RefCell<Exchange>,
        wanted: &mut Vec<Value>,
    ) -> Result<(), RunError> {
        self.emitted = 0;
        let Some(wiring) = self.wiring.as_mut().as_pin_mut() else { return Ok(()) };
        let instance = self.instance.expect("a wiring belongs to an instance");
        let carried = mem::take(&mut self.carried);
        let answer = self.answer.take();
        exchange.replace_with(|exchange| {
            let emitted = mem::take(&mut exchange.emitted);
            Exchange { emitted, awaited: None, carried, answer }
        });
        if let Poll::Ready(result) = wiring.poll(&mut Context::from_waker(Waker::noop())) {
            self.wiring.set(None);
            result.map_err(|error| RunError::Build { instance, error })?;
        }
        let Exchange { emitted, awaited, carried, .. } = &mut *exchange.borrow_mut();
        let first = wanted.len();
        self.emitted = emitted.len();
        wanted.append(emitted);
        self.awaited = awaited.take();
        if let Some(awaited) = self.awaited {
            self.carried = mem::take(carried);
            wanted.push(awaited.value());
            wanted.extend(&self.carried);
        }
        let graph = graph.borrow();
        if wanted[first..].iter().any(|&value| graph.record_of(value).is_none()) {
            return Err(RunError::NotCarried { instance });
        }
        Ok(())
    }
}

/// Hands every instance what it wanted, and empties the graph. The carried values become given ones
/// of the graph.
fn distribute<W>(
    executor: &Executor,
    graph: &mut Graph,
    seats: &mut [Seat<W>],
    carried: &mut Rows,
) {
    carried.clear();
    let mut records = Vec::new();
    let mut looked_at = Rows::new();
    let mut wanted = 0;
    for seat in &mut *seats {
        let mut next = |count: usize| {
            wanted += count;
            wanted - count..wanted
        };
        executor.read(next(seat.emitted), &mut seat.output);
        seat.answer = seat.awaited.take().map(|awaited| match awaited {
            Awaited::Elements(_) => {
                looked_at.clear();
                executor.read(next(1), &mut looked_at);
                Answer::Elements(looked_at.row(0).to_vec())
            }
            Awaited::ArgMax(_) => Answer::ArgMax(executor.arg_max(next(1).start) as u32),
        });
        executor.read(next(seat.carried.len()), carried);
        let record = |&value| graph.record_of(value).expect("checked when it was wanted");
        records.extend(seat.carried.iter().map(record));
    }
    graph.clear();
    let values = seats.iter_mut().flat_map(|seat| &mut seat.carried);
    for (value, record) in values.zip(records) {
        *value = graph.give(record);
    }
}
