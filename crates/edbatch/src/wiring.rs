//! Wiring: each input's future calls cells until it ends or awaits a value.
//!
//! A round has two halves. [`Instances::wire`] polls every waiting future and starts new inputs.
//! Their calls go into one graph, and a [`Round`] lists the wanted values of this graph. When the
//! graph has run, [`Instances::resume`] passes the values to the inputs.
//!
//! Inputs that never await a value use the same instance in sequence. So the number of instances is
//! at most the maximum number of inputs that wait at the same time, plus one.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use edbatch_graph::{Dag, Graph, RecordId, Value};
use edbatch_layout::Want;
use edbatch_models::{Answer, BuildError, Mailbox, Request};
use edbatch_runtime::BackendError;

use crate::output::{Output, Results, Sink};
use crate::{InputError, RunError};

/// The use of carried values. The loop over rounds chooses their lines of the store.
const CARRY: Want = Want::Store(u32::MAX);

/// The instances of a mini-batch.
pub(crate) struct Instances<W, O> {
    instances: Vec<Instance<W, O>>,
    /// The number of inputs that have begun.
    pub(crate) begun: usize,
    /// The number of values of chains after their end.
    pub(crate) dropped: usize,
    /// The records of the carried values, kept for their memory.
    records: Vec<RecordId>,
    /// True if inputs with an output that is not finite fail.
    only_finite: bool,
}

/// Runs one input at a time. Holds its future, and the mailbox for requests and answers.
struct Instance<W, O> {
    mailbox: Rc<RefCell<Mailbox>>,
    /// `None` between inputs; the memory is kept.
    future: Pin<Box<Option<W>>>,
    /// The number of the input.
    input: usize,
    /// The outputs of earlier rounds.
    output: O,
    /// The index of the first output that is not finite, if that is an error.
    not_finite: Option<usize>,
}

/// The wanted values of one graph, and a [`Turn`] for each input of the round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// The values to compute, and their uses.
    pub(crate) wanted: Vec<(Value, Want)>,
    /// The elements of the values that inputs gave in this round, in order.
    pub(crate) given: Vec<f32>,
    pub(crate) turns: Vec<Turn>,
}

/// The result of polling one input in a round.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The number of the input.
    pub(crate) input: usize,
    /// The index of its instance.
    pub(crate) instance: usize,
    /// True if the input began in this round.
    pub(crate) began: bool,
    /// The nodes that its calls created.
    pub(crate) nodes: Range<usize>,
    /// The positions of the emitted values in [`Round::wanted`].
    emitted: Range<usize>,
    then: Then,
}

/// The state of an input after its [`Turn`]. Positions are indices into [`Round::wanted`].
#[derive(Clone, Debug)]
enum Then {
    /// The input awaits the elements of the value at this position.
    Elements(usize),
    /// The input awaits the elements of each value at these positions.
    EachElements(Range<usize>),
    /// The input awaits the index of the largest element of the value at this position.
    ArgMax(usize),
    /// The input awaits the indices of the largest elements of the values at these positions, up to
    /// the first that is `end`. These values are the last that it emits.
    Chain {
        values: Range<usize>,
        end: Option<u32>,
    },
    Ended,
    Failed(InputError),
}

/// The conditions for starting and continuing inputs.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    /// The maximum number of inputs that run at the same time.
    pub(crate) width: usize,
    /// Returns false for the number of an input to cancel. Called before each round for each input
    /// that is running or about to begin.
    pub(crate) still_wanted: &'a dyn Fn(usize) -> bool,
    /// True if inputs with an output that is not finite fail.
    pub(crate) only_finite: bool,
}

impl<'a> Admission<'a> {
    /// At most `width` inputs at a time, with any outputs.
    pub(crate) fn new(width: usize, still_wanted: &'a dyn Fn(usize) -> bool) -> Self {
        Self { width, still_wanted, only_finite: false }
    }
}

