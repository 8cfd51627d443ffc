//! What happens in a round: inputs go on, their calls go into a graph, and it is noted what each
//! wants of that graph.

use std::borrow::Borrow;
use std::cell::{Cell, Ref, RefCell};
use std::iter::Peekable;
use std::ops::Range;

use edbatch_graph::{Dag, Graph, Value};
use edbatch_layout::Want;
use edbatch_models::{Awaited, Build, Exchange, Model};
use smallvec::SmallVec;

use crate::InputError;
use crate::emitted::Emitted;

/// What wirers and the loop around them share. Only one wirer goes on at a time.
pub(crate) struct Round<'g, I: Iterator> {
    pub(super) graph: &'g RefCell<Graph>,
    /// What a wirer and the models' view of it say to each other while it goes on.
    pub(super) exchange: RefCell<Exchange>,
    inputs: RefCell<Peekable<I>>,
    /// How many inputs are under way at most, and how many more may begin in this round.
    pub(super) width: usize,
    pub(super) free: Cell<usize>,
    /// The number of the next input, and of the one that is being wired.
    next: Cell<usize>,
    pub(super) instance: Cell<usize>,
    /// Whether that input began in this turn.
    pub(super) began: Cell<bool>,
    /// Whether the caller still wants an input.
    pub(super) still_wanted: &'g dyn Fn(usize) -> bool,
    /// What emitted values are wanted for.
    emitted: Want,
    /// The elements of the values that were given in this round.
    pub(super) given: RefCell<Vec<f32>>,
    /// What each instance that went on in this round wants, and all of that in the same order.
    pub(super) turns: RefCell<Vec<Turn>>,
    pub(super) wanted: RefCell<Vec<(Value, Want)>>,
}

/// What one instance did in a round.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) instance: usize,
    pub(super) wirer: usize,
    pub(super) began: bool,
    /// The nodes that it called.
    pub(super) nodes: Range<usize>,
    /// How many of the outputs of its earlier turns it keeps.
    pub(super) kept: usize,
    /// The values that it emitted, among the wanted ones.
    pub(super) emitted: Range<usize>,
    /// For each value that it asked about: which of the wanted ones it is.
    pub(super) asked: SmallVec<[usize; 1]>,
    pub(super) then: Then,
}

/// What became of an instance at the end of its turn.
#[derive(Clone, Debug)]
pub(super) enum Then {
    Waits(Awaited),
    Ended,
    Failed(InputError),
}

impl<'g, I: Iterator> Round<'g, I> {
    /// Instances of these inputs, at most `width` at a time, whose calls go into `graph`, and whose
    /// outputs become what `E` is.
    pub(crate) fn new<E: Emitted>(
        graph: &'g RefCell<Graph>,
        width: usize,
        inputs: impl IntoIterator<IntoIter = I>,
        still_wanted: &'g dyn Fn(usize) -> bool,
    ) -> Self {
        graph.borrow_mut().clear();
        Self {
            graph,
            exchange: RefCell::default(),
            inputs: RefCell::new(inputs.into_iter().peekable()),
            width,
            free: Cell::new(width),
            next: Cell::default(),
            instance: Cell::default(),
            began: Cell::default(),
            still_wanted,
            emitted: E::WANT,
            given: RefCell::default(),
            turns: RefCell::default(),
            wanted: RefCell::default(),
        }
    }

