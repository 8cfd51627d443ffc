//! A backend that uses only public items, as if it were written outside of the workspace.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch::models::{Model, TreeLstm, TreeSizes};
use edbatch::{Engine, EngineError, EngineOptions, RunError};
use edbatch_layout::{CellStyle, Lifetimes, Plan, Program};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, BackendError, Bytes, Cpu, Outputs, Parameters, Part, Precision, StoredRow,
};

use crate::fn_model::random;
use crate::small::random_trees;

/// Runs each slot on a machine of its own, which a `Cpu` stands for.
struct Remote {
    machines: Vec<Cpu>,
    program: Arc<Program>,
    parameters: Parameters,
    lifetimes: Lifetimes,
    rounds: Arc<AtomicUsize>,
    /// The number of the round that fails.
    fails: usize,
}

/// An error type that the libraries do not know.
#[derive(Debug)]
struct ConnectionLost {
    slot: usize,
}

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection to machine {} lost", self.slot)
    }
}

impl Error for ConnectionLost {}

impl Remote {
    fn machine(&mut self, slot: usize) -> Result<&mut Cpu, BackendError> {
        while self.machines.len() <= slot {
            let program = self.program.clone();
            let cpu = Cpu::new(program, &self.parameters, Level::detect(), Precision::F32)?;
            self.machines.push(cpu);
        }
        Ok(&mut self.machines[slot])
    }
}

impl Backend for Remote {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        if self.rounds.fetch_add(1, Ordering::Relaxed) == self.fails {
            return Err(BackendError::Other(Arc::new(ConnectionLost { slot: parts[0].slot })));
        }
        for part in parts {
            self.machine(part.slot)?.run(&[Part { slot: 0, ..*part }])?;
        }
        Ok(())
    }

    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError> {
        self.machine(slot)?.reserve_store(0, lines)
    }

    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        self.machines[slot].read_stored(0, rows, to)
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        self.machines[slot].outputs(0, plan)
    }

    fn bytes(&self) -> Bytes {
        let mut all = Bytes::default();
        for Bytes { weights, arena, store } in self.machines.iter().map(Backend::bytes) {
            all.weights += weights;
            all.arena += arena;
            all.store += store;
        }
        all
    }

    fn fork(&self) -> Box<dyn Backend> {
        let (program, parameters) = (self.program.clone(), self.parameters.clone());
        let Self { lifetimes, fails, .. } = *self;
        let rounds = self.rounds.clone();
        Box::new(Self { machines: Vec::new(), program, parameters, lifetimes, rounds, fails })
    }

    fn lifetimes(&self) -> Lifetimes {
        self.lifetimes
    }
}

#[test]
fn an_outside_backend_runs_parts_and_reports_its_own_errors() {
    let sizes = TreeSizes { vocabulary: 9, embed: 5, hidden: 13, classes: 2 };
    let (model, inputs) = (TreeLstm::new(sizes).unwrap(), random_trees(24, 9, 1));
    let parameters = random(model.network(), 3);
    let expected = Engine::new(model.clone(), parameters.clone()).unwrap().run(&inputs).unwrap();
    let program = Program::new(model.network().clone(), CellStyle::default()).unwrap();
    let program = Arc::new(program);
    for (threads, lifetimes) in
        [(1, Lifetimes::Reuse), (3, Lifetimes::Reuse), (3, Lifetimes::Distinct)]
    {
        let remote = Remote {
            machines: Vec::new(),
            program: program.clone(),
            parameters: parameters.clone(),
            lifetimes,
            rounds: Arc::default(),
            fails: 1,
        };
        let rounds = remote.rounds.clone();
        let options = EngineOptions::new().threads(threads);
        let (model, program) = (model.clone(), program.clone());
        let engine = Engine::with_backend(model, &parameters, program, Box::new(remote), options);
        let mut engine = engine.unwrap();
        assert!(engine.run(&inputs).unwrap() == expected);
        // All parts of a round are one call.
        assert_eq!(rounds.load(Ordering::Relaxed), 1, "{threads} threads");
        let error = engine.run(&inputs).unwrap_err();
        assert!(error.to_string().contains("lost"), "{error}");
        let RunError::Backend(BackendError::Other(error)) = error else { panic!("{error}") };
        assert!(error.is::<ConnectionLost>());
        assert!(engine.run(&inputs).unwrap() == expected, "after an error");
        assert!(engine.fork().run(&inputs).unwrap() == expected, "on a fork");
        assert!(engine.statistics().arena_bytes > 0 && engine.statistics().weight_bytes > 0);
    }
}

#[test]
fn an_engine_rejects_the_program_of_another_network_and_a_backend_with_another_program() {
    let model =
        |hidden| TreeLstm::new(TreeSizes { vocabulary: 9, embed: 4, hidden, classes: 3 }).unwrap();
    let program = |hidden| {
        let network = model(hidden).network().clone();
        Arc::new(Program::new(network, CellStyle::default()).unwrap())
    };
    let parameters = |hidden| random(model(hidden).network(), 1);
    let engine = |program: &Arc<Program>, parameters: &Parameters, loaded: &Arc<Program>| {
        let cpu = Box::new(
            Cpu::new(loaded.clone(), parameters, Level::detect(), Precision::F32).unwrap(),
        );
        let options = EngineOptions::new();
        Engine::with_backend(model(8), parameters, program.clone(), cpu, options).err()
    };
    let (right, same, wide) = (program(8), program(8), program(16));
    assert!(engine(&right, &parameters(8), &right).is_none());
    let error = engine(&wide, &parameters(16), &wide).unwrap();
    assert!(matches!(error, EngineError::NetworkOfProgram), "{error}");
    // An equal program may have other folded tables, so the engine requires the same `Arc`.
    let error = engine(&right, &parameters(8), &same).unwrap();
    assert!(matches!(error, EngineError::ProgramOfBackend), "{error}");
}
