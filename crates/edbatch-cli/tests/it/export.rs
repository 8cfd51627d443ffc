//! `edbatch export`, and folders with `network.json`.

use std::fs;

use edbatch_testing::names;

use crate::support::{MODELS, Scratch, goldens_small};

/// The lines of `infer` on an exported folder, as `infer` on the original writes them.
fn renamed(outputs: &str) -> String {
    outputs.replace("\"outputs\":", "\"logits\":")
}

/// Removes the names of outputs, which networks do not have.
fn without_names(line: &str) -> String {
    let end = line
        .find("]], \"")
        .map(|end| end + 2)
        .or_else(|| line.find("\"logits\": [], \"").map(|end| end + "\"logits\": []".len()));
    end.map_or(line.to_string(), |end| format!("{}}}", &line[..end]))
}

/// The files of an exported folder.
const FILES: [&str; 3] = ["calls.jsonl", "network.json", "weights.safetensors"];

#[test]
fn exported_models_have_the_same_outputs() {
    for (model, ..) in MODELS {
        let folder = goldens_small().join(model);
        let scratch = Scratch::new("export");
        let (dir, awaits) = (folder.to_str().unwrap(), model == "lstm_nmt");
        let message = scratch.notice(&["export", dir, "@network"]);
        assert_eq!(message.contains("awaits computed values"), awaits, "{message}");
        let files = if awaits { &FILES[1..] } else { &FILES };
        assert_eq!(names(&scratch.path("network")), files, "{model}");
        // The same network again, from the new folder.
        if awaits {
            let error = scratch.error(&["export", dir, "@other", "--input", "x.txt"]);
            assert!(error.contains("awaits computed values"), "{error}");
            assert_eq!(scratch.names(), ["network"]);
            continue;
        }
        let original = scratch.ok(&["infer", dir]);
        let original: Vec<String> = original.lines().map(without_names).collect();
        for more in [&[][..], &["--threads", "1", "--batch", "3"], &["--policy", "agenda"]] {
            let exported = scratch.ok(&[&["infer", "@network"][..], more].concat());
            let exported: Vec<String> = renamed(&exported).lines().map(String::from).collect();
            assert_eq!(exported, original, "{model} {more:?}");
        }
        scratch.ok(&["export", "@network", "@again"]);
        for file in FILES {
            let [first, again] =
                ["network", "again"].map(|dir| fs::read(scratch.path(dir).join(file)).unwrap());
            assert_eq!(first, again, "{model}: {file}");
        }
        let learn = ["learn", "@network", "--output", "@policy.json", "--episodes", "3"];
        scratch.ok(&learn);
        let learned = scratch.ok(&["infer", "@network", "--policy", "@policy.json"]);
        assert_eq!(renamed(&learned).lines().collect::<Vec<_>>(), original);
        let [cells, of_model] =
            [&["cells", "@network", "--picture", "text"], &["cells", dir, "--picture", "text"]]
                .map(|words| scratch.ok(words));
        assert_eq!(cells, of_model);
    }
}

#[test]
fn exported_targets_have_the_same_gradients() {
    for model in ["tree_lstm", "bilstm_tagger", "lattice_lstm"] {
        let scratch = Scratch::new("export-targets");
        scratch.init(model);
        let (_, file, _) = MODELS.into_iter().find(|(name, ..)| *name == model).unwrap();
        scratch.ok(&["export", "@model", "@network"]);
        let lines = scratch.text("network/calls.jsonl");
        assert!(lines.contains("\"targets\""), "{lines}");
        let gradients = |dir: &str, input: &str| {
            let words = ["gradients", dir, "--input", input, "--output", "@out.safetensors"];
            scratch.ok(&words);
            scratch.bytes("out.safetensors")
        };
        let original = gradients("@model", &format!("@{file}"));
        assert_eq!(gradients("@network", "@network/calls.jsonl"), original, "{model}");
    }
}

