//! The options of engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::cuda::{self, CudaOptions, DevicePrecision, EmulatedDevice};
use edbatch::graph::Network;
use edbatch::layout::{CellStyle, Program};
use edbatch::policy::{AnyPolicy, ChoiceError, PolicyChoice};
use edbatch::runtime::{Backend, BackendError, Parameters};
use edbatch::{Engine, EngineOptions, Precision, TrainError, Trainer, TrainerOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{self, FileError};
use crate::model::Wired;

/// The options of an engine, as Python names them.
pub(crate) struct Options<'a> {
    pub(crate) threads: usize,
    pub(crate) policy: Option<PathBuf>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) fold_tables: u64,
    pub(crate) counts: bool,
    pub(crate) device: Device,
    pub(crate) precision: &'a str,
}

/// The place where batches run.
#[derive(Clone, PartialEq)]
pub(crate) enum Device {
    Cpu,
    Cuda(Vec<usize>),
    /// The kernels of CUDA, on the host.
    Emulated,
}

impl Device {
    pub(crate) fn parse(name: &str) -> PyResult<Self> {
        let numbers = |text: &str| -> Option<Vec<usize>> {
            text.split(',').map(|number| number.parse().ok()).collect()
        };
        let device = match name.split_once(':') {
            None if name == "cpu" => Some(Self::Cpu),
            None if name == "cuda" => Some(Self::Cuda(vec![0])),
            None if name == "cuda-emulated" => Some(Self::Emulated),
            Some(("cuda", list)) => numbers(list).map(Self::Cuda),
            _ => None,
        };
        device.ok_or_else(|| {
            PyValueError::new_err(format!(
                "device: expected cpu, cuda, cuda:1 or cuda-emulated, got {name:?}"
            ))
        })
    }

    /// Like [`parse`](Self::parse), for trainers, which use one device.
    pub(crate) fn of_trainer(name: &str) -> PyResult<Self> {
        let device = Self::parse(name)?;
        if matches!(&device, Self::Cuda(devices) if devices.len() != 1) {
            let error = format!("device: expected one device for training, got {name:?}");
            return Err(PyValueError::new_err(error));
        }
        Ok(device)
    }

    /// Loads a program on devices.
    fn load(
        &self,
        program: &Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Box<dyn Backend>, BackendError> {
        let program = program.clone();
        match self {
            Self::Cuda(devices) => cuda::nvidia(program, parameters, options, devices),
            _ => Ok(Box::new(EmulatedDevice::new(0).load(program, parameters, options)?)),
        }
    }

    /// Builds a trainer.
    pub(crate) fn trainer(
        &self,
        model: Wired,
        network: &Network,
        parameters: Parameters,
        options: TrainerOptions,
    ) -> Result<Trainer<Wired>, TrainError> {
        if *self == Self::Cpu {
            return Trainer::with_options(model, parameters, options);
        }
        let program = Trainer::<Wired>::program(network, &options)?;
        let masked = Trainer::<Wired>::masked_parameters(network, &parameters, &options)?;
        let backend = self.load(&program, &masked, &CudaOptions::new())?;
        Trainer::with_backend(model, parameters, program, backend, options)
    }
}

/// Opens a policy, by its name or its file. `None` is the default of the engine.
pub(crate) fn policy_of(name: Option<&Path>, network: &Network) -> PyResult<Option<AnyPolicy>> {
    let Some(name) = name else { return Ok(None) };
    let choice: PolicyChoice = name
        .to_string_lossy()
        .parse()
        .map_err(|error: ChoiceError| PyValueError::new_err(format!("policy: {error}")))?;
    let policy = choice.open(&network.kind_names());
    policy.map(Some).map_err(|error| FileError::new_err(error.to_string()))
}

impl Options<'_> {
    /// Builds an engine.
    pub(crate) fn engine(
        &self,
        model: Wired,
        network: &Arc<Network>,
        parameters: Parameters,
        policy: Option<AnyPolicy>,
    ) -> PyResult<Engine<Wired>> {
        let options = EngineOptions::new().threads(self.threads);
        let options = policy.into_iter().fold(options, EngineOptions::policy);
        let options = self.memory_limit.into_iter().fold(options, EngineOptions::memory_limit);
        let options = if self.counts { options.counts() } else { options };
        if self.device == Device::Cpu {
            let precisions = [("f32", Precision::F32), ("bf16", Precision::Bf16)];
            let precision = self.precision_of("cpu", &precisions)?;
            let options = options.fold_tables(self.fold_tables).precision(precision);
            return Engine::with_options(model, parameters, options).map_err(errors::engine);
        }
        let precisions = [
            ("f32", DevicePrecision::Exact),
            ("bf16", DevicePrecision::Bf16),
            ("tf32", DevicePrecision::Tf32),
        ];
        let precision = self.precision_of("cuda", &precisions)?;
        let program = Program::new(network.clone(), CellStyle::default());
        let program = program.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let program = Arc::new(program.fold_tables(self.fold_tables));
        let cuda_options = CudaOptions::new().precision(precision);
        let backend = self.device.load(&program, &parameters, &cuda_options);
        let backend = backend.map_err(errors::backend)?;
        let engine = Engine::with_backend(model, &parameters, program, backend, options);
        engine.map_err(errors::engine)
    }

    /// Returns the precision, which must be one of those that the device has.
    fn precision_of<P: Copy>(&self, device: &str, all: &[(&str, P)]) -> PyResult<P> {
        let precision = all.iter().find(|(name, _)| *name == self.precision);
        precision.map(|&(_, precision)| precision).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            let (names, got) = (names.join(" or "), self.precision);
            let error = format!("precision: expected {names} on device {device}, got {got:?}");
            PyValueError::new_err(error)
        })
    }
}
