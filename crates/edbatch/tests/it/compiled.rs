//! The text of every compiled cell, and of every adjoint, is as expected: a change of the compiler
//! that should move nothing moves no byte here.
//!
//! The nine models' cells are written out, in the style that the engine runs. Of other styles and
//! of random networks only a checksum is kept. After a change on purpose, copy the new files from
//! the folder that the failing test names, and read their diff.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::models::{Folder, Model, ModelName};
use edbatch_graph::{Network, training_network};
use edbatch_layout::{CellStyle, Program};
use edbatch_testing::STYLES;
use edbatch_testing::networks::{Random, random_network, with_second_lookups};
use rand::SeedableRng;
use sha2::{Digest, Sha256};

use crate::small::goldens;

/// Prints the equations of a network's cells.
fn equations(network: &Network) -> String {
    network.cells().iter().fold(String::new(), |mut text, cell| {
        writeln!(text, "{}", cell.display(network)).unwrap();
        text
    })
}

fn compiled(network: &Arc<Network>, style: CellStyle) -> String {
    let program = Program::new(network.clone(), style).unwrap();
    program.cells().iter().map(ToString::to_string).collect()
}

/// A network's cells with their adjoints, of all parameters and given values.
fn with_adjoints(network: &Network) -> Arc<Network> {
    training_network(network, |_| true, |_| true).unwrap().network
}

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Compares texts with files, and writes those that differ.
fn assert_as_expected(texts: Vec<(String, String)>) {
    let printed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    fs::create_dir_all(&printed).unwrap();
    let mut other = Vec::new();
    for (name, text) in texts {
        if fs::read_to_string(fixtures().join(&name)).unwrap_or_default() != text {
            fs::write(printed.join(&name), text).unwrap();
            other.push(name);
        }
    }
    let (fixtures, printed) = (fixtures(), printed.display());
    assert!(other.is_empty(), "{printed}: {other:?} differ from {}", fixtures.display());
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/compiled")
}

fn models() -> impl Iterator<Item = (ModelName, [Arc<Network>; 2])> {
    ModelName::ALL.into_iter().map(|name| {
        let model = Folder::read(goldens().join(name.name())).unwrap().model().unwrap();
        (name, [model.network().clone(), with_adjoints(model.network())])
    })
}

#[test]
fn compiled_cells_of_the_models_have_the_same_text() {
    let text = |(name, [forward, training]): (ModelName, [Arc<Network>; 2])| {
        let forward = compiled(&forward, CellStyle::Hoisted);
        let (cells, training) = (equations(&training), compiled(&training, CellStyle::Hoisted));
        (format!("{}.txt", name.name()), format!("{forward}\n{cells}\n{training}"))
    };
    assert_as_expected(models().map(text).collect());
}

#[test]
fn compiled_cells_of_random_networks_and_other_styles_have_the_same_text() {
    let random = (0..48).map(|seed| {
        let network = random_network(&mut Random::seed_from_u64(seed)).0;
        let twice = with_second_lookups(&network, &mut Random::seed_from_u64(seed));
        (format!("random-{seed}"), [Arc::new(network), with_adjoints(&twice)])
    });
    let models = models().map(|(name, networks)| (name.name().to_string(), networks));
    let mut checksums = String::new();
    for (name, networks) in models.chain(random) {
        for network in &networks {
            write!(checksums, "{name} {}", checksum(&equations(network))).unwrap();
            for style in STYLES {
                write!(checksums, " {}", checksum(&compiled(network, style))).unwrap();
            }
            checksums.push('\n');
        }
    }
    assert_as_expected(vec![("checksums.txt".into(), checksums)]);
}
