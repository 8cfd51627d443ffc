//! Policies on the command line: `learn`, `schedule`, and `infer --policy`.

use serde_json::Value;

use crate::support::{Scratch, difference};

/// Two trees whose nodes have three kinds.
const GRAPH: &str = "9\n7 0\n7 0\n8 2 0 1\n7 0\n8 2 2 3\n7 0\n8 2 5 5\n100 1 4\n100 1 6\n";

/// The ready nodes before each batch when the policy critical schedules `GRAPH`.
const FRONTIERS: [&str; 5] =
    ["0: 4 7 ready", "1: 2 8 ready", "2: 1 8 ready", "2: 1 100 ready", "3: 2 100 ready"];

/// The report of `schedule` on a graph with a policy.
fn scheduled(scratch: &Scratch, graph: &str, policy: &str) -> Value {
    let report = scratch.ok(&["schedule", graph, "--policy", policy, "--json"]);
    serde_json::from_str(&report).unwrap()
}

/// The same seed writes the same file, and no policy changes a result.
#[test]
fn every_method_learns_a_policy_for_a_model() {
    let methods: [&[&str]; 3] = [&[], &["--method", "q"], &["--method", "q", "--encoding", "base"]];
    for model in ["tree_lstm", "tree_lstm_2type", "lattice_gru", "lstm_nmt"] {
        let scratch = Scratch::new(&format!("learns-{model}"));
        scratch.init(model);
        let expected = scratch.ok(&["infer", "@model"]);
        for method in methods {
            for output in ["@a.json", "@b.json"] {
                let words = ["learn", "@model", "--output", output, "--seed", "1", "--batch", "2"];
                let words = [&words[..], &["--episodes", "60"], method].concat();
                let report = scratch.ok(&words);
                let starts = ["episodes", "seconds", "batches before", "batches after", "bound"];
                let table = ["states", "batches in unseen states"];
                let size = if method.is_empty() { &["weights"][..] } else { &table };
                let starts = [&starts[..], size, &["compared on ", "written"]].concat();
                assert_eq!(report.lines().count(), starts.len(), "{report}");
                for (line, start) in report.lines().zip(starts) {
                    assert!(line.starts_with(start), "{report}");
                }
                let learned = scratch.json(&output[1..]);
                let encoding = learned["encoding"].as_str().unwrap();
                let is_learned = !encoding.starts_with("critical");
                let start = if is_learned { "the learned " } else { encoding };
                assert!(report.lines().last().unwrap()[9..].starts_with(start), "{report}");
                assert_eq!(learned["states"] != serde_json::json!([]), is_learned);
                assert!(is_learned || method.is_empty(), "{report}");
            }
            let [a, b] = ["a.json", "b.json"].map(|file| scratch.bytes(file));
            assert_eq!(a, b, "the same seed");
            let learned = scratch.ok(&["infer", "@model", "--policy", "@a.json"]);
            assert_eq!(learned, expected, "{model}, {method:?}");
        }
        // Of a table without states every state is unseen, and a policy without a table has none.
        let mut table = scratch.json("a.json");
        table["states"] = serde_json::json!([]);
        scratch.write("none.json", table.to_string());
        for (policy, share) in [("@none.json", 1), ("critical:pair", 0)] {
            let words = ["infer", "@model", "--policy", policy, "--stats", "@stats"];
            assert_eq!(scratch.ok(&words), expected);
            let stats = scratch.json("stats");
            assert_eq!(stats["unseen"], share * stats["batches"].as_u64().unwrap(), "{stats}");
        }
        let reference = scratch.ok(&["infer", "@model", "--backend", "interpret"]);
        assert!(difference(&expected, &reference) < 1e-4);
    }
}

