//! Opens engines: options, folders, the bytes of files.

use std::path::Path;
use std::sync::Arc;

use edbatch::layout::{CellStyle, Program};
use edbatch::models::{CallLists, Folder, FolderModel, Model, network_from_json};
use edbatch::runtime::kernels::Level;
use edbatch::runtime::{Backend, Cpu, Parameters, ThreadPool};
use edbatch::{Engine, EngineError, EngineOptions, Loaded, Precision};

use crate::device::{self, Number};
use crate::objects::edbatch_engine;
use crate::status::{Code, Failure};
use crate::structs::edbatch_options;

/// Options of an engine that are valid together.
pub(crate) struct Opening {
    threads: usize,
    precision: Number,
    /// The index of a CUDA device, or `None` for the CPU.
    device: Option<usize>,
    memory_limit: Option<u64>,
    fold_tables: u64,
}

impl Opening {
    pub(crate) fn of(options: &edbatch_options) -> Result<Self, Failure> {
        let &edbatch_options { threads, memory_limit, fold_tables, .. } = options;
        let threads = threads as usize;
        let device = options.device.optional("device")?.map_or(Ok(None), device::parse)?;
        let precision = match (options.precision, device) {
            (0, _) => Number::F32,
            (1, _) => Number::Bf16,
            (2, Some(_)) => Number::Tf32,
            (got, device) => {
                let expected = "expected EDBATCH_F32 (0), EDBATCH_BF16 (1), or EDBATCH_TF32 (2) \
                                on a device";
                let place = if device.is_some() { "a device" } else { "the CPU" };
                let message = format!("precision: {expected}, got {got} on {place}");
                return Err(Failure::argument(&message));
            }
        };
        let memory_limit = Some(memory_limit).filter(|&limit| limit > 0);
        if !(1..=ThreadPool::MAX_THREADS).contains(&threads) {
            return Err(EngineError::Threads { threads }.into());
        }
        if memory_limit.is_some() && threads > 1 {
            return Err(EngineError::MemoryLimitWithThreads { threads }.into());
        }
        if let Some(limit) = memory_limit.filter(|&limit| fold_tables > limit) {
            return Err(EngineError::FoldedTablesOverLimit { tables: fold_tables, limit }.into());
        }
        Ok(Self { threads, precision, device, memory_limit, fold_tables })
    }

    /// Opens the folder of a network.
    pub(crate) fn folder(&self, folder: &str) -> Result<edbatch_engine, Failure> {
        let path = Path::new(folder);
        let has = |name: &str| path.join(name).exists();
        if has(Folder::CONFIG) && !has(Folder::NETWORK) {
            let message = format!(
                "{folder}: expected a folder with {}, got a model of the zoo: convert it by \
                 `edbatch export`",
                Folder::NETWORK
            );
            return Err(Failure::new(Code::File, message));
        }
        match edbatch::load(path)? {
            Loaded { model: FolderModel::Network(lists), parameters, .. } => {
                self.engine(lists, &parameters)
            }
            _ => Err(Failure::new(Code::File, format!("{folder}: expected a network"))),
        }
    }

    /// Opens the bytes of the two files.
    pub(crate) fn memory(&self, network: &[u8], weights: &[u8]) -> Result<edbatch_engine, Failure> {
        let invalid = |error: String| Failure::new(Code::File, format!("network: {error}"));
        let text = std::str::from_utf8(network).map_err(|error| invalid(error.to_string()))?;
        let network = network_from_json(text).map_err(|fault| invalid(fault.to_string()))?;
        let parameters = Parameters::from_safetensors(&network, weights)
            .map_err(|error| Failure::new(Code::Weights, format!("weights: {error}")))?;
        self.engine(CallLists::new(Arc::new(network)), &parameters)
    }

    /// Loads the weights, and builds two engines that share them: one that runs, and one from which
    /// sessions and forks are made meanwhile.
    fn engine(&self, lists: CallLists, parameters: &Parameters) -> Result<edbatch_engine, Failure> {
        let program = Program::new(lists.network().clone(), CellStyle::default());
        let program = program.map_err(EngineError::from)?.fold_tables(self.fold_tables);
        let program = Arc::new(program);
        let threads = self.threads;
        let pool = ThreadPool::try_new(threads)
            .map_err(|error| EngineError::CannotStart { threads, error: Arc::new(error) })?;
        let backend = self.backend(&program, parameters, &pool)?;
        let running = match threads {
            1 => backend.fork(),
            _ => backend.fork_with_pool(pool.clone()),
        };
        let engine = |backend| {
            let options = EngineOptions::new().pool(pool.clone());
            let options = self.memory_limit.into_iter().fold(options, EngineOptions::memory_limit);
            Engine::with_backend(lists.clone(), parameters, program.clone(), backend, options)
        };
        let is_on_device = self.device.is_some();
        Ok(edbatch_engine::new(engine(running)?, engine(backend)?, threads, is_on_device))
    }

    fn backend(
        &self,
        program: &Arc<Program>,
        parameters: &Parameters,
        pool: &ThreadPool,
    ) -> Result<Box<dyn Backend>, Failure> {
        if let Some(index) = self.device {
            return device::load(program.clone(), parameters, self.precision, index);
        }
        let precision = match self.precision {
            Number::Bf16 => Precision::Bf16,
            _ => Precision::F32,
        };
        let cpu = Cpu::new(program.clone(), parameters, Level::detect(), precision)?;
        Ok(Box::new(cpu.with_pool(pool.clone())))
    }
}
