//! Text files as editors and other programs write them: marks, tabs, line ends, columns.

use std::fs;

use crate::support::{MODELS, Scratch, gz, init};

/// A byte order mark.
const MARK: &str = "\u{feff}";

/// Puts a byte order mark in front of a file.
fn mark(scratch: &Scratch, name: &str) {
    let text = scratch.text(name);
    scratch.write(name, format!("{MARK}{text}"));
}

#[test]
fn byte_order_marks_are_skipped() {
    for (model, file, _) in MODELS {
        let scratch = Scratch::new("marks");
        scratch.init(model);
        let inputs = if model == "lstm_nmt" { &[file, "target.txt"][..] } else { &[file] };
        let at: Vec<String> = inputs.iter().map(|name| format!("@{name}")).collect();
        let at: Vec<&str> = at.iter().map(String::as_str).collect();
        init(&scratch, model, "@plain", &at);
        let expected = scratch.ok(&["infer", "@plain"]);
        let gradients = ["gradients", "@plain", "--input", at[0], "--output"];
        scratch.ok(&[&gradients[..], &["@unmarked"]].concat());

        inputs.iter().for_each(|name| mark(&scratch, name));
        init(&scratch, model, "@marked", &at);
        let lists = edbatch_testing::names(&scratch.path("plain"));
        let lists: Vec<_> = lists.into_iter().filter(|name| *name != "config.json").collect();
        for name in &lists {
            let [plain, marked] =
                ["plain", "marked"].map(|dir| fs::read(scratch.path(dir).join(name)).unwrap());
            assert!(plain == marked, "{model}: {name}");
        }
        for name in lists.iter().filter(|name| name.ends_with(".txt")) {
            mark(&scratch, &format!("plain/{name}"));
        }
        assert!(scratch.ok(&["infer", "@plain"]) == expected, "{model}");
        scratch.ok(&[&gradients[..], &["@marks"]].concat());
        let [unmarked, marks] = ["unmarked", "marks"].map(|g| scratch.bytes(g));
        assert!(unmarked == marks, "{model}");
        for shard in ["0/2", "1/2"] {
            scratch.ok(&["infer", "@plain", "--shard", shard, "--output-dir", "@shards"]);
        }
        assert!(scratch.ok(&["shards", "cat", "@shards"]) == expected, "{model}");
        let compressed = format!("@{file}.gz");
        scratch.write(&compressed[1..], gz(scratch.text(file).as_bytes()));
        assert!(scratch.ok(&["infer", "@plain", "--input", &compressed]) == expected, "{model}");
    }
}

#[test]
fn byte_order_marks_of_graphs_policies_calls_and_classes_are_skipped() {
    let scratch = Scratch::new("marks-other");
    scratch.write("graph", "3\n7 0\n7 0\n9 2 0 1\n");
    scratch.write("marked", format!("{MARK}3\n7 0\n7 0\n9 2 0 1\n"));
    let expected = scratch.ok(&["schedule", "@graph", "--policy", "depth"]);
    let counts = |text: &str| text.rsplit_once(", ").unwrap().0.to_string();
    let got = scratch.ok(&["schedule", "@marked", "--policy", "depth"]);
    assert_eq!(counts(&got), counts(&expected));
    scratch.ok(&["learn", "@marked", "--output", "@policy"]);
    mark(&scratch, "policy");
    scratch.ok(&["schedule", "@graph", "--policy", "@policy"]);

    scratch.write("trees", "(pos (neu a) (neu b))\n");
    init(&scratch, "tree_lstm", "@model", &["@trees"]);
    scratch.ok(&["export", "@model", "@network", "--input", "@trees"]);
    let expected = scratch.ok(&["infer", "@network"]);
    mark(&scratch, "network/calls.jsonl");
    assert_eq!(scratch.ok(&["infer", "@network"]), expected);
    mark(&scratch, "model/classes.txt");
    scratch.ok(&["evaluate", "@model", "--input", "@trees", "--metric", "accuracy"]);

    // An empty file with a mark is an empty file.
    scratch.write("empty", MARK);
    assert_eq!(scratch.ok(&["infer", "@model", "--input", "@empty"]), "");
    scratch.write("in.arcs.txt", format!("{MARK}1\n2\n0 1\n0\n1 0 3\n"));
    let notice = init(&scratch, "lattice_gru", "@arcs", &["@in.arcs.txt"]);
    assert_eq!(notice, "edbatch: 2 classes, 3 characters, 0 words\n");
}

