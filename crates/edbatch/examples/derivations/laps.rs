//! Laps for a program to compare with: writes a network with its weights to a folder, and measures
//! a lap for each line of the standard input.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use edbatch::graph::Network;
use edbatch::models::network_to_json;
use edbatch::runtime::Parameters;

/// Writes `network.json`, `weights.safetensors` and scores to a folder. Then prints the seconds of
/// a lap for each line that it reads.
pub(crate) fn serve(
    folder: impl AsRef<Path>,
    network: &Network,
    weights: &Parameters,
    scores: &[f32],
    mut lap: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    write(folder.as_ref(), network, weights, scores)?;
    println!("ready");
    for line in std::io::stdin().lines() {
        line?;
        let begun = Instant::now();
        lap()?;
        println!("{}", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Writes a network, its weights, and scores as 32-bit floats.
pub(crate) fn write(
    folder: &Path,
    network: &Network,
    weights: &Parameters,
    scores: &[f32],
) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("network.json"), network_to_json(network)?)?;
    std::fs::write(folder.join("weights.safetensors"), weights.to_safetensors(network)?)?;
    let bytes: Vec<u8> = scores.iter().flat_map(|score| score.to_le_bytes()).collect();
    std::fs::write(folder.join("scores.f32"), bytes)?;
    Ok(())
}
