//! `--backend`: where a model runs or is trained.

use clap::{Args, ValueEnum};
use edbatch::models::FolderModel;
use edbatch::{Engine, EngineOptions, TrainError, Trainer, TrainerOptions};
use edbatch_runtime::Parameters;

use crate::failure::Failure;
use crate::precision::Precision;

/// The backend and the device of a command that computes losses.
#[derive(Args)]
pub(crate) struct Device {
    /// Backend that runs the model. On all of them, results in f32 have the same bits.
    #[arg(long, value_name = "B", value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Device of backend cuda, a number from 0.
    #[arg(long, value_name = "N")]
    device: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Batches on the CPU.
    Cpu,
    /// Batches on an NVIDIA GPU (in builds with the feature `cuda`).
    Cuda,
    /// The kernels of cuda, compiled for the CPU, for tests (in builds with the feature `cuda`).
    CudaEmulated,
}

impl Device {
    /// A backend, on a device if it is cuda.
    pub(crate) fn new(backend: Backend, device: Option<usize>) -> Self {
        Self { backend, device }
    }

    /// Checks that this build has the backend, and that the options fit each other.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.device.is_some() && self.backend != Backend::Cuda {
            return Err(Failure::Usage("--device is for backend cuda".into()));
        }
        if self.backend == Backend::Cpu { Ok(()) } else { has_cuda("cpu") }
    }

    /// Like [`check`](Self::check), for engines: each backend has its own precisions.
    pub(crate) fn check_engine(&self, precision: Precision) -> Result<(), Failure> {
        self.check()?;
        match self.backend {
            Backend::Cpu => precision.on_cpu().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Like [`check`](Self::check), for training, which has one precision.
    pub(crate) fn check_training(&self, precision: Precision) -> Result<(), Failure> {
        if precision != Precision::F32 {
            let message = "--precision: training is in f32 alone; bf16 and tf32 are for infer";
            return Err(Failure::Usage(message.into()));
        }
        self.check()
    }

    /// Creates an engine.
    pub(crate) fn engine(
        &self,
        model: FolderModel,
        parameters: &Parameters,
        options: EngineOptions,
        precision: Precision,
    ) -> Result<Engine<FolderModel>, Failure> {
        match self.backend {
            #[cfg(feature = "cuda")]
            Backend::Cuda | Backend::CudaEmulated => {
                let devices = self.devices();
                on_device::engine(model, parameters, options, &devices, (precision, 0))
            }
            _ => {
                let options = self.engine_options(options, precision)?;
                Engine::with_options(model, parameters.clone(), options).map_err(Failure::new)
            }
        }
    }

    /// Sets the precision of an engine on the CPU. The kernels of a device have their own.
    pub(crate) fn engine_options(
        &self,
        options: EngineOptions,
        precision: Precision,
    ) -> Result<EngineOptions, Failure> {
        match self.backend {
            #[cfg(feature = "cuda")]
            Backend::Cuda | Backend::CudaEmulated => Ok(options),
            _ => Ok(options.precision(precision.on_cpu()?)),
        }
    }

    /// Creates a trainer.
    pub(crate) fn trainer(
        &self,
        model: FolderModel,
        parameters: Parameters,
        options: TrainerOptions,
    ) -> Result<Trainer<FolderModel>, TrainError> {
        match self.backend {
            #[cfg(feature = "cuda")]
            Backend::Cuda | Backend::CudaEmulated => {
                on_device::trainer(model, parameters, options, &self.devices())
            }
            _ => Trainer::with_options(model, parameters, options),
        }
    }

    #[cfg(feature = "cuda")]
    fn devices(&self) -> on_device::Devices {
        match self.backend {
            Backend::Cuda => on_device::Devices::Nvidia(vec![self.device.unwrap_or(0)]),
            _ => on_device::Devices::Emulated,
        }
    }
}

/// Fails in a build without the feature `cuda`.
pub(crate) fn has_cuda(others: &str) -> Result<(), Failure> {
    if cfg!(feature = "cuda") {
        return Ok(());
    }
    Err(Failure::new(format_args!(
        "this build does not support backend cuda: build with `--features cuda`, or choose {others}"
    )))
}

/// Engines and trainers on devices.
#[cfg(feature = "cuda")]
pub(crate) mod on_device {
    use std::sync::Arc;

    use edbatch::cuda::{self, CudaOptions, EmulatedDevice};
    use edbatch::models::{FolderModel, Model};
    use edbatch::{Engine, EngineOptions, TrainError, Trainer, TrainerOptions};
    use edbatch_layout::{CellStyle, Program};
    use edbatch_runtime::{Backend, BackendError, Parameters};

    use crate::failure::Failure;
    use crate::precision::{Precision, report};

    /// NVIDIA devices by their numbers, or the emulated one.
    pub(crate) enum Devices {
        Nvidia(Vec<usize>),
        Emulated,
    }

    impl Devices {
        fn load(
            &self,
            program: &Arc<Program>,
            parameters: &Parameters,
            options: &CudaOptions,
        ) -> Result<Box<dyn Backend>, BackendError> {
            let program = program.clone();
            match self {
                Self::Nvidia(devices) => cuda::nvidia(program, parameters, options, devices),
                Self::Emulated => {
                    Ok(Box::new(EmulatedDevice::new(0).load(program, parameters, options)?))
                }
            }
        }
    }

    /// Creates an engine with a precision, and a maximum size of folded tables.
    pub(crate) fn engine(
        model: FolderModel,
        parameters: &Parameters,
        options: EngineOptions,
        devices: &Devices,
        (precision, fold_tables): (Precision, u64),
    ) -> Result<Engine<FolderModel>, Failure> {
        let program = Program::new(model.network().clone(), CellStyle::default());
        let program = Arc::new(program.map_err(Failure::new)?.fold_tables(fold_tables));
        let backend = devices.load(&program, parameters, &precision.on_device());
        let backend = backend.map_err(Failure::new)?;
        Engine::with_backend(model, parameters, program, backend, options).map_err(Failure::new)
    }

    /// Creates a trainer.
    pub(super) fn trainer(
        model: FolderModel,
        parameters: Parameters,
        options: TrainerOptions,
        devices: &Devices,
    ) -> Result<Trainer<FolderModel>, TrainError> {
        type OfFolder = Trainer<FolderModel>;
        let program = OfFolder::program(model.network(), &options)?;
        let masked = OfFolder::masked_parameters(model.network(), &parameters, &options)?;
        let backend = devices.load(&program, &masked, &CudaOptions::new().on_compile(report))?;
        Trainer::with_backend(model, parameters, program, backend, options)
    }
}