/// A network of one's own, with given values, an initial value and lists that emit nothing.
#[test]
fn handwritten_networks_run() {
    let scratch = Scratch::new("handwritten");
    scratch.init("tree_lstm");
    scratch.ok(&["export", "@model", "@network"]);
    let calls = "{\"calls\": []}\n\
                 {\"calls\": [[\"leaf\", 1], [\"leaf\", 2], [\"node\", 0, 1]], \"emit\": [2, 2]}\n\
                 {\"calls\": [[\"leaf\", 1], [\"leaf\", 2], [\"nod\", 0, 1]]}\n\
                 \n\
                 {\"give\": [[\"state\", [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0.5]]], \
                 \"calls\": [], \"emit\": [0]}\n";
    scratch.write("calls.jsonl", calls);
    let error = scratch.error(&["infer", "@network", "--input", "@calls.jsonl"]);
    let expected = "calls.jsonl:3:43: expected a cell of the network, got \"nod\"";
    assert!(error.trim_end().ends_with(expected), "{error}");
    let words = ["infer", "@network", "--input", "@calls.jsonl", "--on-error", "record"];
    let output = scratch.ok(&words);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "{\"id\": 0, \"outputs\": []}");
    assert!(lines[1].starts_with("{\"id\": 1, \"outputs\": [["), "{output}");
    assert!(lines[2].contains("\"error\": ") && lines[2].contains("calls.jsonl:3:43"), "{output}");
    assert!(lines[3].contains("\"error\": ") && lines[3].contains("calls.jsonl:4:1"), "{output}");
    assert_eq!(
        lines[4],
        "{\"id\": 4, \"outputs\": [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, \
         0.0, 0.0, 0.0, 0.5]]}"
    );
    let interpreted = scratch.ok(&[&words[..], &["--backend", "interpret"]].concat());
    assert_eq!(interpreted.lines().nth(4), Some(lines[4]));
}

#[test]
fn one_bad_line_in_a_mini_batch_leaves_the_others() {
    let scratch = Scratch::new("export-record");
    scratch.init("tree_lstm");
    scratch.ok(&["export", "@model", "@network"]);
    let good = scratch.text("network/calls.jsonl");
    let mut lines: Vec<&str> = good.lines().cycle().take(64).collect();
    scratch.write("good.jsonl", lines.join("\n"));
    lines[40] = "{\"calls\": [[\"leaf\", 1000000]], \"emit\": [0]}";
    scratch.write("bad.jsonl", lines.join("\n"));
    let infer = |input: &str| {
        let words =
            ["infer", "@network", "--batch", "64", "--on-error", "record", "--input", input];
        scratch.ok(&words)
    };
    let (good, bad) = (infer("@good.jsonl"), infer("@bad.jsonl"));
    assert_eq!((good.lines().count(), bad.lines().count()), (64, 64));
    for (id, (good, bad)) in good.lines().zip(bad.lines()).enumerate() {
        match id {
            40 => assert!(bad.contains("\"error\": ") && bad.contains("bad.jsonl:41:"), "{bad}"),
            _ => assert_eq!(good, bad),
        }
    }
}

#[test]
fn faults_of_folders_name_the_file() {
    let scratch = Scratch::new("export-faults");
    scratch.init("tree_lstm");
    scratch.ok(&["export", "@model", "@network"]);
    let error = scratch.error(&["export", "@model", "@network"]);
    assert!(
        error.contains("network: expected a new or empty folder, got one with files"),
        "{error}"
    );
    let error = scratch.error(&["export", "@model", "@trees.txt"]);
    assert!(error.contains("trees.txt: expected a new or empty folder"), "{error}");
    scratch.write("bad.txt", "(1 (2 a) (2 b)\n");
    let before = scratch.names();
    let error = scratch.error(&["export", "@model", "@new", "--input", "@bad.txt"]);
    assert!(error.contains("bad.txt:1:15"), "{error}");
    assert_eq!(scratch.names(), before, "no partial folder is left");

    let network = scratch.text("network/network.json");
    scratch.write("network/network.json", network.replace("\"tanh\"", "\"tan\""));
    let error = scratch.error(&["infer", "@network"]);
    assert!(error.contains("network.json:") && error.contains("got \"tan\" (cell leaf"), "{error}");
    scratch.write("network/network.json", &network);
    scratch.write("network/config.json", "{}");
    let error = scratch.error(&["infer", "@network"]);
    assert!(error.contains("expected config.json or network.json, got both"), "{error}");
    let help = scratch.ok(&["export", "--help"]);
    assert!(help.contains("Example:"), "{help}");
}

/// The mark of a shard has the network: another network is another model.
#[test]
fn shards_notice_a_changed_network() {
    let scratch = Scratch::new("export-shards");
    scratch.init("tree_lstm");
    scratch.ok(&["export", "@model", "@network"]);
    let run = |shard: &str| {
        let words = ["infer", "@network", "--shard", shard, "--output-dir", "@out"];
        scratch.notice(&words)
    };
    run("0/2");
    assert!(run("0/2").contains("already done"));
    run("1/2");
    scratch.ok(&["shards", "check", "@out"]);
    let whole = scratch.ok(&["infer", "@network"]);
    assert_eq!(scratch.ok(&["shards", "cat", "@out"]), whole);

    let network = scratch.text("network/network.json");
    let changed = network.replacen("\"tanh\"", "\"relu\"", 1);
    assert_ne!(network, changed);
    scratch.write("network/network.json", changed);
    assert!(run("0/2").contains("run again: the model has changed"));
    let output = scratch.run(&["shards", "check", "@out"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(message.contains("model"), "{message}");
}
