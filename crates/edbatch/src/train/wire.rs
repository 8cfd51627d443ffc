//! Wires inputs into a graph, without awaits.

use std::cell::RefCell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use edbatch_graph::Graph;
use edbatch_models::{Build, Mailbox, Model};

use crate::{InputError, TrainError};

/// Wires one input into a graph. Returns the values that the input emits and gives.
pub(super) fn wire<M: Model>(
    model: &M,
    input: &M::Input,
    graph: &RefCell<Graph>,
    index: usize,
) -> Result<Mailbox, TrainError> {
    let mailbox = RefCell::new(Mailbox::default());
    let build = Build::new(graph, &mailbox);
    let polled = pin!(model.build(&build, input)).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        Poll::Pending => Err(TrainError::Awaits { input: index }),
        _ if graph.borrow().looks_up() => Err(TrainError::Awaits { input: index }),
        Poll::Ready(Err(error)) => {
            Err(TrainError::Input { input: index, error: InputError::Build(error) })
        }
        Poll::Ready(Ok(())) => Ok(mailbox.take()),
    }
}
