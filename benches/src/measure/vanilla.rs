//! A model without cells: every operation is a node, as in many frameworks.
//!
//! [`Vanilla`] wraps any model. Its network has a cell for each distinct operation, with its
//! shapes and its parameters. Its wiring runs the wrapped model's wiring, and makes a call for
//! every operation of every call. Fields of an input and reductions of a single value need no
//! call. Parameters and constants belong to the operation that reads them.
//!
//! Parameters keep their numbers, so that a wrapped model takes the weights of the original.
//! Construction includes wiring the original, which is cheap compared with single operations.

mod calls;
mod explosion;

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use edbatch::models::{Answer, Build, BuildError, Mailbox, Model, Request};
use edbatch_graph::{CellError, Graph, Network, RecordId, Value};

use crate::measure::vanilla::calls::Calls;
use crate::measure::vanilla::explosion::{Explosion, Recipe, shapes};

/// A model whose nodes are operations; see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct Vanilla<M> {
    model: M,
    network: Arc<Network>,
    /// For each cell of the original: the operations that replace a call.
    recipes: Vec<Recipe>,
    /// The initial values of the original, field by field.
    initial: Vec<Value>,
}

impl<M: Model> Vanilla<M> {
    /// Splits the cells of a model into operations.
    pub fn new(model: M) -> Result<Self, CellError> {
        let original = model.network().clone();
        let mut explosion = Explosion::new(&original)?;
        let mut initial = Vec::new();
        for value in original.initial_values() {
            for (&parameter, field) in value.parameters.iter().zip(shapes(&original, value.record))
            {
                let record = explosion.record(field)?;
                let name = &original.parameter(parameter).name;
                initial.push(explosion.network.initial(record, &[name])?);
            }
        }
        let recipes = original.cells().iter().map(|cell| explosion.recipe(cell));
        let recipes = recipes.collect::<Result<_, _>>()?;
        Ok(Self { model, recipes, initial, network: Arc::new(explosion.network) })
    }
}

impl<M: Model> Model for Vanilla<M> {
    type Input = M::Input;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, input: &M::Input) -> Result<(), BuildError> {
        let graph = RefCell::new(Graph::new(self.model.network().clone()));
        let mailbox = RefCell::new(Mailbox::default());
        let inner = Build::new(&graph, &mailbox);
        let mut wiring = pin!(self.model.build(&inner, input));
        let mut given = self.initial.clone();
        loop {
            let poll = wiring.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let calls = Calls::new(&self.recipes, build, &graph.borrow(), &given)?;
            let Mailbox { emitted, request, carried, .. } = mailbox.take();
            for value in emitted {
                calls.fields(value).iter().for_each(|&field| build.emit(field));
            }
            if let Poll::Ready(result) = poll {
                return result;
            }
            let request = request.expect("the wiring waits for a value");
            let field = |value| match *calls.fields(value) {
                [field] => Some(field),
                _ => None,
            };
            let request = match request {
                Request::Elements(value) => field(value).map(Request::Elements),
                Request::ArgMax(value) => field(value).map(Request::ArgMax),
                Request::EachElements(_) | Request::Chain { .. } | Request::Two => None,
            };
            let Some(request) = request else {
                let message = "expected to await one value of one field at a time without cells";
                return Err(BuildError::Input(message.into()));
            };
            let fields = carried.iter().flat_map(|&value| calls.fields(value)).copied().collect();
            let (answer, fields) = wait(build, request, fields).await?;
            given.truncate(self.initial.len());
            given.extend(fields);
            let graph = &mut graph.borrow_mut();
            let record = |value| graph.record_of(value).expect("carried values are of the graph");
            let records: Vec<RecordId> = carried.iter().map(|&value| record(value)).collect();
            graph.clear();
            let carried = records.into_iter().map(|record| graph.give(record)).collect();
            let answer = Some(answer);
            mailbox.replace(Mailbox { carried, answer, ..Mailbox::default() });
        }
    }
}

/// Waits like [`Build::fetch`] or [`Build::arg_max`], whose number of carried values is fixed at
/// compile time. Returns the answer, and new names for the `carried` values, which stay usable.
async fn wait(
    build: &Build<'_>,
    request: Request,
    carried: Vec<Value>,
) -> Result<(Answer, Vec<Value>), BuildError> {
    macro_rules! by_count {
        ($($count:literal)*) => {
            match carried.len() {
                $($count => {
                    let carried = carried.try_into().expect("matched");
                    Ok(match request {
                        Request::Elements(value) => {
                            let (elements, carried) = build.fetch::<$count>(value, carried).await;
                            (Answer::Elements(elements), carried.into())
                        }
                        Request::ArgMax(value) => {
                            let (index, carried) = build.arg_max::<$count>(value, carried).await;
                            (Answer::ArgMax(index), carried.into())
                        }
                        _ => unreachable!("the caller makes these two requests"),
                    })
                })*
                more => Err(BuildError::Input(format!(
                    "{more} values carried: at most 8 are supported without cells"
                ))),
            }
        };
    }
    by_count!(0 1 2 3 4 5 6 7 8)
}
