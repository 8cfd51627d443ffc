//! Fewest batches is not fastest: a network with a heavy and a light cell, and schedules of both
//! objectives, timed.
//!
//! Chains call the two cells in random order, so that some batches have to be wasted. What a batch
//! of each cell costs is measured; then a search looks for the fewest batches, and another one for
//! the least time.
//!
//! `cargo run --release -p edbatch --example costs`, on some machine:
//!
//! ```text
//! a batch of heavy:   6702 ns +   817 ns a node
//! a batch of light:    126 ns +    70 ns a node
//! fewest batches: 70 batches, 342 µs
//! least time    : 78 batches, 316 µs
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edbatch::graph::{CellError, Kind, Network, Shape, Value};
use edbatch::models::{Build, BuildError, Model};
use edbatch::policy::Beam;
use edbatch::runtime::Parameters;
use edbatch::{Engine, EngineOptions};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const HIDDEN: usize = 512;
const CHAINS: usize = 6;
const LENGTH: usize = 48;

/// Cells that read and write the same state: a product, and an element-wise pass.
struct Mixed {
    network: Arc<Network>,
    cells: [Kind; 2],
    start: Value,
}

impl Mixed {
    fn new() -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(HIDDEN as u32))])?;
        let start = network.initial(state, &["h0"])?;
        let heavy = network.cell("heavy", state, |cell| {
            let [h] = cell.one("previous", state);
            let w = cell.parameter("w", &[HIDDEN, HIDDEN]);
            vec![w.matmul(h).tanh()]
        })?;
        let light = network.cell("light", state, |cell| {
            let [h] = cell.one("previous", state);
            vec![(h + cell.parameter("b", &[HIDDEN])).tanh()]
        })?;
        Ok(Self { network: Arc::new(network), cells: [heavy, light], start })
    }
}

impl Model for Mixed {
    /// Which cell each step calls.
    type Input = Vec<usize>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, steps: &Vec<usize>) -> Result<(), BuildError> {
        let mut state = self.start;
        for &step in steps {
            state = build.call(self.cells[step], &[], &[state])?;
        }
        build.emit(state);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let model = Mixed::new()?;
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut chains = || -> Vec<usize> { (0..LENGTH).map(|_| rng.random_range(0..2)).collect() };
    let inputs: Vec<Vec<usize>> = (0..CHAINS).map(|_| chains()).collect();

    // Schedules are kept, so that only their execution is timed below.
    let options = EngineOptions::new().plan_cache(1 << 24);
    let mut engine = Engine::with_options(model, parameters, options)?;
    let model = engine.measure_costs(&[&inputs[..1], &inputs[..4], &inputs])?;
    for (cell, line) in engine.model().network().cells().iter().zip(&model.lines) {
        println!(
            "a batch of {:5}: {:6.0} ns + {:5.0} ns a node",
            cell.name(),
            line.base,
            line.slope
        );
    }

    let beams = [Beam::new(64), Beam::new(64).with_costs(model.batch_costs())];
    let mut expected = None;
    for (objective, beam) in ["fewest batches", "least time"].into_iter().zip(beams) {
        engine.set_policy(Box::new(beam));
        let outputs = engine.run(&inputs)?;
        assert_eq!(&outputs, expected.get_or_insert_with(|| outputs.clone()), "the same bits");
        let before = *engine.statistics();
        let (mut best, runs) = (Duration::MAX, 200);
        for _ in 0..runs {
            let started = Instant::now();
            engine.run(&inputs)?;
            best = best.min(started.elapsed());
        }
        let batches = (engine.statistics().batches - before.batches) / runs;
        println!("{objective:14}: {batches} batches, {:.0} µs", best.as_secs_f64() * 1e6);
    }
    Ok(())
}
