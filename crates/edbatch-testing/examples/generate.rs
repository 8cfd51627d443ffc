//! Writes generated trees, sentences, pairs, lattices and vocabularies in the formats of the real
//! sets.
//!
//!     cargo run -p edbatch-testing --features generate --example generate -- DIR [COUNT] [SEED]
//!
//! Without COUNT and SEED it writes the files of `datasets/fixtures`.

use std::error::Error;
use std::path::PathBuf;

use edbatch_datasets::fixtures;
use edbatch_testing::generate;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("usage: generate DIR [COUNT] [SEED]")?);
    let count = args.next().map_or(Ok(fixtures::COUNT), |count| count.parse())?;
    let seed = args.next().map_or(Ok(fixtures::SEED), |seed| seed.parse())?;

    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    std::fs::create_dir_all(&folder)?;
    for (name, contents) in generate::files(&mut rng, count) {
        std::fs::write(folder.join(name), contents)?;
        println!("{}", folder.join(name).display());
    }
    Ok(())
}
