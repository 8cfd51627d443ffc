//! The instances of a mini-batch under way: each is wired until it ends or awaits a value, and goes
//! on once it has the value.
//!
//! A *wirer* is one future that wires an instance and, where that awaits nothing, goes on with the
//! next input: there are as many wirers as instances that wait at the same time, and a single one
//! for models that never await.

mod round;

use std::mem;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Waker};

use edbatch_graph::{RecordId, Value};
use edbatch_models::{Answer, Awaited};
use edbatch_runtime::BackendError;
use smallvec::SmallVec;

use crate::InputError;
use crate::emitted::{Emitted, Results, Sink};
pub(crate) use round::Round;
use round::{Then, Turn};

/// The wirers of a mini-batch. `start` makes the future of one, by its number.
pub(crate) struct Wiring<'r, 'g, I: Iterator, W, S, E> {
    round: &'r Round<'g, I>,
    start: S,
    wirers: Vec<Wirer<W, E>>,
    /// The records of the values that stay, for their memory.
    records: Vec<RecordId>,
}

struct Wirer<W, E> {
    /// Until it ends for want of inputs.
    future: Pin<Box<Option<W>>>,
    /// The input whose instance waits.
    instance: usize,
    /// What that instance has emitted so far.
    output: E,
    /// What it goes on using: the values' names in the graph of the next round.
    carried: Vec<Value>,
    answer: Option<Answer>,
    /// The indices that are part of the answer.
    greatest: SmallVec<[u32; 1]>,
    /// How many calls it made, as far as these are [looked at](Wiring::fail_where).
    calls: usize,
    /// Why it goes on no more.
    failed: Option<InputError>,
}

