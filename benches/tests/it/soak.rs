//! A soak of two seconds, what it writes, and how it ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use edbatch_benches::journal::read;
use edbatch_benches::record::Figures;
use edbatch_benches::soak::Memory;

fn run(folder: &Path, more: &[&str]) -> Output {
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    Command::new(env!("CARGO_BIN_EXE_edbatch-benches"))
        .args(["--only", "soak", "--seconds", "2", "--models", "tree_lstm,lstm_nmt"])
        .args(["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn two_seconds_keep_all_bits() {
    let folder = std::env::temp_dir().join(format!("edbatch-soak-{}", std::process::id()));
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    let Output { status, stdout, stderr } = run(&folder, &[]);
    let [said, message] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(status.success(), "{message}");
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

    // Had memory grown, or a bit moved, the run would have failed: as this one, which goes on with
    // another's records, and finds nothing left to do.
    let text = fs::read_to_string(&json).unwrap();
    let trend = "{\"before\":1e8,\"after\":2e8,\"bytes_per_mini_batch\":5.0}";
    for (was, is, expected) in [
        ("\"unknown\"", format!("{{\"grows\":{trend}}}"), "memory grows, 100.0 MB resident, then"),
        ("\"moved\":null", "\"moved\":\"a tree\"".into(), "mini-batch moved: a tree"),
    ] {
        assert!(text.contains(was), "{text}");
        fs::write(&json, text.replace(was, &is)).unwrap();
        let Output { status, stderr, .. } = run(&folder, &["--resume"]);
        let message = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
