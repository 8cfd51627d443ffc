//! Other people's programs: the models of the scripts, and the tables.

use std::fs;
use std::path::Path;

use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::peers::program::Program;
use edbatch_benches::render::docs::blocks;

use crate::sample;

#[test]
fn scripts_have_the_models_that_programs_know() {
    for (program, script) in [(Program::PyTorch, "pytorch.py"), (Program::DyNet, "dynet_peer.py")] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(script);
        let text = fs::read_to_string(path).unwrap();
        let (_, models) = text.split_once("\nMODELS = {").unwrap();
        let (models, _) = models.split_once("\n}").unwrap();
        for (model, _) in FAMILIES {
            let has = models.contains(&format!("\"{model}\":"));
            assert_eq!(has, program.knows(model), "{model} in {script}");
        }
    }
}

#[test]
fn a_record_names_its_program() {
    for program in Program::ALL {
        for (model, _) in FAMILIES {
            assert_eq!(Program::of_system(program.system(model)), Some(program));
        }
    }
    assert_eq!(Program::of_system("edbatch"), None);
}

#[test]
fn the_table_of_speeds_has_the_spread() {
    let blocks = blocks(&sample::records());
    for name in ["main", "sizes"] {
        let (_, table) = blocks.iter().find(|(block, _)| *block == name).unwrap();
        let table = table.as_ref().unwrap();
        let header = "|model|set|H|batch|inst/s|±|of peak|/ unbatched|/ op by op|/ cells|/ paper|";
        assert!(table.contains(header), "{table}");
        assert!(table.contains("|38,281|5.0 %|98 %|"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    }
}

#[test]
fn the_block_of_the_soak_omits_its_speed() {
    let blocks = blocks(&sample::records());
    let (_, text) = blocks.iter().find(|(block, _)| *block == "soak").unwrap();
    let text = text.as_ref().unwrap();
    assert!(text.contains("reference bits") && !text.contains("speed"), "{text}");
}

#[test]
fn the_table_of_peers_has_the_best_of_each_program() {
    let records = sample::records();
    let blocks = blocks(&records);
    let (_, table) = blocks.iter().find(|(name, _)| *name == "peers").unwrap();
    let table = table.as_ref().unwrap();
    let header = "|model|set|H|PyTorch, best|batch|DyNet, best|batch|ours, best|batch|/ PyTorch|";
    assert!(table.contains(header), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    // Ours is 4,000, theirs are 1,000 and 800.
    assert!(
        table.lines().any(|line| line.ends_with("|1,000|256|800|256|4,000|128|4.0|5.0|")),
        "{table}"
    );
}
