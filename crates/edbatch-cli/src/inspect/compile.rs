//! `edbatch compile`: compiles the kernels of a model for a GPU ahead of time.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::precision::Precision;

/// Compiles a model's kernels for a GPU ahead of time. This machine does not need a GPU.
///
/// The machine code is stored in the user's cache ($XDG_CACHE_HOME/edbatch, or ~/.cache/edbatch),
/// where `--backend cuda` finds it. A machine with a copy of this folder needs no compiler. The
/// machine code depends on the model's sizes, not on its weights.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch compile model --arch sm_90     an H100 or H200
  edbatch compile model --arch sm_80     an A100
  edbatch compile model --arch sm_90 --train --frozen embed     for train --group embed=0")]
pub(crate) struct Compile {
    /// Folder with config.json, weights.safetensors and the vocabularies.
    dir: PathBuf,
    /// Architecture of the GPU: sm_80 (A100), sm_86, sm_89, sm_90 (H100, H200), sm_100, sm_120.
    #[arg(long, value_name = "ARCH")]
    arch: String,
    /// Precision of products of weights and vectors.
    #[arg(long, value_name = "P", value_enum, default_value_t = Precision::F32)]
    precision: Precision,
    /// Also compile the kernels of `edbatch train` and `edbatch gradients`.
    #[arg(long)]
    train: bool,
    /// Compile for parameters whose names begin with PREFIX and are frozen, as by --group PREFIX=0
    /// of `edbatch train`.
    #[arg(long, value_name = "PREFIX", requires = "train")]
    frozen: Vec<String>,
}

impl Compile {
    #[cfg(not(feature = "cuda"))]
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let Self { dir: _, arch: _, precision: _, train: _, frozen: _ } = self;
        Err(Failure::new("this build does not support backend cuda: build with `--features cuda`"))
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn run(&self) -> Result<(), Failure> {
        use edbatch::cuda;
        use edbatch::models::{Folder, Model};
        use edbatch_layout::{CellStyle, Program};

        let is_name = |name: &str| {
            let digits = name.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !self.arch.strip_prefix("sm_").is_some_and(is_name) {
            let got = format!("--arch: expected a name such as sm_90, got `{}`", self.arch);
            return Err(Failure::Usage(got));
        }
        if self.train && self.precision != Precision::F32 {
            let message = "--train: training is in f32 alone; leave --precision out";
            return Err(Failure::Usage(message.into()));
        }
        let model = Folder::read(&self.dir).and_then(|folder| folder.model());
        let model = model.map_err(Failure::new)?;
        let program = Program::new(model.network().clone(), CellStyle::default());
        let program = program.map_err(Failure::new)?;
        let options = self.precision.on_device();
        let mut all = vec![cuda::compile(&program, &options, &self.arch).map_err(Failure::new)?];
        if self.train {
            let program = self.for_training(model.network())?;
            all.push(cuda::compile(&program, &options, &self.arch).map_err(Failure::new)?);
            let others = cuda::compile_training(&program, &options, &self.arch);
            all.extend(others.map_err(Failure::new)?);
        }
        for compiled in all {
            let file = compiled.store().map_err(|error| {
                Failure::new(format_args!("cannot store the compiled kernels: {error}"))
            })?;
            match file {
                Some(file) => println!("{}", file.display()),
                None => return Err(Failure::new("there is no cache folder: set XDG_CACHE_HOME")),
            }
            let cuda::CompiledKernels { bytes, usage, .. } = compiled;
            match usage {
                Some(usage) => println!("{bytes} bytes; {usage}"),
                None => println!("{bytes} bytes"),
            }
        }
        Ok(())
    }

    /// Returns the program of a trainer.
    #[cfg(feature = "cuda")]
    fn for_training(
        &self,
        network: &edbatch_graph::Network,
    ) -> Result<std::sync::Arc<edbatch_layout::Program>, Failure> {
        use edbatch::models::FolderModel;
        use edbatch::{TrainError, Trainer, TrainerOptions};

        let frozen = self.frozen.iter();
        let options = frozen.fold(TrainerOptions::new(), TrainerOptions::frozen);
        Trainer::<FolderModel>::program(network, &options).map_err(|error| match error {
            TrainError::Group { .. } => Failure::Usage(format!("--frozen: {error}")),
            _ => Failure::at(&self.dir, error),
        })
    }
}
