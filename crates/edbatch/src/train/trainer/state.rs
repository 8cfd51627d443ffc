//! The parameters of a trainer, and its state as bytes.

use std::str::FromStr;
use std::sync::Arc;

use edbatch_layout::{CellStyle, Program};
use edbatch_models::Model;
use edbatch_runtime::{Parameters, TrainingState};

use super::Trainer;
use crate::train::differentiator::training;
use crate::train::optimizer::Epochs;
use crate::{Engine, EngineError, EngineOptions, TrainError};

/// Separates a state's text from the caller's note.
const NOTE: &str = "\nnote=\n";

impl<M: Model> Trainer<M> {
    /// Returns the parameters. If they still exist at the next update, that update copies them.
    ///
    /// # Errors
    /// If they cannot be copied from the backend. On the CPU, this does not happen.
    pub fn parameters(&mut self) -> Result<Parameters, TrainError> {
        Ok(self.differentiator.state()?.parameters)
    }

    /// Creates an engine with the parameters as they are now: on the trainer's device, whose kernel
    /// is compiled once, or else on the CPU. Later updates do not change it.
    ///
    /// # Errors
    /// If the options are incompatible; a device rounds no products and folds no tables. If memory
    /// for the weights cannot be allocated.
    pub fn engine(&mut self, options: EngineOptions) -> Result<Engine<M>, TrainError>
    where
        M: Clone,
    {
        let (model, parameters) = (self.model().clone(), self.parameters()?);
        let program = match self.evaluated.take() {
            Some(program) => program,
            None => {
                let program = Program::new(model.network().clone(), CellStyle::default());
                Arc::new(program.map_err(EngineError::from)?)
            }
        };
        self.evaluated = Some(program.clone());
        let training = training(&mut self.differentiator.backend);
        let engine = match training.evaluation(&program, &parameters)? {
            Some(backend) => Engine::with_backend(model, &parameters, program, backend, options),
            None => Engine::with_options(model, parameters, options),
        };
        Ok(engine?)
    }

    /// Replaces the parameters. Moments and the number of updates stay.
    ///
    /// # Errors
    /// If they belong to another network. Then nothing has changed.
    pub fn set_parameters(&mut self, parameters: &Parameters) -> Result<(), TrainError> {
        let parameters = parameters.for_network(self.model().network())?;
        let state = TrainingState { parameters, ..self.differentiator.state()? };
        self.differentiator.set_state(state)
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
        let Epochs { ended, best, bad, factor } = self.updater.epochs;
        let (rule, updates) = (self.rule(), self.updater.steps);
        let text = format!(
            "optimizer={rule}\nupdates={updates}\nepochs={ended}\nbest={best:?}\nbad_epochs={bad}\n\
             plateau={factor:?}{NOTE}{note}"
        );
        let state = self.differentiator.state()?;
        let (network, rule) = (self.model().network(), &self.updater.optimizer.rule);
        Ok(state.to_safetensors(network, rule, text)?)
    }

    /// Returns the text that was passed to [`state_with_note`](Self::state_with_note).
    ///
    /// # Errors
    /// If the bytes are not a state.
    pub fn note_of(state: &[u8]) -> Result<String, TrainError> {
        let text = TrainingState::text(state)?;
        let note = text.split_once(NOTE).map(|(_, note)| note.to_string());
        note.ok_or_else(|| TrainError::State { why: "it has no note".into() })
    }

    /// Continues from a state that [`state`](Self::state) returned, of a trainer with the same
    /// model and rule. Rates, groups and clipping are those of this trainer's options.
    ///
    /// # Errors
    /// If the bytes are not such a state. Then nothing has changed.
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let text = TrainingState::text(bytes)?;
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
        let (network, rule) = (self.model().network(), &self.updater.optimizer.rule);
        let state = TrainingState::from_safetensors(network, rule, bytes)?;
        self.differentiator.set_state(state)?;
        (self.updater.steps, self.updater.epochs) = (steps, epochs);
        Ok(())
    }

    /// Returns the rule as text, with its options.
    fn rule(&self) -> String {
        format!("{:?}", self.updater.optimizer.rule)
    }
}