impl<W, O> Instances<W, O>
where
    W: Future<Output = Result<(), BuildError>>,
    O: Output,
{
    /// No instances. With `only_finite`, inputs with an output that is not finite fail.
    pub(crate) fn new(only_finite: bool) -> Self {
        Self { instances: Vec::new(), begun: 0, dropped: 0, records: Vec::new(), only_finite }
    }

    /// Polls the future of every waiting input, and then starts new inputs, up to `admission.width`
    /// in all. `start` makes the future of the next input, or returns `None` after the last one.
    ///
    /// Returns `false` if nothing was left to do; otherwise `round` describes the round.
    pub(crate) fn wire(
        &mut self,
        graph: &RefCell<Graph>,
        admission: Admission<'_>,
        mut start: impl FnMut(Rc<RefCell<Mailbox>>) -> Option<W>,
        round: &mut Round,
    ) -> bool {
        round.wanted.clear();
        round.given.clear();
        round.turns.clear();
        let mut waiting = 0;
        for (index, instance) in self.instances.iter_mut().enumerate() {
            if instance.future.is_some() {
                waiting += 1;
                let cancelled = !(admission.still_wanted)(instance.input);
                instance.turn(index, false, cancelled, graph, round);
            }
        }
        // An input that ended makes room in the next round.
        let (mut index, mut room) = (0, admission.width - waiting);
        while room > 0 {
            if index == self.instances.len() {
                self.instances.push(Instance::new());
            }
            let instance = &mut self.instances[index];
            if instance.future.is_some() {
                index += 1;
                continue;
            }
            let Some(future) = start(instance.mailbox.clone()) else { break };
            instance.future.set(Some(future));
            instance.input = self.begun;
            self.begun += 1;
            room -= 1;
            let cancelled = !(admission.still_wanted)(instance.input);
            instance.turn(index, true, cancelled, graph, round);
        }
        !round.turns.is_empty()
    }

    /// Hands the wanted values to `sink` and to the inputs that await them. Clears the graph, and
    /// gives the carried values to it, in the order in which they are wanted.
    ///
    /// # Errors
    /// If memory for the outputs cannot be allocated.
    pub(crate) fn resume(
        &mut self,
        graph: &RefCell<Graph>,
        round: &Round,
        results: &impl Results,
        sink: &mut impl Sink<O>,
    ) -> Result<(), BackendError> {
        for turn in &round.turns {
            let Instance { output, mailbox, not_finite, .. } = &mut self.instances[turn.instance];
            if turn.began {
                sink.begin(turn.input, output);
                output.clear();
                *not_finite = None;
            }
            let (mut emitted, mut last) = (turn.emitted.clone(), 0);
            if let Then::Chain { values, end } = &turn.then {
                let mut left = values.clone();
                for wanted in left.by_ref() {
                    last = results.arg_max(wanted).index;
                    if Some(last) == *end {
                        break;
                    }
                }
                self.dropped += left.len();
                emitted.end -= left.len();
            }
            output.append(results, emitted.clone())?;
            if self.only_finite && not_finite.is_none() {
                *not_finite = output.not_finite(results, emitted);
            }
            let elements = |wanted| {
                let mut elements = Vec::new();
                results.append(wanted, &mut elements).map(|()| elements)
            };
            let answer = match &turn.then {
                Then::Ended => {
                    let failed = not_finite.map(|row| InputError::NotFiniteOutput { row });
                    sink.done(turn.input, failed.map_or(Ok(output), Err));
                    continue;
                }
                Then::Failed(error) => {
                    sink.done(turn.input, Err(error.clone()));
                    continue;
                }
                Then::ArgMax(wanted) => Answer::ArgMax(results.arg_max(*wanted).index),
                Then::Chain { .. } => Answer::ArgMax(last),
                Then::Elements(wanted) => Answer::Elements(elements(*wanted)?),
                Then::EachElements(wanted) => {
                    Answer::EachElements(wanted.clone().map(elements).collect::<Result<_, _>>()?)
                }
            };
            mailbox.borrow_mut().answer = Some(answer);
        }
        self.carry(&mut graph.borrow_mut(), round);
        Ok(())
    }

    /// Clears the graph, and gives the carried values to it.
    fn carry(&mut self, graph: &mut Graph, round: &Round) {
        let waiting = || round.turns.iter().filter(|turn| turn.then.waits());
        self.records.clear();
        for turn in waiting() {
            let mailbox = self.instances[turn.instance].mailbox.borrow();
            let record = |&value| graph.record_of(value).expect("checked when it was wanted");
            self.records.extend(mailbox.carried.iter().map(record));
        }
        graph.clear();
        let mut records = self.records.iter();
        for turn in waiting() {
            for value in &mut self.instances[turn.instance].mailbox.borrow_mut().carried {
                *value = graph.give(*records.next().expect("one for each carried value"));
            }
        }
    }
}