#[test]
fn tabs_separate_in_trees_and_in_texts_to_translate() {
    let scratch = Scratch::new("tabs");
    scratch.write("trees", "(1\t(0\ta)\t(1 b))\n\t(0 a)\t\n");
    assert_eq!(init(&scratch, "tree_lstm", "@model", &["@trees"]), "edbatch: 2 classes, 2 words\n");
    assert_eq!(scratch.text("model/vocab.txt"), "<unk>\na\nb\n");
    scratch.write("source", "a\tb  c\n\td\t\n");
    scratch.write("target", "x\ty\n\t\n");
    init(&scratch, "lstm_nmt", "@translator", &["@source", "@target"]);
    assert_eq!(scratch.text("translator/src_vocab.txt"), "<unk>\n<s>\n</s>\na\nb\nc\nd\n");
    assert_eq!(scratch.text("translator/tgt_vocab.txt"), "<unk>\n<s>\n</s>\nx\ny\n");
    let spaces = scratch.ok(&["infer", "@translator"]);
    scratch.write("source", "a b c\nd\n");
    assert_eq!(scratch.ok(&["infer", "@translator"]), spaces);
    scratch.write("x.arcs.txt", "1\t2\n");
    let error = init(&scratch, "lattice_gru", "@arcs", &["@x.arcs.txt"]);
    assert!(error.contains("x.arcs.txt:1:1: expected the number of"), "{error}");
    assert!(error.contains("got \"1\\t2\""), "{error}");
}

const FORMAT: &str =
    "expected `word|tag word|tag …`, one sentence a line, words separated by spaces";

/// Files of another format than a tagger's, each with the place and the end of its error.
#[test]
fn tabs_and_columns_are_errors_in_files_of_a_tagger() {
    for model in ["bilstm_tagger", "bilstm_tagger_char"] {
        let scratch = Scratch::new("columns");
        scratch.write("tagged", "Anna|B-PER runs|O\n");
        init(&scratch, model, "@model", &["@tagged"]);
        for (text, place, got) in [
            ("Anna|B-PER\truns|O\n", "1:11", ", without tabs, got \"\\t\""),
            ("Anna runs\nAnna\tB-PER\n", "2:5", ", without tabs, got \"\\t\""),
            ("\n\t\n", "2:1", ", without tabs, got \"\\t\""),
            ("Anna NNP B-NP B-PER\nruns VBZ B-VP O\n", "1:1", ", got columns, from \"Anna\" to"),
            ("runs O\nAnna B-PER\n", "2:1", ", got columns, from \"Anna\" to \"B-PER\""),
            ("-DOCSTART- -X- O O\n", "1:1", ", got columns, from \"-DOCSTART-\" to \"O\""),
        ] {
            scratch.write("bad", text);
            let expected = format!("bad:{place}: {FORMAT}{got}");
            let run = ["--input", "@bad"];
            for command in [&["infer", "@model"][..], &["evaluate", "@model", "--metric", "loss"]] {
                let error = scratch.error(&[command, &run].concat());
                assert!(error.contains(&expected), "{text}: {error}");
            }
            let error =
                scratch.error(&["gradients", "@model", "--input", "@bad", "--output", "@g"]);
            assert!(error.contains(&expected), "{text}: {error}");
            let valid = ["train", "@model", "--input", "@tagged", "--valid", "@bad"];
            assert!(scratch.error(&valid).contains(&expected), "{text}");
            let both = init(&scratch, model, "@other", &["@tagged", "@bad"]);
            assert!(both.contains(&expected), "{text}: {both}");
            let alone = init(&scratch, model, "@other", &["@bad"]);
            assert!(alone.contains("bad:") && alone.contains(FORMAT), "{text}: {alone}");
        }
        // These are sentences.
        scratch.write("good", "O\nAnna O\nplan B-PER now\nAnna|O runs B-PER\n\n  \n");
        let run = scratch.ok(&["infer", "@model", "--input", "@good", "--indices"]);
        assert_eq!(run.lines().count(), 6);
        scratch.write("plain", "no tags\n");
        let error = init(&scratch, model, "@other", &["@plain"]);
        assert!(
            error.contains(&format!("plain:1:1: {FORMAT}, got a file without tags")),
            "{error}"
        );
        let metric = ["evaluate", "@model", "--input", "@plain", "--metric", "accuracy"];
        let error = scratch.error(&metric);
        let format = FORMAT.replace("expected", "plain: expected targets, got none: write");
        assert!(error.contains(&format), "{error}");
    }
}

#[test]
fn carriage_returns_enter_no_name() {
    let scratch = Scratch::new("returns");
    scratch.write("tagged", "Anna|PER runs|O\r\r\nAnna|PER\r\r\n");
    init(&scratch, "bilstm_tagger", "@model", &["@tagged"]);
    assert_eq!(scratch.text("model/tags.txt"), "PER\nO\n");
    for name in ["vocab.txt", "tags.txt"] {
        let text = scratch.text(&format!("model/{name}")).replace('\n', "\r\r\n");
        scratch.write(&format!("model/{name}"), text);
    }
    let metric = ["evaluate", "@model", "--input", "@tagged", "--metric", "accuracy"];
    assert!(scratch.ok(&metric).starts_with("accuracy: "));

    let returned = "expected \"\\n\" at the end of a line, got a carriage return, \"\\r\"";
    let texts = [
        ("bilstm_tagger", "a|X\rb|Y\r", 4),
        ("tree_lstm", "(0 a)\r(1 b)\r", 6),
        ("tree_lstm", "(0 ü\rb)\n", 5),
    ];
    for (model, text, column) in texts {
        scratch.write("bad", text);
        let error = init(&scratch, model, "@other", &["@bad"]);
        assert!(error.contains(&format!("bad:1:{column}: {returned}")), "{error}");
    }
    scratch.write("model/tags.txt", "PER\rO\r");
    let error = scratch.error(&metric);
    assert!(error.contains(&format!("tags.txt:1:4: {returned}")), "{error}");
}

