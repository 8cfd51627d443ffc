//! What a translator gains, or loses, on a core if it decodes several steps a graph.
//!
//!     cargo bench -p edbatch --bench steps_per_graph -- [REFERENCES [ROUNDS]]
//!
//! REFERENCES is a file of sentences, plain or .gz, such as IWSLT15's tst2013.en.gz; without it
//! lengths from 5 to 40 are taken. A translation has as many words as its reference and as its
//! source; where a graph has several steps, it is as if it ended within one: steps up to the end of
//! the graph are computed in vain. All take turns, 64 sentences at a time; the medians of
//! mini-batches are printed, and those of the ratios to one step a graph: of processor time on
//! Linux, so that other programs disturb little, else of the clock's.

use std::env;
use std::error::Error;
use std::fs;
use std::time::Instant;

use edbatch::Engine;
use edbatch_datasets::read_plain;
use edbatch_models::{LstmNmt, Model, NmtSizes, SourceSentence, Stop};
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const MINI_BATCH: usize = 64;
const STEPS: [usize; 4] = [1, 2, 4, 8];
/// Those of IWSLT15's tst2013.
const SIZES: NmtSizes = NmtSizes { source: 17_191, target: 7_709, embed: 256, hidden: 256 };

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let lengths: Vec<usize> = match arguments.first() {
        Some(file) => read_plain(file)?.iter().map(Vec::len).collect(),
        None => (0..128).map(|i| 5 + i * 23 % 36).collect(),
    };
    let rounds = arguments.get(1).map_or(Ok(9), |rounds| rounds.parse())?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let model = LstmNmt::new(SIZES)?;
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut sources: Vec<Vec<u32>> = Vec::new();
    for &length in lengths.iter().filter(|&&length| length > 0) {
        sources.push((0..length).map(|_| rng.random_range(0..SIZES.source as u32)).collect());
    }
    let mut contestants = Vec::new();
    for steps in STEPS {
        let model = model.clone().with_steps_per_graph(steps)?;
        contestants.push((steps, Engine::new(model, parameters.clone())?));
    }
    let began = Instant::now();
    // By contestant: the seconds of each mini-batch.
    let mut times = vec![Vec::new(); STEPS.len()];
    for round in 0..=rounds {
        for sources in sources.chunks(MINI_BATCH).take(4) {
            for ((steps, engine), times) in contestants.iter_mut().zip(&mut times) {
                let sentence = |words: &Vec<u32>| {
                    let stop = Stop::After(words.len().next_multiple_of(*steps));
                    SourceSentence { words: words.clone(), stop }
                };
                let inputs: Vec<SourceSentence> = sources.iter().map(sentence).collect();
                let started = seconds(&began);
                engine.run(&inputs)?;
                // The first time, memory is new.
                if round > 0 {
                    times.push(seconds(&began) - started);
                }
            }
        }
    }
    let one = times[0].clone();
    for (steps, times) in STEPS.iter().zip(&mut times) {
        let mut ratios: Vec<f64> = one.iter().zip(&*times).map(|(one, time)| one / time).collect();
        let (time, speed) = (median(times), median(&mut ratios));
        println!("{steps} steps a graph: {:.1} ms, {speed:.2} × the speed of one", 1e3 * time);
    }
    Ok(())
}

/// The processor time of this thread, if the system tells it; else what has passed since `began`.
fn seconds(began: &Instant) -> f64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|told| told.split(' ').next()?.parse().ok());
    nanoseconds.map_or(began.elapsed().as_secs_f64(), |nanoseconds: f64| 1e-9 * nanoseconds)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
