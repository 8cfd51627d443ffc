//! A soak of two seconds: its records and its exit code.

use std::fs;

use edbatch_benches::record::Figures;
use edbatch_benches::record::journal::read;
use edbatch_benches::record::soak::Memory;

use crate::run::Run;

const SOAK: [&str; 6] = ["--only", "soak", "--seconds", "2", "--models", "tree_lstm,lstm_nmt"];

#[test]
fn a_short_soak_keeps_all_bits() {
    let run = Run::new();
    let said = run.ok(&[&SOAK]);
    let records = read(&run.json).unwrap();
    let [Figures::Soak(soak)] = &records.iter().map(|r| r.figures.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("one record of a soak: {records:?}");
    };
    // A model on two sets is listed twice, each time with two engines.
    assert_eq!(soak.models, ["tree_lstm", "lstm_nmt", "lstm_nmt"]);
    assert_eq!((soak.engines, &soak.moved, soak.memory), (6, &None, Memory::Unknown));
    assert!(soak.mini_batches > 0 && soak.seconds >= 2.0, "{soak:?}");
    let lines = said.lines().filter(|line| line.contains("held by engines")).count();
    assert!(lines == soak.samples.len() && lines > 0, "{said}");
    assert!(soak.samples.iter().all(|sample| sample.held_bytes > 0), "{soak:?}");
    assert!(said.contains("reference bits equal"), "{said}");
    assert!(fs::read_to_string(&run.html).unwrap().contains("<section id=\"soak\">"));

    // Growing memory and a changed bit fail the run. This one resumes from altered records and has
    // nothing left to measure.
    let text = fs::read_to_string(&run.json).unwrap();
    let trend = "{\"before\":1e8,\"after\":2e8,\"bytes_per_mini_batch\":5.0}";
    for (was, is, expected) in [
        (
            "\"memory\":\"unknown\"",
            format!("\"memory\":{{\"grows\":{trend}}}"),
            "memory grows, 100.0 MB resident, then",
        ),
        ("\"moved\":null", "\"moved\":\"a tree\"".into(), "mini-batch changed: a tree"),
    ] {
        assert!(text.contains(was), "{text}");
        fs::write(&run.json, text.replace(was, &is)).unwrap();
        let (code, _, message) = run.run(&[&SOAK, &["--resume"]]);
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