#[test]
fn names_that_no_file_can_hold_are_not_dropped_silently() {
    let scratch = Scratch::new("unwritable");
    for tag in ["O\\n", "O\\r", ""] {
        let line = r#"{"chars": ["a", "b"], "words": [[0, 1, "ab"]], "tags": ["X", "TAG"]}"#;
        scratch.write("bad.jsonl", line.replace("TAG", tag));
        let error = init(&scratch, "lattice_lstm", "@model", &["@bad.jsonl"]);
        let expected = "expected a tag without line ends that is not empty, got \"";
        assert!(error.contains(&format!("bad.jsonl:1:62: {expected}")), "{error}");
        assert!(!scratch.path("model").exists());
    }
    let text =
        r#"{"chars": ["a", "\n", ""], "words": [[0, 1, "a\r"], [1, 2, "\n"]], "tags": TAGS}"#;
    scratch.write("in.jsonl", text.replace("TAGS", r#"["X", "Y", "X"]"#));
    let notice = init(&scratch, "lattice_lstm", "@model", &["@in.jsonl"]);
    let expected = "edbatch: 2 classes, named in classes.txt, 1 characters, 0 words; 4 words or \
        characters are <unk>, because they are empty or have line ends, such as \"\\n\"\n";
    assert_eq!(notice, expected);
    scratch.ok(&["infer", "@model"]);
}

#[test]
fn zeros_after_compressed_data_are_skipped() {
    let scratch = Scratch::new("padding");
    let [first, second] = [&b"(1 (0 a) (1 b))\n"[..], b"(0 c)\n"].map(gz);
    let zeros = |count: usize| vec![0; count];
    for padding in [1, 8, 512, 100_000] {
        scratch.write("in.gz", [first.clone(), zeros(padding)].concat());
        let notice = init(&scratch, "tree_lstm", "@model", &["@in.gz"]);
        assert_eq!(notice, "edbatch: 2 classes, 2 words\n", "{padding} zeros");
        scratch.write("in.gz", [first.clone(), zeros(padding), second.clone(), zeros(3)].concat());
        let notice = init(&scratch, "tree_lstm", "@model", &["@in.gz"]);
        assert_eq!(notice, "edbatch: 2 classes, 3 words\n", "{padding} zeros");
    }
    let garbage: [&[u8]; 5] =
        [b"x", b"garbage", b"\0\0garbage", &[b'y'; 9999], b"\x1f\x8c34567890123"];
    for bytes in garbage {
        scratch.write("in.gz", [&first, bytes].concat());
        let error = init(&scratch, "tree_lstm", "@other", &["@in.gz"]);
        let expected = "in.gz:2:1: expected more data, got: trailing garbage: bytes after the \
            compressed data that are not gzip";
        assert!(error.contains(expected), "{bytes:?}: {error}");
    }
    // A member that is cut off is not garbage.
    for bytes in [&second[..1], &second[..5], &second[..second.len() - 1]] {
        scratch.write("in.gz", [&first, bytes].concat());
        let error = init(&scratch, "tree_lstm", "@other", &["@in.gz"]);
        assert!(error.contains("expected the rest of the compressed data"), "{error}");
    }
}

#[test]
fn names_are_unique_and_not_empty() {
    let scratch = Scratch::new("names");
    scratch.write("tagged", "a|X b|Y\n");
    init(&scratch, "bilstm_tagger", "@tagger", &["@tagged"]);
    scratch.write("trees", "(p (n a) (n b))\n");
    init(&scratch, "tree_lstm", "@trees-model", &["@trees"]);
    for (dir, name) in [("tagger", "tags.txt"), ("trees-model", "classes.txt")] {
        for (text, expected) in [
            ("X\nX\n", ":2:1: expected a new name, got \"X\", which is on line 1 already"),
            ("X\n\n", ":2:1: expected a name, got an empty line"),
            ("\nX\n", ":1:1: expected a name, got an empty line"),
        ] {
            scratch.write(&format!("{dir}/{name}"), text);
            let error = scratch.error(&["infer", &format!("@{dir}")]);
            assert!(error.contains(&format!("{name}{expected}")), "{error}");
        }
    }
}
