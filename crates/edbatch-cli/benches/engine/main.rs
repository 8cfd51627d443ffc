//! Speeds of engines against each other, on one thread.
//!
//! `cargo bench -p edbatch-cli --bench engine -- [call-lists] [attention]` runs the named parts, or
//! both. Shares are medians over interleaved pairs, since other load on the machine changes over
//! time.

mod attention;
mod call_lists;

use std::error::Error;
use std::time::Instant;

use edbatch::models::Model;
use edbatch::{Engine, Rows};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Without this argument, `cargo test --benches` runs the program.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let chosen: Vec<&String> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let wants = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| *chosen == name);
    if wants("call-lists") {
        call_lists::run()?;
    }
    if wants("attention") {
        attention::run()?;
    }
    Ok(())
}

/// An engine and its outputs.
struct Running<M: Model> {
    engine: Engine<M>,
    outputs: Vec<Rows>,
}

impl<M: Model> Running<M> {
    fn new(engine: Engine<M>) -> Self {
        Self { engine, outputs: Vec::new() }
    }

    /// Returns all rows of the last run.
    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.outputs.iter().flat_map(Rows::iter)
    }

    /// Runs a mini-batch several times and returns the seconds of one run.
    fn seconds(&mut self, inputs: &[M::Input]) -> Result<f64, Box<dyn Error>> {
        const RUNS: u32 = 10;
        let started = Instant::now();
        for _ in 0..RUNS {
            self.engine.run_into(inputs, &mut self.outputs)?;
        }
        Ok(started.elapsed().as_secs_f64() / f64::from(RUNS))
    }
}

/// Times of interleaved pairs.
struct Pairs {
    /// The median of the second's speed as a share of the first's.
    share: f64,
    /// The median of each.
    seconds: [f64; 2],
}

/// Measures pairs of seconds, after a warm-up.
fn interleaved(
    pairs: usize,
    mut pair: impl FnMut() -> Result<[f64; 2], Box<dyn Error>>,
) -> Result<Pairs, Box<dyn Error>> {
    pair()?;
    let measured = (0..pairs).map(|_| pair()).collect::<Result<Vec<_>, _>>()?;
    let of = |of: fn([f64; 2]) -> f64| median(measured.iter().map(|&pair| of(pair)).collect());
    Ok(Pairs {
        share: of(|[first, second]| first / second),
        seconds: [of(|[first, _]| first), of(|[_, second]| second)],
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
