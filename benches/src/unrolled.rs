//! Builds all graphs of a mini-batch without running them, for counting batches and FLOPs.
//!
//! Where an instance awaits a value, it is given zeros. Models whose wiring depends on computed
//! values only for what they look up, not for how long they go on, unroll as they run.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use edbatch_graph::{Graph, Value};
use edbatch_models::{Answer, Awaited, Build, BuildError, Exchange, Model};

/// One graph of a mini-batch, and the values that are read after it has run.
#[derive(Clone, Debug)]
pub struct Unrolled {
    /// The calls.
    pub graph: Graph,
    /// What instances emit, await or carry on.
    pub wanted: Vec<Value>,
}

/// All graphs of a mini-batch, one unless instances await values.
///
/// # Errors
/// If an input does not fit the model.
pub fn unroll<M: Model>(model: &M, inputs: &[M::Input]) -> Result<Vec<Unrolled>, BuildError> {
    let graph = RefCell::new(Graph::new(model.network().clone()));
    let exchanges: Vec<RefCell<Exchange>> = inputs.iter().map(|_| RefCell::default()).collect();
    let builds: Vec<Build<'_>> = exchanges.iter().map(|e| Build::new(&graph, e)).collect();
    let wirings = inputs.iter().zip(&builds).map(|(input, build)| model.build(build, input));
    let mut wirings: Vec<_> = wirings.map(|wiring| Some(Box::pin(wiring))).collect();
    let mut unrolled = Vec::new();
    loop {
        let mut waiting = false;
        for slot in &mut wirings {
            waiting |= advance(slot)?;
        }
        let wanted = exchanges.iter().flat_map(|exchange| {
            let Exchange { emitted, asked, carried, .. } = &*exchange.borrow();
            emitted.iter().chain(asked).chain(carried).copied().collect::<Vec<_>>()
        });
        let wanted = wanted.collect();
        unrolled.push(Unrolled { graph: graph.borrow().clone(), wanted });
        if !waiting {
            return Ok(unrolled);
        }
        answer(&mut graph.borrow_mut(), &exchanges);
    }
}

/// Lets an instance go on until it ends or awaits a value; whether it awaits one.
fn advance<W: Future<Output = Result<(), BuildError>>>(
    slot: &mut Option<Pin<Box<W>>>,
) -> Result<bool, BuildError> {
    let Some(wiring) = slot else { return Ok(false) };
    match wiring.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => return Ok(true),
        Poll::Ready(result) => result?,
    }
    *slot = None;
    Ok(false)
}

/// Hands every instance zeros for what it awaits, and empties the graph but for carried values.
fn answer(graph: &mut Graph, exchanges: &[RefCell<Exchange>]) {
    let record = |graph: &Graph, value| graph.record_of(value).expect("carried or of this graph");
    let mut records = Vec::new();
    for exchange in exchanges {
        let exchange = &mut *exchange.borrow_mut();
        exchange.earlier += exchange.emitted.len();
        exchange.emitted.clear();
        exchange.answer = exchange.awaited.take().map(|awaited| match awaited {
            Awaited::ArgMax => {
                exchange.greatest = vec![0; exchange.asked.len()].into();
                Answer::ArgMax
            }
            Awaited::Elements => {
                let fields = &graph.network().fields(record(graph, exchange.asked[0])).fields;
                Answer::Elements(vec![0.0; fields.iter().map(|field| field.shape.elements()).sum()])
            }
        });
        exchange.asked.clear();
        if exchange.answer.is_none() {
            // The instance has ended: what it carried last is read by nothing.
            exchange.carried.clear();
        }
        records.extend(exchange.carried.iter().map(|&value| record(graph, value)));
    }
    graph.clear();
    let mut records = records.into_iter();
    for exchange in exchanges {
        for value in &mut exchange.borrow_mut().carried {
            *value = graph.give(records.next().expect("collected above"));
        }
    }
}
