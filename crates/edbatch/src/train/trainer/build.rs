//! The constructors of a trainer.

use std::sync::Arc;

use edbatch_graph::{Network, ParameterId, training_network};
use edbatch_layout::Program;
use edbatch_models::Model;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Parameters, Precision};

use super::Trainer;
use crate::train::differentiator::Differentiator;
use crate::train::dropout::Dropout;
use crate::train::updater::Updater;
use crate::{EngineError, TrainError, TrainerOptions};

impl<M: Model> Trainer<M> {
    /// Creates a trainer on the CPU with the default [`TrainerOptions`].
    ///
    /// # Errors
    /// If a cell, its adjoint or a table is too large, if the parameters belong to another network,
    /// or if memory cannot be allocated.
    pub fn new(model: M, parameters: Parameters) -> Result<Self, TrainError> {
        Self::with_options(model, parameters, TrainerOptions::new())
    }

    /// Creates a trainer on the CPU.
    ///
    /// # Errors
    /// Like [`new`](Self::new), or if the options are incompatible.
    pub fn with_options(
        model: M,
        parameters: Parameters,
        mut options: TrainerOptions,
    ) -> Result<Self, TrainError> {
        let program = Self::program(model.network(), &options)?;
        let pool = options.engine.take_pool()?;
        let parameters = parameters.for_network(model.network())?;
        let dropout = options.dropout(model.network());
        let with_masks = dropout.with_masks(&parameters)?;
        let cpu = Cpu::new(program.clone(), &with_masks, Level::detect(), Precision::F32);
        let cpu = cpu.map_err(EngineError::from)?;
        let cpu = Box::new(cpu.with_pool(pool.clone()));
        Self::with_dropout(model, parameters, program, cpu, options.pool(pool), dropout)
    }

    /// Derives the adjoints of a network's cells and compiles all cells, for
    /// [`with_backend`](Self::with_backend).
    ///
    /// # Errors
    /// If a cell, its adjoint or a table is too large, or if the options are incompatible.
    pub fn program(
        network: &Network,
        options: &TrainerOptions,
    ) -> Result<Arc<Program>, TrainError> {
        options.check(network)?;
        let masked = network.masked().network;
        let own = network.parameters().len();
        let is_trained = |id: ParameterId| {
            (id.0 as usize) < own && !options.group_of(&network.parameter(id).name).frozen
        };
        let training = training_network(&masked, is_trained, |_| options.given_gradients)?;
        let program = Program::for_training(Arc::new(training)).map_err(EngineError::from)?;
        Ok(Arc::new(program))
    }

    /// Creates a trainer on a backend that is loaded with `parameters` and with `program`, which
    /// [`program`](Self::program) returned for the same options. The backend may use the
    /// [pool](TrainerOptions::pool). If the model has dropout, load the backend with
    /// [`masked_parameters`](Self::masked_parameters).
    ///
    /// # Errors
    /// If the backend computes no gradients, if the parameters or the program belong to another
    /// network, or if the options are incompatible.
    pub fn with_backend(
        model: M,
        parameters: Parameters,
        program: Arc<Program>,
        backend: Box<dyn Backend>,
        options: TrainerOptions,
    ) -> Result<Self, TrainError> {
        let dropout = options.dropout(model.network());
        Self::with_dropout(model, parameters, program, backend, options, dropout)
    }

    /// Returns the parameters of a model with the masks of its dropout, which depend on the
    /// [seed](TrainerOptions::seed).
    ///
    /// # Errors
    /// If the parameters belong to another network.
    pub fn masked_parameters(
        network: &Network,
        parameters: &Parameters,
        options: &TrainerOptions,
    ) -> Result<Parameters, TrainError> {
        let parameters = parameters.for_network(network)?;
        Ok(options.dropout(network).with_masks(&parameters)?)
    }

    fn with_dropout(
        model: M,
        parameters: Parameters,
        program: Arc<Program>,
        backend: Box<dyn Backend>,
        mut options: TrainerOptions,
        dropout: Dropout,
    ) -> Result<Self, TrainError> {
        options.check(model.network())?;
        let all = dropout.network.parameters().len();
        let updater = Updater::new(&options, model.network(), all);
        let differentiator =
            Differentiator::new(model, &parameters, program, backend, &mut options, dropout)?;
        Ok(Self { differentiator, updater, evaluated: None })
    }
}
