//! Classes by number and by name, from `init` to `infer --indices`.

use serde_json::Value;

use crate::support::Scratch;

const TREES: &str = "(pos (neu a) (pos (neu b) (pos c)))\n(neg (neu a) (neg d))\n(_ (_ a) (_ b))\n";

/// The same classes as numbers of their first occurrence in post-order: neu, pos, neg.
const NUMBERED: &str = "(1 (0 a) (1 (0 b) (1 c)))\n(2 (0 a) (2 d))\n(_ (_ a) (_ b))\n";

const LATTICES: &str = r#"{"chars": ["a", "b"], "words": [[0, 1, "ab"]], "tags": ["B", "I"]}
{"chars": ["b"], "words": [], "tags": ["O"]}
{"chars": ["b", "a"], "words": [], "labels": [2, null]}
"#;

/// Runs `init`, and returns its notice.
fn init(scratch: &Scratch, model: &str, dir: &str, input: &str) -> String {
    scratch.notice(&["init", model, dir, "--hidden", "8", "--input", input])
}

/// Trains, evaluates and runs a model.
fn train(scratch: &Scratch, dir: &str, input: &str) -> (String, String, Vec<u8>) {
    let out = format!("{dir}-trained");
    let words = ["train", dir, "--input", input, "--valid", input, "--output", &out];
    scratch.ok(&[&words[..], &["--rate", "0.05", "--epochs", "60", "--threads", "1"]].concat());
    let metrics = ["--metric", "accuracy", "--metric", "loss"];
    let metrics = scratch.ok(&[&["evaluate", &out, "--input", input], &metrics[..]].concat());
    let words = ["gradients", &out, "--input", input, "--output", "@g.safetensors"];
    scratch.ok(&words);
    let indices = scratch.ok(&["infer", &out, "--input", input, "--indices"]);
    (metrics, indices, scratch.bytes("g.safetensors"))
}

#[test]
fn names_of_classes_give_the_results_of_their_numbers() {
    let scratch = Scratch::new("classes");
    scratch.write("named.txt", TREES);
    scratch.write("numbered.txt", NUMBERED);
    let notice = init(&scratch, "tree_lstm", "@named", "@named.txt");
    assert_eq!(notice, "edbatch: 3 classes, named in classes.txt, 4 words\n");
    let notice = init(&scratch, "tree_lstm", "@numbered", "@numbered.txt");
    assert_eq!(notice, "edbatch: 3 classes, 4 words\n");
    let text = scratch.text("named/classes.txt");
    assert_eq!(text, "neu\npos\nneg\n");
    assert!(!scratch.path("numbered/classes.txt").exists());

    let (metrics, named, gradients) = train(&scratch, "@named", "@named.txt");
    assert!(metrics.starts_with("accuracy: 1.0000\nloss: "), "{metrics}");
    let copied = scratch.text("named-trained/classes.txt");
    assert_eq!(copied, text);
    let first: Value = serde_json::from_str(named.lines().next().unwrap()).unwrap();
    assert_eq!(first["classes"], serde_json::json!(["neu", "neu", "pos", "pos", "pos"]));
    let (of_numbers, numbered, same) = train(&scratch, "@numbered", "@numbered.txt");
    assert_eq!((metrics, gradients), (of_numbers, same));
    let mut renamed = named;
    for (class, name) in text.lines().enumerate() {
        renamed = renamed.replace(&format!("\"{name}\""), &class.to_string());
    }
    assert_eq!(renamed, numbered);

    // Call lists have the numbers.
    scratch.ok(&["export", "@named", "@network", "--input", "@named.txt"]);
    let calls = scratch.text("network/calls.jsonl");
    let targets = |line: &str| serde_json::from_str::<Value>(line).unwrap()["targets"].clone();
    let targets: Vec<Value> = calls.lines().map(targets).collect();
    let expected = [serde_json::json!([0, 0, 1, 1, 1]), serde_json::json!([0, 2, 2]), Value::Null];
    assert_eq!(targets, expected);
}