impl<W: Future<Output = Result<(), BuildError>>, O: Output> Instance<W, O> {
    fn new() -> Self {
        let (mailbox, future, output) = (Rc::default(), Box::pin(None), O::default());
        Self { mailbox, future, input: 0, output, not_finite: None }
    }

    /// Polls the input's future, if it is not cancelled, and appends a turn to the round.
    fn turn(
        &mut self,
        instance: usize,
        began: bool,
        cancelled: bool,
        graph: &RefCell<Graph>,
        round: &mut Round,
    ) {
        let polled = match (cancelled, self.future.as_mut().as_pin_mut()) {
            (false, Some(future)) => future.poll(&mut Context::from_waker(Waker::noop())),
            _ => Poll::Ready(Ok(())),
        };
        let mailbox = &mut *self.mailbox.borrow_mut();
        round.given.append(&mut mailbox.given);
        let graph = graph.borrow();
        let first = round.wanted.len();
        round.wanted.extend(mailbox.emitted.drain(..).map(|value| (value, O::WANT)));
        let mut emitted = first..round.wanted.len();
        let mut then = match polled {
            _ if cancelled => Then::Failed(InputError::Cancelled),
            Poll::Ready(Ok(())) => Then::Ended,
            Poll::Ready(Err(error)) => Then::Failed(InputError::Build(error)),
            Poll::Pending => match mailbox.request.take() {
                Some(Request::Elements(value)) => {
                    Then::Elements(round.want(value, Want::Elements, emitted.clone()))
                }
                Some(Request::ArgMax(value)) => {
                    Then::ArgMax(round.want(value, Want::ArgMax, emitted.clone()))
                }
                Some(Request::Chain { values, end }) => {
                    round.wanted.extend(values.iter().map(|&value| (value, O::WANT)));
                    emitted.end = round.wanted.len();
                    if O::WANT != Want::ArgMax {
                        round.wanted.extend(values.iter().map(|&value| (value, Want::ArgMax)));
                    }
                    let end_of_all = round.wanted.len();
                    Then::Chain { values: end_of_all - values.len()..end_of_all, end }
                }
                Some(Request::EachElements(values)) => {
                    let first = round.wanted.len();
                    round.wanted.extend(values.into_iter().map(|value| (value, Want::Elements)));
                    Then::EachElements(first..round.wanted.len())
                }
                Some(Request::Two) => Then::Failed(InputError::TwoAwaits),
                None => Then::Failed(InputError::ForeignAwait),
            },
        };
        if then.waits() {
            round.wanted.extend(mailbox.carried.iter().map(|&value| (value, CARRY)));
        }
        if round.wanted[first..].iter().any(|&(value, _)| graph.record_of(value).is_none()) {
            then = Then::Failed(InputError::NotCarried);
        }
        if let Then::Failed(_) = then {
            // The input's calls stay in the graph, but none of its values is read.
            round.wanted.truncate(first);
            emitted = first..first;
        }
        if !then.waits() {
            self.future.set(None);
            (mailbox.request, mailbox.answer) = (None, None);
            mailbox.carried.clear();
        }
        let first_node = round.turns.last().map_or(0, |turn| turn.nodes.end);
        let (input, nodes) = (self.input, first_node..graph.nodes());
        round.turns.push(Turn { input, instance, began, nodes, emitted, then });
    }
}

impl Round {
    /// Adds a wanted value, unless the input already emits it for the same use. `emitted` has the
    /// positions of its emitted values. Returns the position of the value.
    fn want(&mut self, value: Value, want: Want, emitted: Range<usize>) -> usize {
        let known = self.wanted[emitted.clone()].iter().rposition(|&known| known == (value, want));
        if let Some(position) = known {
            return emitted.start + position;
        }
        self.wanted.push((value, want));
        self.wanted.len() - 1
    }

    /// Returns true if an input awaits a value.
    pub(crate) fn waits(&self) -> bool {
        self.turns.iter().any(|turn| turn.then.waits())
    }

    /// Fails with the error of the failed input with the lowest number.
    pub(crate) fn first_failure(&self) -> Result<(), RunError> {
        RunError::first(self.turns.iter().filter_map(|turn| match &turn.then {
            Then::Failed(error) => Some((turn.input, error.clone())),
            _ => None,
        }))
    }
}

impl Then {
    fn waits(&self) -> bool {
        !matches!(self, Self::Ended | Self::Failed(_))
    }
}
