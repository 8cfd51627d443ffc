//! The parameters of a trainer, and its state as bytes.

use std::str::FromStr;

use edbatch_models::Model;
use edbatch_runtime::{Parameters, TrainingState, initial_rows};

use super::{Trainer, training};
use crate::train::optimizer::Epochs;
use crate::{RunError, TrainError};

/// Separates a state's text from the caller's note.
const NOTE: &str = "\nnote=\n";

impl<M: Model> Trainer<M> {
    /// Returns the parameters. If they still exist at the next update, that update copies them.
    #[must_use]
    pub fn parameters(&mut self) -> Parameters {
        self.training_state().parameters
    }

    /// Returns the state without masks.
    fn training_state(&mut self) -> TrainingState {
        let TrainingState { parameters, mut moments } = training(&mut *self.backend).state();
        let network = self.model.network();
        moments.truncate(network.parameters().len());
        let parameters = self.dropout.without_masks(&parameters, network);
        TrainingState { parameters, moments }
    }

    /// Replaces the backend's state, after adding masks to `state`.
    fn set_training_state(&mut self, state: TrainingState) -> Result<(), TrainError> {
        let TrainingState { parameters, mut moments } = state;
        moments.resize(self.dropout.network.parameters().len(), Vec::new());
        let parameters = self.dropout.with_masks(&parameters).map_err(TrainError::Parameters)?;
        let state = TrainingState { parameters, moments };
        training(&mut *self.backend).set_state(&state).map_err(RunError::from)?;
        self.forget_old_values();
        Ok(())
    }

    /// Replaces the parameters. Moments and the number of updates stay.
    ///
    /// # Errors
    /// If they belong to another network. Then nothing has changed.
    pub fn set_parameters(&mut self, parameters: &Parameters) -> Result<(), TrainError> {
        let parameters = parameters.for_network(self.model.network());
        let parameters = parameters.map_err(TrainError::Parameters)?;
        let state = TrainingState { parameters, ..self.training_state() };
        self.set_training_state(state)
    }

    /// Returns what later steps depend on, as the bytes of a safetensors file: the parameters, the
    /// moments of the optimizer, the number of updates, and the learning rate's epochs. Gradients
    /// are not part of it.
    ///
    /// # Errors
    /// If serialization fails.
    pub fn state(&mut self) -> Result<Vec<u8>, TrainError> {
        self.state_with_note("")
    }

    /// Returns the [`state`](Self::state) with any text of the caller, such as the position in an
    /// epoch, for [`note_of`](Self::note_of).
    ///
    /// # Errors
    /// If serialization fails.
    pub fn state_with_note(&mut self, note: &str) -> Result<Vec<u8>, TrainError> {
        let Epochs { ended, best, bad, factor } = self.epochs;
        let (rule, updates) = (self.rule(), self.steps);
        let text = format!(
            "optimizer={rule}\nupdates={updates}\nepochs={ended}\nbest={best:?}\nbad_epochs={bad}\n\
             plateau={factor:?}{NOTE}{note}"
        );
        let state = self.training_state();
        let (network, rule) = (self.model.network(), &self.optimizer.rule);
        state.to_safetensors(network, rule, text).map_err(TrainError::Parameters)
    }

    /// Returns the text that was passed to [`state_with_note`](Self::state_with_note).
    ///
    /// # Errors
    /// If the bytes are not a state.
    pub fn note_of(state: &[u8]) -> Result<String, TrainError> {
        let text = TrainingState::text(state).map_err(TrainError::Parameters)?;
        let note = text.split_once(NOTE).map(|(_, note)| note.to_string());
        note.ok_or_else(|| TrainError::State { why: "it has no note".into() })
    }

    /// Continues from a state that [`state`](Self::state) returned, of a trainer with the same
    /// model and rule. Rates, groups and clipping are those of this trainer's options.
    ///
    /// # Errors
    /// If the bytes are not such a state. Then nothing has changed.
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let text = TrainingState::text(bytes).map_err(TrainError::Parameters)?;
        let of = |key: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once('='));
            let found = pairs.find(|&(name, _)| name == key).map(|(_, value)| value);
            found.ok_or_else(|| TrainError::State { why: format!("it does not say `{key}`") })
        };
        fn number<T: FromStr>(key: &str, text: &str) -> Result<T, TrainError> {
            let why = || format!("`{key}`: expected a number, got `{text}`");
            text.parse().map_err(|_| TrainError::State { why: why() })
        }
        let (expected, got) = (self.rule(), of("optimizer")?);
        if got != expected {
            let why = format!("its optimizer is {got}, the trainer's is {expected}");
            return Err(TrainError::State { why });
        }
        // 32 bits, so that no count overflows.
        let count = |key: &str| Ok::<_, TrainError>(u64::from(number::<u32>(key, of(key)?)?));
        let steps = count("updates")?;
        let (ended, bad) = (count("epochs")?, count("bad_epochs")?);
        let (best, factor) = (number("best", of("best")?)?, number("plateau", of("plateau")?)?);
        if !(0.0..=1.0).contains(&factor) {
            let why = format!("`plateau`: expected a number from 0 to 1, got {factor}");
            return Err(TrainError::State { why });
        }
        let epochs = Epochs { ended, best, bad, factor };
        let (network, rule) = (self.model.network(), &self.optimizer.rule);
        let state = TrainingState::from_safetensors(network, rule, bytes);
        let state = state.map_err(TrainError::Parameters)?;
        self.set_training_state(state)?;
        (self.steps, self.epochs) = (steps, epochs);
        Ok(())
    }

    /// Returns the rule as text, with its options.
    fn rule(&self) -> String {
        format!("{:?}", self.optimizer.rule)
    }

    /// Forgets what was computed from old parameters, and reads the initial values again.
    pub(super) fn forget_old_values(&mut self) {
        self.forward = 0;
        self.clear_gradients();
        if !self.initial.is_empty() {
            let parameters = self.parameters();
            self.initial = initial_rows(self.model.network(), &parameters);
        }
    }
}
