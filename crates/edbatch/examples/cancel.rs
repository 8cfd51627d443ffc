//! Cancels inputs of a running mini-batch, for clients that disconnect or for deadlines.
//!
//! The engine calls `still_wanted` for each input before each round of a decoder. Cancelled inputs
//! leave the mini-batch at the next step. The results of the others do not change.
//!
//! `cargo run --release -p edbatch --example cancel`:
//!
//! ```text
//! sentence 0: cancelled: the input was no longer wanted
//! sentence 1: 6 tokens
//! sentence 2: 40 tokens
//! 40 decoding steps, 9 of them with sentence 0
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

    // The client of the first sentence disconnects after this number of rounds.
    const ROUNDS: usize = 10;
    let rounds = AtomicUsize::new(0);
    let still_wanted = |input: usize| input != 0 || rounds.fetch_add(1, Ordering::Relaxed) < ROUNDS;
    let options = RunOptions::new().still_wanted(&still_wanted);
    let results = engine.run_each(&[source(200), source(6), source(40)], &options)?;

    for (index, result) in results.iter().enumerate() {
        match result {
            Ok(rows) => println!("sentence {index}: {} tokens", rows.len()),
            Err(error) => println!("sentence {index}: {error}"),
        }
    }
    // The first round encodes.
    let steps = engine.statistics().graphs - 1;
    println!("{steps} decoding steps, {} of them with sentence 0", ROUNDS - 1);
    Ok(())
}
