//! A model without cells: every operation is a node of its own, as in frameworks that batch
//! operation by operation.
//!
//! [`Vanilla`] wraps any model. Its network has a cell for each distinct operation (with its
//! shapes, and with its parameters, if it reads any); its wiring runs the wrapped model's and makes
//! a call for every operation of every call. A field of an input is the value itself, no copy; so
//! is a reduction of a single value. Parameters and constants are part of the operation that reads
//! them.
//!
//! Parameters keep their numbers, so a wrapped model takes the weights of the original as they are.
//! Construction includes wiring the original; it is little beside an operation at a time.

mod calls;
mod explosion;

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use edbatch_graph::{CellError, Graph, Kind, Network, RecordId, Value};
use edbatch_models::{Answer, Awaited, Build, BuildError, Exchange, Model};

use calls::Calls;
use explosion::{Explosion, shapes};

/// A model whose nodes are operations; see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct Vanilla<M> {
    model: M,
    network: Arc<Network>,
    /// What a call of each cell of the original becomes.
    recipes: Vec<Recipe>,
    /// The initial values of the original, field after field.
    initial: Vec<Value>,
}

/// The operations of a cell.
#[derive(Clone, Debug)]
struct Recipe {
    steps: Vec<Step>,
    outputs: Vec<Operand>,
    fields: usize,
}

/// One operation: a call of the vanilla network.
#[derive(Clone, Debug)]
enum Step {
    Lookup { kind: Kind, table: u16 },
    Reduce { kind: Kind, port: u16, field: u16 },
    Apply { kind: Kind, operands: Vec<Operand> },
}

/// Where an operation's operand comes from.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Input { port: u16, field: u16 },
    Step(usize),
}

impl<M: Model> Vanilla<M> {
    /// Takes a model apart.
    ///
    /// # Errors
    /// If there would be more than 65,536 different operations.
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
        let exchange = RefCell::new(Exchange::default());
        let inner = Build::new(&graph, &exchange);
        let mut wiring = pin!(self.model.build(&inner, input));
        let mut given = self.initial.clone();
        loop {
            let poll = wiring.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let calls = Calls::new(self, build, &graph.borrow(), &given)?;
            for value in exchange.borrow_mut().emitted.drain(..) {
                calls.fields(value).iter().for_each(|&field| build.emit(field));
            }
            if let Poll::Ready(result) = poll {
                return result;
            }
            let Exchange { awaited, asked, carried, .. } = exchange.take();
            let awaited = awaited.expect("or it would have ended");
            let [asked] = *calls.fields(asked[0]) else {
                return Err(BuildError::Input("awaited values have one field each here".into()));
            };
            let fields = carried.iter().flat_map(|&value| calls.fields(value)).copied().collect();
            let (answer, greatest, fields) = fetch(build, awaited, asked, fields).await?;
            given.truncate(self.initial.len());
            given.extend(fields);
            let greatest = [greatest].into_iter().collect();
            exchange.replace(Exchange { carried, greatest, ..Exchange::default() });
            hand_over(&mut graph.borrow_mut(), &mut exchange.borrow_mut(), answer);
        }
    }
}

/// Like [`Build::fetch`] or [`Build::arg_max`], for any number of carried values up to 8. Returns
/// the answer, the index if one was awaited, and the carried values.
async fn fetch(
    build: &Build<'_>,
    awaited: Awaited,
    asked: Value,
    carried: Vec<Value>,
) -> Result<(Answer, u32, Vec<Value>), BuildError> {
    macro_rules! by_count {
        ($($count:literal)*) => {
            match carried.len() {
                $($count => {
                    let carried = carried.try_into().expect("matched");
                    Ok(match awaited {
                        Awaited::Elements => {
                            let (elements, carried) = build.fetch::<$count>(asked, carried).await;
                            (Answer::Elements(elements), 0, carried.into())
                        }
                        Awaited::ArgMax => {
                            let (index, carried) = build.arg_max::<$count>(asked, carried).await;
                            (Answer::ArgMax, index, carried.into())
                        }
                    })
                })*
                more => Err(BuildError::Input(format!("{more} values carried, at most 8 here"))),
            }
        };
    }
    by_count!(0 1 2 3 4 5 6 7 8)
}

/// Hands the wrapped model's wiring what it awaited, and renames its carried values.
fn hand_over(graph: &mut Graph, exchange: &mut Exchange, answer: Answer) {
    exchange.answer = Some(answer);
    let record = |value| graph.record_of(value).expect("carried values are of the graph");
    let records: Vec<RecordId> = exchange.carried.iter().map(|&value| record(value)).collect();
    graph.clear();
    exchange.carried = records.into_iter().map(|record| graph.give(record)).collect();
}
