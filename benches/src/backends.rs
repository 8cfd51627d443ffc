//! Further backends that carry out the plans of our own system.

use std::sync::Arc;

use edbatch_layout::Program;
use edbatch_runtime::{Backend, Parameters};

use crate::families::Family;
use crate::throughput::weights;
use crate::workload::Failure;

/// What carries plans out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BackendName {
    /// The processor.
    #[default]
    Cpu,
    /// The first CUDA device.
    Cuda,
}

impl BackendName {
    /// As records call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// A program on it; not for the processor, whose backend differs by the system.
    ///
    /// # Errors
    /// If there is no device, this build has no backend for one, or it cannot load the program.
    pub fn load(
        self,
        program: &Arc<Program>,
        parameters: &Parameters,
    ) -> Result<Box<dyn Backend>, Failure> {
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            use edbatch::cuda::{CudaOptions, nvidia};
            return Ok(nvidia(program.clone(), parameters, &CudaOptions::default(), &[0])?);
        }
        let _ = (program, parameters);
        Err("this build has no such backend; `cargo xtask bench --backends …` makes one".into())
    }
}

impl std::str::FromStr for BackendName {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            "cuda-emulated" => Err("cuda-emulated runs a device's kernels on this processor, for \
                                    tests: its times say nothing about any machine"
                .into()),
            _ => Err("expected cpu or cuda".into()),
        }
    }
}

/// Those of some backends that are there, beside the processor; of the rest, says why they are not.
///
/// # Errors
/// If the family's model cannot be declared.
pub fn devices(chosen: &[BackendName], family: &Family) -> Result<Vec<BackendName>, Failure> {
    let workload = family.at(8)?;
    let parameters = weights(&*workload);
    let program = Arc::new(Program::new(workload.network().clone(), Default::default())?);
    let mut found = Vec::new();
    for &backend in chosen.iter().filter(|&&backend| backend != BackendName::Cpu) {
        match backend.load(&program, &parameters) {
            Ok(_) => found.push(backend),
            Err(error) => eprintln!("{}: {error}; skipped", backend.name()),
        }
    }
    Ok(found)
}
