//! `infer --trace`: slices nest, `--stats` has the same number of batches, and results do not
//! change.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::{MODELS, Scratch};

/// A slice of the trace, with times in nanoseconds.
#[derive(Clone, Debug)]
struct Slice {
    kind: String,
    name: String,
    from: u64,
    to: u64,
    arguments: Value,
}

/// Returns the slices of each thread, by its name, in the order of their starts.
fn tracks(text: &str) -> BTreeMap<String, Vec<Slice>> {
    let trace: Value = serde_json::from_str(text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let names = names.map(|event| (event["tid"].as_u64(), text(&event["args"]["name"])));
    let names: BTreeMap<_, _> = names.collect();
    let mut tracks: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let nanoseconds = |of: &str| (event[of].as_f64().unwrap() * 1e3).round() as u64;
        let (from, long) = (nanoseconds("ts"), nanoseconds("dur"));
        tracks.entry(names[&event["tid"].as_u64()].clone()).or_default().push(Slice {
            kind: text(&event["cat"]),
            name: text(&event["name"]),
            from,
            to: from + long,
            arguments: event["args"].clone(),
        });
    }
    // Of slices that start together, the longest is the outermost.
    tracks.values_mut().for_each(|track| track.sort_by_key(|s| (s.from, u64::MAX - s.to)));
    tracks
}

/// Returns the kinds of the slices that contain each slice of a track, outermost first. Fails if
/// slices overlap without nesting.
fn ancestors(track: &[Slice]) -> Vec<Vec<String>> {
    let mut open: Vec<&Slice> = Vec::new();
    let mut ancestors = Vec::new();
    for slice in track {
        while open.last().is_some_and(|outer| outer.to <= slice.from) {
            open.pop();
        }
        if let Some(outer) = open.last() {
            assert!(slice.to <= outer.to, "{slice:?} starts in {outer:?} and ends after it");
        }
        ancestors.push(open.iter().map(|outer| outer.kind.clone()).collect());
        open.push(slice);
    }
    ancestors
}

fn count(tracks: &BTreeMap<String, Vec<Slice>>, kind: &str) -> u64 {
    tracks.values().flatten().filter(|slice| slice.kind == kind).count() as u64
}

/// Runs `infer` with `--trace` and `--stats`, and checks that the results do not change. Returns
/// the slices and the statistics.
fn traced(scratch: &Scratch, words: &[&str]) -> (BTreeMap<String, Vec<Slice>>, Value) {
    let words = [&["infer", "@model"], words].concat();
    let expected = scratch.ok(&words);
    let more = ["--trace", "@trace.json", "--stats", "@stats"];
    assert_eq!(scratch.ok(&[&words[..], &more].concat()), expected, "{words:?}");
    let [trace, stats] = ["trace.json", "stats"].map(|name| scratch.text(name));
    (tracks(&trace), serde_json::from_str(&stats).unwrap())
}

#[test]
fn slices_nest_and_batches_match_the_statistics() {
    for (model, ..) in MODELS {
        let scratch = Scratch::new(&format!("trace-{model}"));
        scratch.init(model);
        for words in [&["--threads", "1"][..], &["--threads", "2"]] {
            let (tracks, stats) = traced(&scratch, &[words, &["--batch", "3"]].concat());
            assert_eq!(count(&tracks, "batch"), stats["batches"].as_u64().unwrap(), "{model}");
            assert_eq!(count(&tracks, "execute"), stats["graphs"].as_u64().unwrap(), "{model}");
            // Eight inputs, three at a time.
            assert_eq!(count(&tracks, "mini-batch"), 3, "{model}");
            let mut calls = 0;
            for slices in tracks.values() {
                for (slice, ancestors) in slices.iter().zip(ancestors(slices)) {
                    let expected: &[&str] = match slice.kind.as_str() {
                        "worker" => &[],
                        "mini-batch" => &["worker"],
                        "round" => &["worker", "mini-batch"],
                        "construct" | "schedule" | "plan" | "execute" | "read" => {
                            &["worker", "mini-batch", "round"]
                        }
                        "batch" | "prologue" => &["worker", "mini-batch", "round", "execute"],
                        other => panic!("{model}: a slice of {other}"),
                    };
                    assert_eq!(ancestors, expected, "{model}: {slice:?}");
                    if slice.kind == "batch" {
                        assert!(slice.arguments["gathered_bytes"].is_u64(), "{slice:?}");
                        calls += slice.arguments["calls"].as_u64().unwrap();
                    }
                }
            }
            assert_eq!(calls, stats["nodes"].as_u64().unwrap(), "{model}");
            let kinds = stats["kinds"].as_array().unwrap();
            for kind in kinds {
                let batches = tracks.values().flatten().filter(|slice| slice.kind == "batch");
                let of_kind = batches.filter(|slice| slice.name == kind["kind"].as_str().unwrap());
                assert_eq!(of_kind.count() as u64, kind["batches"].as_u64().unwrap(), "{kind}");
            }
        }
    }
}

#[test]
fn every_worker_has_a_track() {
    let scratch = Scratch::new("trace-workers");
    scratch.init("tree_lstm");
    for threads in 1..4_usize {
        let (tracks, _) = traced(&scratch, &["--threads", &threads.to_string(), "--batch", "1"]);
        let names: Vec<String> = tracks.keys().cloned().collect();
        let expected: Vec<String> = (1..=threads).map(|n| format!("worker {n}")).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn the_reference_has_stages_and_no_batches() {
    let scratch = Scratch::new("trace-reference");
    scratch.init("lstm_nmt");
    let (tracks, stats) = traced(&scratch, &["--backend", "interpret"]);
    assert_eq!(count(&tracks, "batch"), 0);
    assert_eq!(count(&tracks, "execute"), stats["graphs"].as_u64().unwrap());
    tracks.values().for_each(|slices| drop(ancestors(slices)));
}

#[test]
fn a_shard_writes_a_trace_only_if_it_runs() {
    let scratch = Scratch::new("trace-shard");
    scratch.init("tree_lstm");
    let shard = ["infer", "@model", "--shard", "1/2", "--output-dir", "@out", "--trace", "@trace"];
    scratch.ok(&shard);
    let trace = tracks(&scratch.text("trace"));
    assert_eq!(count(&trace, "mini-batch"), 1);
    fs::remove_file(scratch.path("trace")).unwrap();
    scratch.ok(&shard);
    assert!(!scratch.path("trace").exists(), "already done");
}

#[test]
fn a_run_that_fails_leaves_no_trace() {
    let scratch = Scratch::new("trace-fails");
    scratch.init("tree_lstm");
    scratch.write("trees.txt", MODELS[0].2.repeat(100) + "(3 (2");
    let before = scratch.names();
    scratch.error(&["infer", "@model", "--trace", "@trace", "--output", "@out", "--batch", "8"]);
    assert_eq!(scratch.names(), before);
    let error = scratch.error(&["infer", "@model", "--trace", "@none/trace", "--output", "@out"]);
    assert!(error.contains("none/trace: cannot be written: "), "{error}");
    assert_eq!(scratch.names(), before);
}

/// A full disk is detected before the results are put in place.
#[test]
#[cfg(target_os = "linux")]
fn an_error_in_the_trace_leaves_no_results() {
    let scratch = Scratch::new("trace-full");
    scratch.init("tree_lstm");
    let before = scratch.names();
    let error = scratch.error(&["infer", "@model", "--trace", "/dev/full", "--output", "@out"]);
    assert!(error.contains("/dev/full: cannot be written: No space left"), "{error}");
    assert_eq!(scratch.names(), before);
}
