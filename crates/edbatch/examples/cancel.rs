//! Translations that somebody no longer waits for leave the mini-batch at its next step.
//!
//! A client that hangs up, or a deadline: `still_wanted` is asked before each round of a decoder
//! whether an input is still to go on. The others have the rows that they would have had.
//!
//! `cargo run --release -p edbatch --example cancel`:
//!
//! ```text
//! sentence 0: cancelled: the input was no longer wanted
//! sentence 1: 6 tokens
//! sentence 2: 40 tokens
//! 40 steps of decoding, of which sentence 0 took 9
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch::models::{LstmNmt, Model, NmtSizes, SourceSentence, Stop};
use edbatch::runtime::Parameters;
use edbatch::{Engine, RunOptions};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

fn main() -> Result<(), Box<dyn Error>> {
    let model = LstmNmt::new(NmtSizes { source: 50, target: 60, embed: 16, hidden: 16 })?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut engine = Engine::new(model, parameters)?;
    let source = |steps| SourceSentence { words: vec![3, 14, 15], stop: Stop::After(steps) };

    // The client of the first sentence waits for so many rounds; it is asked before each of them.
    const PATIENCE: usize = 10;
    let rounds = AtomicUsize::new(0);
    let still_wanted =
        |input: usize| input != 0 || rounds.fetch_add(1, Ordering::Relaxed) < PATIENCE;
    let options = RunOptions::new().still_wanted(&still_wanted);
    let results = engine.run_each(&[source(200), source(6), source(40)], &options)?;

    for (index, result) in results.iter().enumerate() {
        match result {
            Ok(rows) => println!("sentence {index}: {} tokens", rows.len()),
            Err(error) => println!("sentence {index}: {error}"),
        }
    }
    // The first round encodes, and is the first step of decoding as well.
    let steps = engine.statistics().graphs - 1;
    println!("{steps} steps of decoding, of which sentence 0 took {}", PATIENCE - 1);
    Ok(())
}