/// Ten mini-batches of 24 lattices. Three are set aside.
#[test]
fn learned_policy_is_compared_with_what_needs_no_learning_on_unseen_graphs() {
    let scratch = Scratch::new("compared");
    let files: Vec<String> = (0..10).map(|seed| format!("@{seed}.txt")).collect();
    for (seed, name) in files.iter().enumerate() {
        scratch.write(&name[1..], lattices(seed as u64 + 1, 24));
    }
    // The batches of each policy on the graphs 3, 6 and 9, which are set aside.
    let unseen = |policy: &str| -> (u64, Option<u64>) {
        let graphs = ["@3.txt", "@6.txt", "@9.txt"];
        let reports = graphs.map(|graph| scheduled(&scratch, graph, policy)[0].take());
        let sum =
            |field: &str| reports.iter().map(|report| report[field].as_u64()).sum::<Option<_>>();
        (sum("batches").unwrap(), sum("unseen"))
    };
    let presets = ["critical", "critical:pair", "critical:soft"];
    let expected = presets.map(|policy| format!("{policy} {}", unseen(policy).0)).join(", ");
    let learn = |files: &[String], more: &[&str]| {
        let files = files.iter().map(String::as_str);
        let words = ["learn"].into_iter().chain(files).chain(["--output", "@p.json"]);
        scratch.ok(&words.chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let check = |report: &str, parts: &[&str]| {
        let after = unseen("@p.json").0;
        let [before, after] = [("before", unseen("critical").0), ("after", after)]
            .map(|(when, batches)| format!("batches {when}: {batches}\n"));
        for part in [&[&*before, &*after, &*expected], parts].concat() {
            assert!(report.contains(part), "expected {part}, got {report}");
        }
    };
    let on = "compared on 3 mini-batches set aside: ";
    // A weight for each pair of characters, words of a length and sums.
    let report = learn(&files, &["--seed", "3"]);
    check(&report, &["weights: 12\n", on, "written: the learned rule, ", " % fewer batches than "]);
    let unlearned = presets.map(|policy| unseen(policy).0);
    assert!(unlearned.iter().all(|&batches| unseen("@p.json").0 < batches), "{report}");
    assert_eq!(unseen("@p.json").1, None);
    // Too short to learn anything.
    let report = learn(&files, &["--episodes", "10"]);
    let best = presets.into_iter().min_by_key(|policy| unseen(policy).0).unwrap();
    let written = format!("written: {best}, which needs no learning: no better rule was learned");
    check(&report, &["episodes: 0\n", "weights: 0\n", on, &written]);
    assert!(!report.contains("learned "), "{report}");
    assert_eq!(scratch.json("p.json")["encoding"], best);
    // Five mini-batches are too few to set three aside.
    let report = learn(&files[..5], &["--episodes", "90"]);
    assert!(report.contains("compared on 5 mini-batches of the selection"), "{report}");
    // A Q-learning table loses to critical here. It is written unless --or-critical is given.
    let q = ["--encoding", "base", "--episodes", "20"];
    let report = learn(&files, &q);
    let unknown = format!("batches in unseen states: {}\n", unseen("@p.json").1.unwrap());
    check(&report, &[on, "written: the learned table, ", " % more batches than ", &unknown]);
    let report = learn(&files, &[&q[..], &["--or-critical"]].concat());
    check(&report, &["states: 0\n", on, "written: an empty table, "]);
    assert_eq!(scratch.json("p.json")["states"], serde_json::json!([]));
    let (all, unknown) = unseen("@p.json");
    assert_eq!(unknown, Some(all), "an empty table has no state");
}

/// Sentences of 10 to 40 characters, as a graph in the text format. The kinds are characters (1),
/// sums of all arcs into a state (3), outputs (4), and words of 2 to 4 characters (5 to 7).
fn lattices(seed: u64, count: usize) -> String {
    let mut state = seed;
    let mut below = |limit: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut nodes: Vec<String> = Vec::new();
    for _ in 0..count {
        let mut push = |text: String| {
            nodes.push(text);
            nodes.len() - 1
        };
        let mut states = vec![push("1 0".into())];
        for end in 1..=10 + below(31) as usize {
            let mut arcs = vec![push(format!("1 1 {}", states[end - 1]))];
            for length in 2..=end.min(4) {
                if below(3) == 0 {
                    arcs.push(push(format!("{} 1 {}", length + 3, states[end - length])));
                }
            }
            let ids: Vec<String> = arcs.iter().map(ToString::to_string).collect();
            let sum = format!("3 {} {}", ids.len(), ids.join(" "));
            states.push(if arcs.len() > 1 { push(sum) } else { arcs[0] });
            push(format!("4 1 {}", states[end]));
        }
    }
    format!("{}\n{}\n", nodes.len(), nodes.join("\n"))
}

#[test]
fn ignored_options_of_learn_are_wrong_usage() {
    let scratch = Scratch::new("ignored-options");
    scratch.write("graph.txt", GRAPH);
    for more in [["--method=pairs", "--encoding=sort"], ["--seed=1", "--batch=8"]] {
        let words = ["learn", "@graph.txt", "--output", "@p.json"];
        let message = scratch.error_of_usage(&[&words[..], &more].concat());
        assert!(message.contains(&more[1][..7]), "{message}");
        assert!(!scratch.path("p.json").exists());
    }
}

/// Each limit of the address space leads to a result or to one line, whatever is allocated when it
/// is reached. The searches and the table of states would take gigabytes. The limits include the
/// command's reserve.
#[cfg(target_os = "linux")]
#[test]
fn limited_memory_ends_searches_and_learning_without_a_signal() {
    let scratch = Scratch::new("searches-memory");
    scratch.write("graph.txt", lattices(1, 40));
    scratch.write("large.txt", lattices(1, 1200));
    let limited = |kilobytes: u32, command: &str| {
        let script = format!("ulimit -v {kilobytes} && exec \"$0\" {command}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_edbatch")]).current_dir(&scratch.0);
        (shell.output().unwrap(), script)
    };
    // The program starts from some limit on, which depends on its size.
    let starts = |&limit: &u32| limited(limit, "--version").0.status.success();
    let start = (30_000..).step_by(250).find(starts).unwrap();
    let mut ended = [0, 0];
    for command in [
        "schedule graph.txt --policy beam:1000000",
        "schedule graph.txt --policy exact:20",
        "learn graph.txt --output p.json --encoding phase --episodes 20",
        "learn graph.txt --output p.json --episodes 24",
        "schedule large.txt --policy critical",
    ] {
        for limit in [2_000, 4_000, 5_000, 7_000, 14_000, 30_000, 70_000] {
            let (output, script) = limited(start + limit - 4_000, command);
            let message = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code().unwrap_or_else(|| panic!("{script}: {output:?}"));
            let is_error = code == 1 && message.contains("out of memory");
            assert!(code == 0 || is_error && message.lines().count() == 1, "{script}: {output:?}");
            ended[code as usize] += 1;
        }
    }
    assert!(ended[0] > 24 && ended[1] > 0, "{ended:?}");
}

