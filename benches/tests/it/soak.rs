//! A soak of two seconds, and what it writes.

use std::fs;
use std::process::Command;

use edbatch_benches::journal::read;
use edbatch_benches::record::Figures;
use edbatch_benches::soak::Memory;

#[test]
fn two_seconds_keep_all_bits() {
    let folder = std::env::temp_dir().join(format!("edbatch-soak-{}", std::process::id()));
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    let output = Command::new(env!("CARGO_BIN_EXE_edbatch-benches"))
        .args(["--only", "soak", "--seconds", "2", "--models", "tree_lstm,lstm_nmt"])
        .args(["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()])
        .output()
        .unwrap();
    let [said, message] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{message}");
    let records = read(&json).unwrap();
    let [Figures::Soak(soak)] = &records.iter().map(|r| r.figures.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("one record of a soak: {records:?}");
    };
    // A model on two sets is here twice, each time with four engines.
    assert_eq!(soak.models, ["tree_lstm", "lstm_nmt", "lstm_nmt"]);
    assert_eq!((soak.engines, &soak.moved, soak.memory), (12, &None, Memory::Unknown));
    assert!(soak.mini_batches > 0 && soak.seconds >= 2.0, "{soak:?}");
    let lines = said.lines().filter(|line| line.contains("held by engines")).count();
    assert!(lines == soak.samples.len() && lines > 0, "{said}");
    assert!(soak.samples.iter().all(|sample| sample.held_bytes > 0), "{soak:?}");
    // Mini-batches that come again find their plans.
    assert!(soak.plans_reused > 0, "{soak:?}");
    assert!(said.contains("reference bits equal"), "{said}");
    assert!(fs::read_to_string(&html).unwrap().contains("<section id=\"soak\">"));
    fs::remove_dir_all(&folder).unwrap();
}
