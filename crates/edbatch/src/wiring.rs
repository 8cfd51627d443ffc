//! The instances of a mini-batch under way: each is wired until it ends or awaits a value, and goes on
//! once it has the value.
//!
//! A *wirer* is one future that wires an instance and, where that awaits nothing, goes on with the next
//! input: there are as many wirers as instances that wait at the same time, and a single one for models
//! that never await.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::iter::Peekable;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use edbatch_graph::{Graph, RecordId, Value};
use edbatch_layout::Want;
use edbatch_models::{Answer, Awaited, Build, Exchange, Model};

use crate::{Rows, RunError};

/// What ran a graph, when it hands out what instances want of it.
pub(crate) trait Results {
    /// Appends the elements of a wanted value, field after field.
    fn append(&self, wanted: usize, elements: &mut Vec<f32>);

    /// The index of the greatest element of a wanted value.
    fn arg_max(&self, wanted: usize) -> u32;
}

/// What wirers and the loop around them share. Only one wirer goes on at a time.
pub(crate) struct Round<'g, I: Iterator> {
    graph: &'g RefCell<Graph>,
    /// What a wirer and the models' view of it say to each other while it goes on.
    exchange: RefCell<Exchange>,
    inputs: RefCell<Peekable<I>>,
    /// How many inputs are under way at most, and how many more may begin in this round.
    width: usize,
    free: Cell<usize>,
    /// The number of the next input, and of the one that is being wired.
    next: Cell<usize>,
    instance: Cell<usize>,
    /// What each instance that went on in this round wants, and all of that in the same order.
    turns: RefCell<Vec<Turn>>,
    wanted: RefCell<Vec<(Value, Want)>>,
}

/// What one instance did in a round.
#[derive(Clone, Copy, Debug)]
struct Turn {
    instance: usize,
    wirer: usize,
    /// How many values it emitted.
    emitted: usize,
    /// What it waits for; otherwise it has ended.
    awaited: Option<Awaited>,
}

impl<'g, I: Iterator> Round<'g, I> {
    /// Instances of these inputs, at most `width` at a time, whose calls go into `graph`.
    pub(crate) fn new(
        graph: &'g RefCell<Graph>,
        width: usize,
        inputs: impl IntoIterator<IntoIter = I>,
    ) -> Self {
        graph.borrow_mut().clear();
        let (turns, wanted) = (RefCell::default(), RefCell::default());
        let (free, next, instance) = (Cell::new(width), Cell::default(), Cell::default());
        let (exchange, inputs) = (RefCell::default(), RefCell::new(inputs.into_iter().peekable()));
        Self { graph, exchange, inputs, width, free, next, instance, turns, wanted }
    }

    /// The values that instances want of the graph as it stands.
    pub(crate) fn wanted(&self) -> std::cell::Ref<'_, Vec<(Value, Want)>> {
        self.wanted.borrow()
    }

    /// How many inputs have begun so far.
    pub(crate) fn begun(&self) -> usize {
        self.next.get()
    }

    /// Whether there is another input, and may begin in this round.
    fn may_begin(&self) -> bool {
        self.free.get() > 0 && self.inputs.borrow_mut().peek().is_some()
    }

    /// Wires one input after the other, until no more may begin in this round.
    pub(crate) async fn wire<M: Model>(&self, model: &M, wirer: usize) -> Result<(), RunError>
    where
        I::Item: Borrow<M::Input>,
    {
        while self.free.get() > 0 {
            let Some(input) = self.inputs.borrow_mut().next() else { break };
            let instance = self.next.get();
            self.free.set(self.free.get() - 1);
            self.next.set(instance + 1);
            self.instance.set(instance);
            let build = Build::new(self.graph, &self.exchange);
            let built = model.build(&build, input.borrow()).await;
            built.map_err(|error| RunError::Build { instance, error })?;
            self.end_turn(wirer)?;
        }
        Ok(())
    }

    /// Notes what the instance wants that went on, from what stands in the exchange.
    fn end_turn(&self, wirer: usize) -> Result<(), RunError> {
        let instance = self.instance.get();
        let Exchange { emitted, awaited, carried, .. } = &mut *self.exchange.borrow_mut();
        let mut wanted = self.wanted.borrow_mut();
        let first = wanted.len();
        let awaited = awaited.take();
        let turn = Turn { instance, wirer, emitted: emitted.len(), awaited };
        wanted.extend(emitted.drain(..).map(|value| (value, Want::Elements)));
        if let Some(awaited) = awaited {
            wanted.push(match awaited {
                Awaited::Elements(value) => (value, Want::Elements),
                Awaited::ArgMax(value) => (value, Want::ArgMax),
            });
            wanted.extend(carried.iter().map(|&value| (value, Want::Stay)));
        }
        let graph = self.graph.borrow();
        if wanted[first..].iter().any(|&(value, _)| graph.record_of(value).is_none()) {
            return Err(RunError::NotCarried { instance });
        }
        self.turns.borrow_mut().push(turn);
        Ok(())
    }
}