#[test]
fn lattices_have_tags_or_numbers() {
    let scratch = Scratch::new("classes-lattices");
    scratch.write("in.jsonl", LATTICES);
    let notice = init(&scratch, "lattice_lstm", "@model", "@in.jsonl");
    assert_eq!(notice, "edbatch: 3 classes, named in classes.txt, 2 characters, 1 words\n");
    let (metrics, indices, _) = train(&scratch, "@model", "@in.jsonl");
    assert!(metrics.starts_with("accuracy: 1.0000\n"), "{metrics}");
    let classes: Vec<Value> = indices.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(classes[0]["classes"], serde_json::json!(["B", "I"]));
    assert_eq!(classes[2]["classes"][0], "O");

    // Numbers in arc files, which begin with the label of state 0, are class numbers.
    scratch.write("in.arcs.txt", "2\n3\n9 0 1\n0\n1 0 1\n1 1 2\n2\n9 2\n0\n1 0 1\n");
    let notice = init(&scratch, "lattice_lstm", "@arcs", "@in.arcs.txt");
    assert_eq!(notice, "edbatch: 3 classes, 2 characters, 0 words\n");
    let (metrics, ..) = train(&scratch, "@arcs", "@in.arcs.txt");
    assert!(metrics.starts_with("accuracy: "), "{metrics}");
    scratch.write("in.jsonl", LATTICES.replace("[2, null]", "[3, null]"));
    let words = ["init", "lattice_gru", "@other", "--hidden", "8", "--input", "@in.jsonl"];
    let error = scratch.error(&words);
    assert!(error.contains("expected \"labels\" below 3, the number of distinct"), "{error}");
}

#[test]
fn labels_of_no_class_are_errors_at_the_label() {
    let scratch = Scratch::new("classes-errors");
    let expect = |dir: &str, file: &str, text: &str, expected: &str| {
        let input = scratch.write(file, text);
        let words = ["evaluate", dir, "--input", input.to_str().unwrap(), "--metric", "loss"];
        let error = scratch.error(&words);
        assert!(error.contains(&format!("{file}:{expected}")), "{error}");
    };
    scratch.write("named.txt", TREES);
    init(&scratch, "tree_lstm", "@named", "@named.txt");
    let text = "(neu a)\n(neg (neu ü) (bad d))\n";
    expect("@named", "bad.txt", text, "2:15: expected a class of classes.txt, got \"bad\"");
    expect("@named", "one.txt", "(1 a)\n", "1:2: expected a class of classes.txt, got \"1\"");
    scratch.write("numbered.txt", NUMBERED);
    init(&scratch, "tree_lstm", "@numbered", "@numbered.txt");
    for (label, class) in [
        ("3", "a class below 3"),
        ("neg", "a class below 3"),
        ("-2", "a class number, or -1 for no class"),
    ] {
        let text = format!("(0 (0 a) ({label} d))\n");
        let expected = format!("1:11: expected {class}, got \"{label}\"");
        expect("@numbered", "bad.txt", &text, &expected);
    }
    scratch.write("in.jsonl", LATTICES);
    init(&scratch, "lattice_lstm", "@lattices", "@in.jsonl");
    let text = "{\"chars\": [\"a\"], \"words\": [], \"tags\": [\"X\"]}\n";
    expect("@lattices", "bad.jsonl", text, "1:40: expected a class of classes.txt, got \"X\"");
    let text = "\n{\"chars\": [\"a\"], \"words\": [], \"labels\": [3]}\n";
    expect("@lattices", "bad.jsonl", text, "2:42: expected a class below 3, got 3");
    scratch.write("in.arcs.txt", "1\n3\n9 0 1\n0\n1 0 1\n1 1 2\n");
    init(&scratch, "lattice_lstm", "@arcs", "@in.arcs.txt");
    let text = "1\n3\n9 0 5\n0\n1 0 1\n1 1 2\n";
    expect("@arcs", "bad.arcs.txt", text, "3:5: expected a class below 2, got \"5\"");
    scratch.write("tagged.txt", "a|X b\n");
    init(&scratch, "bilstm_tagger", "@tagger", "@tagged.txt");
    expect("@tagger", "bad.txt", "b\nü a|Y\n", "2:5: expected a tag of tags.txt, got \"Y\"");
}

/// The checkpoint and the mark of a shard know the names of classes, and `init` removes what no
/// longer fits.
#[test]
fn other_names_are_another_model() {
    let scratch = Scratch::new("classes-other");
    scratch.write("named.txt", TREES);
    init(&scratch, "tree_lstm", "@model", "@named.txt");
    let train = ["train", "@model", "--input", "@named.txt", "--valid", "@named.txt"];
    scratch.ok(&[&train[..], &["--epochs", "1"]].concat());
    let shard = ["infer", "@model", "--indices", "--shard", "0/1", "--output-dir", "@out"];
    let said = |words: &[&str]| String::from_utf8(scratch.run(words).stderr).unwrap();
    assert!(said(&shard).contains("done in"));
    assert!(said(&shard).contains("already done"));
    scratch.write("model/classes.txt", "neu\nneg\npos\n");
    assert!(said(&shard).contains("the model has changed"));
    let error = scratch.error(&[&train[..], &["--resume"]].concat());
    assert!(error.contains("the contents of classes.txt have changed since the run"), "{error}");
    scratch.write("numbered.txt", NUMBERED);
    init(&scratch, "tree_lstm", "@model", "@numbered.txt");
    for name in ["classes.txt", "checkpoint.safetensors"] {
        assert!(!scratch.path("model").join(name).exists(), "{name}");
    }
}
