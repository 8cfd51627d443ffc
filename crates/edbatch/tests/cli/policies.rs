//! Policies: learned to files, used from them, counted on graphs.

use std::fs;

use serde_json::Value;

use crate::support::{Scratch, difference};

/// Two trees of three kinds, and what is made of their nodes.
const GRAPH: &str = "9\n7 0\n7 0\n8 2 0 1\n7 0\n8 2 2 3\n7 0\n8 2 5 5\n100 1 4\n100 1 6\n";

/// What is ready before each batch when the policy critical schedules that graph.
const FRONTIERS: [&str; 5] =
    ["0: 4 7 ready", "1: 2 8 ready", "2: 1 8 ready", "2: 1 100 ready", "3: 2 100 ready"];

#[test]
fn a_model_learns() {
    for model in ["tree_lstm", "lattice_gru", "lstm_nmt"] {
        let scratch = Scratch::new(&format!("learns-{model}"));
        scratch.init(model);
        for (file, seed) in [("@a.json", "1"), ("@b.json", "1")] {
            let words = ["learn", "@model", "--output", file, "--seed", seed, "--batch", "2"];
            let report = scratch.ok(&[&words[..], &["--episodes", "60"]].concat());
            for word in ["episodes: ", "seconds: ", "batches before: ", "batches after: "] {
                assert!(report.contains(word), "{report}");
            }
            assert!(report.contains("\nbound: ") && report.contains("\nstates: "), "{report}");
        }
        let [a, b] = ["a.json", "b.json"].map(|file| fs::read(scratch.path(file)).unwrap());
        assert_eq!(a, b, "the same seed");
        let learned = scratch.ok(&["infer", "@model", "--policy", "@a.json"]);
        assert_eq!(learned, scratch.ok(&["infer", "@model"]), "{model}");
        let reference = scratch.ok(&["infer", "@model", "--backend", "interpret"]);
        assert!(difference(&learned, &reference) < 1e-4);
    }
}

#[test]
fn a_policy_for_other_kinds_is_refused() {
    let scratch = Scratch::new("other-kinds");
    scratch.init("tree_lstm");
    scratch.ok(&["learn", "@model", "--output", "@trees.json", "--episodes", "5"]);
    scratch.init("tree_lstm_2type");
    let message = scratch.error(&["infer", "@model", "--policy", "@trees.json"]);
    assert!(message.contains("trees.json: the policy was learned for other kinds"), "{message}");
    assert!(message.contains("`node0`, `node1`") && message.contains("`node`"), "{message}");
}

#[test]
fn graphs_teach_graphs() {
    let scratch = Scratch::new("graphs-teach");
    scratch.write("one.txt", GRAPH);
    scratch.write("two.txt", GRAPH.replace("100", "9"));
    for encoding in ["base", "max", "sort", "phase", "critical"] {
        let words =
            ["learn", "@one.txt", "@two.txt", "--output", "@p.json", "--encoding", encoding];
        scratch.ok(&words);
        let learned: Value =
            serde_json::from_str(&fs::read_to_string(scratch.path("p.json")).unwrap()).unwrap();
        assert_eq!(learned["kinds"], serde_json::json!(["7", "8", "9", "100"]));
        // Kinds that were never met go to the policy that needs no learning.
        scratch.write("three.txt", GRAPH.replace("100", "55"));
        for graph in ["@one.txt", "@three.txt"] {
            let report = scratch.ok(&["schedule", graph, "--policy", "@p.json", "--json"]);
            let report: Value = serde_json::from_str(&report).unwrap();
            assert_eq!(report[0]["bound"], 4);
            assert!(report[0]["batches"].as_u64() <= Some(5), "no worse than by depth");
        }
    }
}

#[test]
fn schedules_are_counted() {
    let scratch = Scratch::new("counted");
    scratch.write("graph.txt", GRAPH);
    let policies = ["--policy", "critical", "--policy", "depth", "--policy", "beam:2"];
    let words = [&["schedule", "@graph.txt", "--svg", "@s.svg"], &policies[..]].concat();
    let report = scratch.ok(&[&words[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    let report = report.as_array().unwrap();
    assert_eq!(report.len(), 3);
    let critical = &report[0];
    assert_eq!(critical["policy"], "critical");
    assert_eq!((&critical["batches"], &critical["bound"]), (&4.into(), &4.into()));
    assert_eq!((&critical["nodes"], &critical["kinds"]), (&9.into(), &3.into()));
    assert_eq!((&critical["proved"], &report[2]["proved"]), (&true.into(), &true.into()));
    assert!(critical["nanoseconds"].as_u64() > Some(0));
    assert_eq!((&report[1]["batches"], &report[1]["proved"]), (&5.into(), &false.into()));
    let picture = fs::read_to_string(scratch.path("s.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{picture}");
    assert_eq!(picture.matches(">n").count(), 9, "a box per node");
    let ready = picture.lines().filter_map(|line| line.split_once("<title>before batch "));
    let ready: Vec<&str> = ready.map(|(_, title)| title.split('<').next().unwrap()).collect();
    assert_eq!(ready, FRONTIERS, "the frontier before each batch");
    let text = scratch.ok(&words);
    assert!(text.starts_with("critical: 4 batches (optimal), bound 4, 9 nodes of 3 kinds, "));
    assert_eq!(scratch.ok(&["schedule", "@graph.txt"]).lines().count(), 4);
}

#[test]
fn a_search_proves_what_the_bound_cannot() {
    // Chains that read 0 1 1, 1 0 1 and 1 1 0: no schedule meets the bound of 3.
    let scratch = Scratch::new("proves");
    scratch.write("graph", "9\n0 0\n1 1 0\n1 1 1\n1 0\n0 1 3\n1 1 4\n1 0\n1 1 6\n0 1 7\n");
    let report = scratch.ok(&["schedule", "@graph", "--policy", "beam:64", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report[0]["batches"], &report[0]["bound"]), (&5.into(), &3.into()));
    assert_eq!(report[0]["proved"], true);
}
