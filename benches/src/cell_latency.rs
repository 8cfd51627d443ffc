//! How long a batch of a cell of the paper's table takes, laid out as it comes and by Algorithm 2.

use std::sync::Arc;

use edbatch::{Engine, EngineOptions, cell_schedules};
use edbatch_graph::{Kind, Network};
use edbatch_layout::{CellStyle, Program};
use edbatch_models::{Build, BuildError, Model};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::plain::Plain;
use crate::record::CellLatency;
use crate::spread::Spread;
use crate::workload::Failure;

/// How often each layout has its turn; some are not counted, in which memory grows.
const TURNS: usize = 300;
const WARM_UP: usize = 20;

/// A model that is a single cell: an input is a call of it, on values of its own.
#[derive(Clone)]
struct Alone {
    network: Arc<Network>,
    kind: Kind,
}

impl Model for Alone {
    type Input = u32;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, &call: &u32) -> Result<(), BuildError> {
        let cell = &self.network[self.kind];
        let rows: Vec<u32> = cell.tables().iter().map(|table| call % table.rows).collect();
        let mut values = Vec::new();
        for port in cell.ports() {
            let fields = &self.network.fields(port.record).fields;
            let elements = fields.iter().map(|field| field.shape.elements()).sum();
            values.push(build.give(port.record, &vec![0.5; elements])?);
        }
        build.emit(build.call(self.kind, &rows, &values)?);
        Ok(())
    }
}

/// The median time of a batch of so many calls of a cell on the [plain backend](Plain), from given
/// values to results; both layouts take turns.
///
/// # Errors
/// If the cell cannot be compiled or run.
pub fn cell_latency(
    network: &Arc<Network>,
    kind: Kind,
    calls: u64,
) -> Result<CellLatency, Failure> {
    let parameters = Parameters::random(network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let schedules = cell_schedules(network);
    let mut engines = Vec::new();
    for style in [CellStyle::Batched, CellStyle::Paper] {
        let program = Arc::new(Program::scheduled(network.clone(), style, &schedules)?);
        let backend = Box::new(Plain::new(program.clone(), &parameters));
        let model = Alone { network: network.clone(), kind };
        let options = EngineOptions::new();
        engines.push(Engine::with_backend(model, &parameters, program, backend, options)?);
    }
    let inputs: Vec<u32> = (0..calls as u32).collect();
    let (mut outputs, mut times) = (Vec::new(), [Vec::new(), Vec::new()]);
    for turn in 0..TURNS + WARM_UP {
        for (engine, times) in engines.iter_mut().zip(&mut times) {
            let before = engine.statistics().execute;
            engine.run_into(&inputs, &mut outputs)?;
            let took = engine.statistics().execute - before;
            if turn >= WARM_UP {
                times.push(took.as_secs_f64() * 1e6);
            }
        }
    }
    let [declared, planned] = times.map(|times| Spread::of(&times).median);
    Ok(CellLatency { declared, planned })
}