impl<'r, 'g, I: Iterator, W, S, E> Wiring<'r, 'g, I, W, S, E>
where
    W: Future<Output = ()>,
    S: Fn(usize) -> W,
    E: Emitted,
{
    pub(crate) fn new(round: &'r Round<'g, I>, start: S) -> Self {
        Self { round, start, wirers: Vec::new(), records: Vec::new() }
    }

    /// Lets every instance go on until it ends or awaits a value; whether one did.
    pub(crate) fn advance(&mut self) -> bool {
        let Self { round, start, wirers, .. } = self;
        round.turns.borrow_mut().clear();
        round.wanted.borrow_mut().clear();
        round.given.borrow_mut().clear();
        let waiting = wirers.iter().filter(|wirer| wirer.future.is_some()).count();
        round.free.set(round.width - waiting);
        for (number, wirer) in wirers.iter_mut().enumerate() {
            wirer.go_on(number, round);
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
                wirer.go_on(number, round);
            }
            number += 1;
        }
        !round.turns.borrow().is_empty()
    }

    /// The first instance that failed in this round, if one did.
    pub(crate) fn failed(&self) -> Option<(usize, InputError)> {
        let turns = self.round.turns.borrow();
        let failed = turns.iter().filter_map(|turn| match &turn.then {
            Then::Failed(error) => Some((turn.instance, error.clone())),
            Then::Waits(_) | Then::Ended => None,
        });
        failed.min_by_key(|&(instance, _)| instance)
    }

    /// Ends every instance whose calls of this round are wrong: `wrong` looks at their nodes, and
    /// is told how many calls the instance made before.
    pub(crate) fn fail_where(&mut self, wrong: impl Fn(Range<usize>, usize) -> Option<InputError>) {
        for turn in self.round.turns.borrow_mut().iter_mut() {
            let wirer = &mut self.wirers[turn.wirer];
            let before = if turn.began { 0 } else { wirer.calls };
            wirer.calls = before + turn.nodes.len();
            let Some(error) = wrong(turn.nodes.clone(), before) else { continue };
            match turn.then {
                Then::Ended => turn.then = Then::Failed(error),
                // What it wants is there, and it learns in the next round that it failed.
                Then::Waits(_) => wirer.failed = Some(error),
                Then::Failed(_) => {}
            }
        }
    }

    /// Whether an instance awaits a value.
    pub(crate) fn waits(&self) -> bool {
        self.round.turns.borrow().iter().any(Turn::waits)
    }

    /// Hands every instance what it wants, and empties the graph but for the values that are
    /// carried on; returns how many those are.
    ///
    /// # Errors
    /// If there is no memory for what they want.
    pub(crate) fn read(
        &mut self,
        results: &impl Results,
        sink: &mut impl Sink<E>,
    ) -> Result<usize, BackendError> {
        for turn in self.round.turns.borrow().iter() {
            let wirer = &mut self.wirers[turn.wirer];
            if turn.began {
                sink.begin(turn.instance, &mut wirer.output);
            }
            wirer.output.keep(turn.kept);
            for wanted in turn.emitted.clone() {
                wirer.output.append(results, wanted)?;
            }
            match &turn.then {
                Then::Ended => {
                    sink.done(turn.instance, Ok(&mut wirer.output));
                    wirer.output.keep(0);
                }
                Then::Failed(error) => {
                    sink.done(turn.instance, Err(error.clone()));
                    wirer.output.keep(0);
                }
                Then::Waits(Awaited::ArgMax) => {
                    wirer.greatest.clear();
                    wirer.greatest.extend(turn.asked.iter().map(|&wanted| results.arg_max(wanted)));
                    wirer.answer = Some(Answer::ArgMax);
                }
                Then::Waits(Awaited::Elements) => {
                    let mut elements = Vec::new();
                    turn.asked.iter().try_for_each(|&w| results.append(w, &mut elements))?;
                    wirer.answer = Some(Answer::Elements(elements));
                }
            }
        }
        Ok(self.carry())
    }

    /// Makes the values that stay given ones of a new graph; how many there are.
    fn carry(&mut self) -> usize {
        let mut graph = self.round.graph.borrow_mut();
        let record = |&value| graph.record_of(value).expect("checked when it was wanted");
        self.records.clear();
        let turns = self.round.turns.borrow();
        let waiting = || turns.iter().filter(|turn| turn.waits());
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

impl<W: Future<Output = ()>, E: Emitted> Wirer<W, E> {
    fn new() -> Self {
        let (future, output) = (Box::pin(None), E::default());
        let (carried, answer, greatest) = (Vec::new(), None, SmallVec::new());
        Self { future, instance: 0, output, carried, answer, greatest, calls: 0, failed: None }
    }

    /// Lets the wirer go on until its instance awaits a value, or until no more inputs may begin.
    fn go_on<I: Iterator>(&mut self, number: usize, round: &Round<'_, I>) {
        let Some(future) = self.future.as_mut().as_pin_mut() else { return };
        round.instance.set(self.instance);
        round.began.set(false);
        // An instance that has an answer began in an earlier round.
        let failed = self.failed.take().or_else(|| {
            let cancelled = self.answer.is_some() && !(round.still_wanted)(self.instance);
            cancelled.then_some(InputError::Cancelled)
        });
        if let Some(error) = failed {
            (self.answer, self.carried) = (None, Vec::new());
            self.future.set(None);
            round.fail(number, error);
            return;
        }
        {
            let exchange = &mut *round.exchange.borrow_mut();
            mem::swap(&mut exchange.carried, &mut self.carried);
            mem::swap(&mut exchange.greatest, &mut self.greatest);
            exchange.answer = self.answer.take();
            exchange.awaited = None;
            exchange.asked.clear();
            exchange.emitted.clear();
            exchange.earlier = self.output.outputs();
            exchange.given.clear();
        }
        if future.poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.future.set(None);
            return;
        }
        self.instance = round.instance.get();
        let goes_on = round.end_turn(number);
        mem::swap(&mut round.exchange.borrow_mut().carried, &mut self.carried);
        if !goes_on {
            self.carried.clear();
            self.future.set(None);
        }
    }
}
