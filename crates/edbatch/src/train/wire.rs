//! Wires inputs into a graph, without awaits.

use std::cell::RefCell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use edbatch_graph::Graph;
use edbatch_models::{Build, Mailbox, Model};

use crate::{InputError, TrainError};

/// Wires one input into a graph. `mailbox` gets the values that the input emits and gives.
pub(super) fn wire<M: Model>(
    model: &M,
    input: &M::Input,
    graph: &RefCell<Graph>,
    mailbox: &RefCell<Mailbox>,
    index: usize,
) -> Result<(), TrainError> {
    let build = Build::new(graph, mailbox);
    let future = pin!(model.build(&build, input));
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Err(TrainError::Awaits { input: index }),
        Poll::Ready(Err(error)) => {
            Err(TrainError::Input { input: index, error: InputError::Build(error) })
        }
        Poll::Ready(Ok(())) => Ok(()),
    }
}
