//! Loads a model from a folder with `config.json`, vocabularies and `weights.safetensors`, as
//! written by `edbatch init` or another program, and runs it.
//!
//! `cargo run --release -p edbatch --example 2_from_folder -- DIR [FILE]`. Without arguments, it
//! creates a small folder first.

use std::error::Error;
use std::path::{Path, PathBuf};

use edbatch::datasets::fixtures;
use edbatch::models::{Folder, Model, ModelConfig, ModelName, Zoo, build_vocabularies};
use edbatch::runtime::Parameters;
use edbatch::{Engine, Loaded, load};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let dir = match arguments.next() {
        Some(dir) => dir,
        None => temporary_folder()?,
    };
    let Loaded { folder, model, parameters } = load(&dir)?;
    let file = arguments.next().unwrap_or_else(|| folder.input());
    let mut engine = Engine::new(model, parameters)?;
    println!(
        "{} with the kinds {:?}",
        folder.config().expect("a model of the zoo").model,
        engine.model().network().kind_names()
    );

    // Inputs are read lazily. This takes a mini-batch of at most eight.
    let inputs = folder.inputs(&file)?.take(8).collect::<Result<Vec<_>, _>>()?;
    for (id, rows) in engine.run(&inputs)?.iter().enumerate() {
        print!("{id}: {} rows of scores", rows.len());
        if let Some(named) = folder.lexicon().decode(rows.iter()) {
            print!("; {}: {}", named.key, named.names.join(" "));
        }
        println!();
    }
    Ok(())
}

/// Creates the folder of a tagger with random weights for generated sentences.
fn temporary_folder() -> Result<PathBuf, Box<dyn Error>> {
    let dir = std::env::temp_dir().join("edbatch-2_from_folder");
    std::fs::create_dir_all(&dir)?;
    write(&dir)?;
    Ok(dir)
}

fn write(dir: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::write(dir.join("tagged.txt"), fixtures::text::SENTENCES)?;
    let model = ModelName::BiLstmTagger;
    let counted = build_vocabularies(model.family(), &[dir.join("tagged.txt")], None)?;
    let mut config = ModelConfig::new(model, 32, None, counted.outputs);
    config.input = "tagged.txt".into();
    Folder::write(&config, &counted.lexicon, dir)?;

    let model = Zoo::new(&config, &counted.lexicon)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let weights = Parameters::random(model.network(), &mut rng);
    std::fs::write(dir.join(Folder::WEIGHTS), weights.to_safetensors(model.network())?)?;
    Ok(())
}
