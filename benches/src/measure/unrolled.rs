//! Builds all graphs of a mini-batch without running them, to count batches and FLOPs.
//!
//! Awaited values are zeros. The graphs are the same as in a real run if computed values only
//! determine which rows are looked up, and not the number of steps.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use edbatch::models::{Answer, Build, BuildError, Mailbox, Model, Request};
use edbatch_graph::{Graph, Value};

/// One graph of a mini-batch, and the values read after it has run.
#[derive(Clone, Debug)]
pub struct Unrolled {
    /// The calls.
    pub graph: Graph,
    /// The values that instances emit, await or carry to the next graph.
    pub wanted: Vec<Value>,
}

/// Builds all graphs of a mini-batch: one, unless instances await values. A graph has at most
/// `chain` steps of a decoder.
pub fn unroll<M: Model>(
    model: &M,
    inputs: &[M::Input],
    chain: usize,
) -> Result<Vec<Unrolled>, BuildError> {
    let graph = RefCell::new(Graph::new(model.network().clone()));
    let mailboxes: Vec<RefCell<Mailbox>> = inputs.iter().map(|_| RefCell::default()).collect();
    let builds: Vec<Build<'_>> =
        mailboxes.iter().map(|m| Build::new(&graph, m).with_chain(chain)).collect();
    let wirings = inputs.iter().zip(&builds).map(|(input, build)| model.build(build, input));
    let mut wirings: Vec<_> = wirings.map(|wiring| Some(Box::pin(wiring))).collect();
    let mut unrolled = Vec::new();
    loop {
        let mut waiting = false;
        for slot in &mut wirings {
            waiting |= advance(slot)?;
        }
        let wanted = mailboxes.iter().flat_map(|mailbox| {
            let Mailbox { emitted, request, carried, .. } = &*mailbox.borrow();
            let requested = request.iter().flat_map(Request::values);
            emitted.iter().chain(requested).chain(carried).copied().collect::<Vec<_>>()
        });
        let wanted = wanted.collect();
        unrolled.push(Unrolled { graph: graph.borrow().clone(), wanted });
        if !waiting {
            return Ok(unrolled);
        }
        answer(&mut graph.borrow_mut(), &mailboxes);
    }
}

/// Polls an instance until it ends or awaits a value. Returns true if it awaits one.
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

/// Answers all awaited values with zeros, and clears the graph except for carried values.
fn answer(graph: &mut Graph, mailboxes: &[RefCell<Mailbox>]) {
    let record = |graph: &Graph, value| graph.record_of(value).expect("a value of this graph");
    let zeros = |value| {
        let fields = &graph.network().fields(record(graph, value)).fields;
        vec![0.0; fields.iter().map(|field| field.shape.elements()).sum()]
    };
    let mut records = Vec::new();
    for mailbox in mailboxes {
        let mailbox = &mut *mailbox.borrow_mut();
        mailbox.emitted.clear();
        mailbox.given.clear();
        mailbox.answer = mailbox.request.take().map(|request| match request {
            Request::ArgMax(_) | Request::Chain { .. } => Answer::ArgMax(0),
            Request::Elements(value) => Answer::Elements(zeros(value)),
            Request::EachElements(values) => {
                Answer::EachElements(values.into_iter().map(zeros).collect())
            }
            Request::Two => panic!("a model awaits two requests at the same time"),
        });
        if mailbox.answer.is_none() {
            // The instance has ended, so its carried values are never read.
            mailbox.carried.clear();
        }
        records.extend(mailbox.carried.iter().map(|&value| record(graph, value)));
    }
    graph.clear();
    let mut records = records.into_iter();
    for mailbox in mailboxes {
        for value in &mut mailbox.borrow_mut().carried {
            *value = graph.give(records.next().expect("collected above"));
        }
    }
}