#[test]
fn policy_for_other_kinds_is_rejected() {
    let scratch = Scratch::new("other-kinds");
    scratch.init("tree_lstm");
    scratch.ok(&["learn", "@model", "--output", "@trees.json", "--episodes", "5"]);
    scratch.init("tree_lstm_2type");
    let message = scratch.error(&["infer", "@model", "--policy", "@trees.json"]);
    assert!(message.contains("trees.json: the policy was learned for other kinds"), "{message}");
    assert!(message.contains("`node0`, `node1`") && message.contains("`node`"), "{message}");
}

#[test]
fn policy_learned_on_graphs_schedules_other_graphs() {
    let scratch = Scratch::new("graphs-teach");
    scratch.write("one.txt", GRAPH);
    scratch.write("two.txt", GRAPH.replace("100", "9"));
    for encoding in ["base", "max", "sort", "phase"] {
        let words =
            ["learn", "@one.txt", "@two.txt", "--output", "@p.json", "--encoding", encoding];
        scratch.ok(&words);
        let learned = scratch.json("p.json");
        assert_eq!(learned["encoding"], encoding);
        assert!(!learned["states"].as_array().unwrap().is_empty(), "{encoding}");
        assert_eq!(learned["kinds"], serde_json::json!(["7", "8", "9", "100"]));
        // The policy critical decides about unknown kinds.
        scratch.write("three.txt", GRAPH.replace("100", "55"));
        for graph in ["@one.txt", "@three.txt"] {
            let report = scheduled(&scratch, graph, "@p.json");
            assert_eq!(report[0]["bound"], 4);
            assert!(report[0]["batches"].as_u64() <= Some(5), "no worse than by depth");
        }
    }
}

#[test]
fn schedule_prints_and_draws_batches() {
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
    // By depth the outputs run in two batches, and one of them is in the same wave as node 4.
    assert_eq!((&report[1]["waves"], &report[1]["depth"]), (&4.into(), &4.into()));
    let picture = scratch.text("s.svg");
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{picture}");
    assert_eq!(picture.matches(">n").count(), 9, "a box per node");
    let ready = picture.lines().filter_map(|line| line.split_once("<title>before batch "));
    let ready: Vec<&str> = ready.map(|(_, title)| title.split('<').next().unwrap()).collect();
    assert_eq!(ready, FRONTIERS, "the frontier before each batch");
    let text = scratch.ok(&words);
    let expected = "critical: 4 batches (optimal), bound 4, 9 nodes of 3 kinds, 4 waves, depth 4, ";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(scratch.ok(&["schedule", "@graph.txt"]).lines().count(), 6);
}

#[test]
fn search_proves_schedules_that_exceed_the_bound() {
    // Chains of kinds 0 1 1, 1 0 1 and 1 1 0: no schedule reaches the bound of 3.
    let scratch = Scratch::new("proves");
    scratch.write("graph", "9\n0 0\n1 1 0\n1 1 1\n1 0\n0 1 3\n1 1 4\n1 0\n1 1 6\n0 1 7\n");
    let report = scheduled(&scratch, "@graph", "beam:64");
    assert_eq!((&report[0]["batches"], &report[0]["bound"]), (&5.into(), &3.into()));
    assert_eq!(report[0]["proved"], true);
    for policy in ["exact", "exact:60", "beam:64:60"] {
        let report = scheduled(&scratch, "@graph", policy);
        assert_eq!(report[0]["policy"], policy);
        assert_eq!((&report[0]["batches"], &report[0]["proved"]), (&5.into(), &true.into()));
    }
    let message = scratch.error_of_usage(&["schedule", "@graph", "--policy", "exact:soon"]);
    assert!(
        message.contains("expected a time limit in seconds at the end, from a nanosecond"),
        "{message}"
    );
}
