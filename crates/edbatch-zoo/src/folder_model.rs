//! The model of a folder: a model of the zoo, or any network.

use std::sync::Arc;

use edbatch_graph::Network;
use edbatch_models::{Build, BuildError, CallLists, Model};

use crate::zoo::wrong_input;
use crate::{Zoo, ZooInput};

/// The model of a [`Folder`](crate::Folder).
#[derive(Clone, Debug)]
pub enum FolderModel {
    /// A model of the zoo.
    Zoo(Zoo),
    /// A network, whose inputs are call lists.
    Network(CallLists),
}

impl FolderModel {
    /// Returns true for a model that awaits computed values: its inputs have no call lists.
    #[must_use]
    pub fn awaits(&self) -> bool {
        matches!(self, Self::Zoo(zoo) if zoo.awaits())
    }
}

impl Model for FolderModel {
    type Input = ZooInput;

    fn network(&self) -> &Arc<Network> {
        match self {
            Self::Zoo(zoo) => zoo.network(),
            Self::Network(lists) => lists.network(),
        }
    }

    fn work(&self, input: &ZooInput) -> usize {
        input.work()
    }

    fn bytes(&self, input: &ZooInput) -> usize {
        match self {
            Self::Zoo(zoo) => zoo.bytes(input),
            Self::Network(_) => 0,
        }
    }

    async fn build(&self, build: &Build<'_>, input: &ZooInput) -> Result<(), BuildError> {
        match (self, input) {
            (Self::Zoo(zoo), input) => zoo.build(build, input).await,
            (Self::Network(lists), ZooInput::CallList(list)) => lists.build(build, list).await,
            (Self::Network(_), _) => Err(wrong_input()),
        }
    }
}