    /// The values that instances want of the graph as it stands.
    pub(crate) fn wanted(&self) -> Ref<'_, Vec<(Value, Want)>> {
        self.wanted.borrow()
    }

    /// The elements of the values that were given in this round, row after row.
    pub(crate) fn given(&self) -> Ref<'_, Vec<f32>> {
        self.given.borrow()
    }

    /// How many inputs have begun so far.
    pub(crate) fn begun(&self) -> usize {
        self.next.get()
    }

    /// Whether there is another input, and may begin in this round.
    pub(super) fn may_begin(&self) -> bool {
        self.free.get() > 0 && self.inputs.borrow_mut().peek().is_some()
    }

    /// Wires one input after the other, until no more may begin in this round.
    pub(crate) async fn wire<M: Model>(&self, model: &M, wirer: usize)
    where
        I::Item: Borrow<M::Input>,
    {
        while self.free.get() > 0 {
            let Some(input) = self.inputs.borrow_mut().next() else { break };
            let instance = self.next.get();
            self.free.set(self.free.get() - 1);
            self.next.set(instance + 1);
            self.instance.set(instance);
            self.began.set(true);
            self.exchange.borrow_mut().earlier = 0;
            if !(self.still_wanted)(instance) {
                self.fail(wirer, InputError::Cancelled);
                continue;
            }
            let build = Build::new(self.graph, &self.exchange);
            match model.build(&build, input.borrow()).await {
                Ok(()) => _ = self.end_turn(wirer),
                Err(error) => self.fail(wirer, InputError::Build(error)),
            }
        }
    }

    /// Notes that the instance which went on failed. What it called stays in the graph, and is not
    /// read.
    pub(super) fn fail(&self, wirer: usize, error: InputError) {
        let exchange = &mut *self.exchange.borrow_mut();
        exchange.emitted.clear();
        exchange.awaited = None;
        self.given.borrow_mut().append(&mut exchange.given);
        let (instance, began) = (self.instance.get(), self.began.get());
        let (nodes, then) = (self.nodes_of_turn(), Then::Failed(error));
        let (kept, emitted, asked) = (0, 0..0, SmallVec::new());
        let turn = Turn { instance, wirer, began, nodes, kept, emitted, asked, then };
        self.turns.borrow_mut().push(turn);
    }

    /// Notes what the instance wants that went on, from what stands in the exchange; whether it may
    /// go on in the next round.
    pub(super) fn end_turn(&self, wirer: usize) -> bool {
        let mut exchange = self.exchange.borrow_mut();
        let Exchange { emitted, earlier, awaited, asked, carried, given, .. } = &mut *exchange;
        self.given.borrow_mut().append(given);
        let mut wanted = self.wanted.borrow_mut();
        let (first, kept, mut positions) = (wanted.len(), *earlier, SmallVec::new());
        let awaited = awaited.take();
        wanted.extend(emitted.drain(..).map(|value| (value, self.emitted)));
        let emitted = first..wanted.len();
        if let Some(awaited) = awaited {
            for value in asked.drain(..) {
                let wants = match awaited {
                    Awaited::Elements => (value, Want::Elements),
                    Awaited::ArgMax => (value, Want::ArgMax),
                };
                // What is emitted for the same is not wanted twice.
                let known = wanted[emitted.clone()].iter().rposition(|&known| known == wants);
                positions.push(known.map_or(wanted.len(), |known| first + known));
                if known.is_none() {
                    wanted.push(wants);
                }
            }
            wanted.extend(carried.iter().map(|&value| (value, Want::Stay)));
        }
        let graph = self.graph.borrow();
        if wanted[first..].iter().any(|&(value, _)| graph.record_of(value).is_none()) {
            wanted.truncate(first);
            drop(exchange);
            self.fail(wirer, InputError::NotCarried);
            return false;
        }
        let then = awaited.map_or(Then::Ended, Then::Waits);
        let (instance, began) = (self.instance.get(), self.began.get());
        let (nodes, asked) = (self.nodes_of_turn(), positions);
        let turn = Turn { instance, wirer, began, nodes, kept, emitted, asked, then };
        self.turns.borrow_mut().push(turn);
        true
    }

    /// The nodes that were called since the turn before ended.
    fn nodes_of_turn(&self) -> Range<usize> {
        let first = self.turns.borrow().last().map_or(0, |turn| turn.nodes.end);
        first..self.graph.borrow().nodes()
    }
}

impl Turn {
    pub(super) fn waits(&self) -> bool {
        matches!(self.then, Then::Waits(_))
    }
}