/// The wirers of a mini-batch. `start` makes the future of one, by its number.
pub(crate) struct Wiring<'r, 'g, I: Iterator, W, S> {
    round: &'r Round<'g, I>,
    start: S,
    wirers: Vec<Wirer<W>>,
    /// The records of the values that stay, for their memory.
    records: Vec<RecordId>,
}

struct Wirer<W> {
    /// Until it ends for want of inputs.
    future: Pin<Box<Option<W>>>,
    /// The input whose instance waits.
    instance: usize,
    /// What that instance has emitted so far.
    output: Rows,
    /// What it goes on using: the values' names in the graph of the next round.
    carried: Vec<Value>,
    answer: Option<Answer>,
}

impl<'r, 'g, I: Iterator, W, S> Wiring<'r, 'g, I, W, S>
where
    W: Future<Output = Result<(), RunError>>,
    S: Fn(usize) -> W,
{
    pub(crate) fn new(round: &'r Round<'g, I>, start: S) -> Self {
        Self { round, start, wirers: Vec::new(), records: Vec::new() }
    }

    /// Lets every instance go on until it ends or awaits a value; whether one did.
    pub(crate) fn advance(&mut self) -> Result<bool, RunError> {
        let Self { round, start, wirers, .. } = self;
        round.turns.borrow_mut().clear();
        round.wanted.borrow_mut().clear();
        let waiting = wirers.iter().filter(|wirer| wirer.future.is_some()).count();
        round.free.set(round.width - waiting);
        for (number, wirer) in wirers.iter_mut().enumerate() {
            wirer.go_on(number, round)?;
        }
        // Those that ended begin again, and then others, as long as they find inputs.
        let mut number = 0;
        while round.may_begin() {
            if number == wirers.len() {
                wirers.push(Wirer::new());
            }
            let wirer = &mut wirers[number];
            if wirer.future.is_none() {
                wirer.future.set(Some(start(number)));
                wirer.go_on(number, round)?;
            }
            number += 1;
        }
        Ok(!round.turns.borrow().is_empty())
    }

    /// Whether an instance awaits a value.
    pub(crate) fn waits(&self) -> bool {
        self.round.turns.borrow().iter().any(|turn| turn.awaited.is_some())
    }

    /// Hands every instance what it wants, and empties the graph but for the values that are carried
    /// on; returns how many those are. `done` takes the number of each input that ended and the rows
    /// that it emitted.
    pub(crate) fn read(
        &mut self,
        results: &impl Results,
        mut done: impl FnMut(usize, &mut Rows),
    ) -> usize {
        let mut wanted = 0..;
        let mut next = || wanted.next().expect("as many as there are");
        for turn in self.round.turns.borrow().iter() {
            let wirer = &mut self.wirers[turn.wirer];
            for _ in 0..turn.emitted {
                wirer.output.push_with(|elements| results.append(next(), elements));
            }
            match turn.awaited {
                None => {
                    done(turn.instance, &mut wirer.output);
                    wirer.output.clear();
                    continue;
                }
                Some(Awaited::ArgMax(_)) => {
                    wirer.answer = Some(Answer::ArgMax(results.arg_max(next())));
                }
                Some(Awaited::Elements(_)) => {
                    let mut elements = Vec::new();
                    results.append(next(), &mut elements);
                    wirer.answer = Some(Answer::Elements(elements));
                }
            }
            wirer.carried.iter().for_each(|_| _ = next());
        }
        self.carry()
    }

    /// Makes the values that stay given ones of a new graph; how many there are.
    fn carry(&mut self) -> usize {
        let mut graph = self.round.graph.borrow_mut();
        let record = |&value| graph.record_of(value).expect("checked when it was wanted");
        self.records.clear();
        let turns = self.round.turns.borrow();
        let waiting = || turns.iter().filter(|turn| turn.awaited.is_some());
        for turn in waiting() {
            self.records.extend(self.wirers[turn.wirer].carried.iter().map(record));
        }
        graph.clear();
        let mut records = self.records.iter();
        for turn in waiting() {
            for value in &mut self.wirers[turn.wirer].carried {
                *value = graph.give(*records.next().expect("one for each"));
            }
        }
        self.records.len()
    }
}

impl<W: Future<Output = Result<(), RunError>>> Wirer<W> {
    fn new() -> Self {
        let (future, output) = (Box::pin(None), Rows::new());
        Self { future, instance: 0, output, carried: Vec::new(), answer: None }
    }

    /// Lets the wirer go on until its instance awaits a value, or until no more inputs may begin.
    fn go_on<I: Iterator>(&mut self, number: usize, round: &Round<'_, I>) -> Result<(), RunError> {
        let Some(future) = self.future.as_mut().as_pin_mut() else { return Ok(()) };
        {
            let exchange = &mut *round.exchange.borrow_mut();
            mem::swap(&mut exchange.carried, &mut self.carried);
            exchange.answer = self.answer.take();
            exchange.awaited = None;
            exchange.emitted.clear();
        }
        round.instance.set(self.instance);
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => {
                self.future.set(None);
                result
            }
            Poll::Pending => {
                self.instance = round.instance.get();
                round.end_turn(number)?;
                mem::swap(&mut round.exchange.borrow_mut().carried, &mut self.carried);
                Ok(())
            }
        }
    }
}
