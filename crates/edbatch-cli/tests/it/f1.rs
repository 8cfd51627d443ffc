//! F1 of `edbatch evaluate` and `edbatch train`, counted as conlleval does.

use crate::support::Scratch;

/// Creates a tagger of `tags.txt`, whose output is `tag` for every word.
fn constant_tagger(scratch: &Scratch, tagged: &str, tag: &str) {
    scratch.write("tagged.txt", tagged);
    let words = ["init", "bilstm_tagger", "@model", "--hidden", "4", "--input", "@tagged.txt"];
    scratch.ok(&words);
    let tags = scratch.text("model/tags.txt");
    let chosen = tags.lines().position(|line| line == tag).unwrap();
    let count = tags.lines().count();
    // All other weights are 0. The bias of the scores is the last tensor with a value per tag.
    let mut sizes = std::collections::BTreeMap::<String, usize>::new();
    scratch.change_weights(|name, index, _| {
        sizes.entry(name.into()).and_modify(|size| *size = index + 1).or_insert(1);
    });
    let biases: Vec<&String> = sizes
        .iter()
        .filter(|(name, size)| **size == count && name.contains("out"))
        .map(|it| it.0)
        .collect();
    assert_eq!(biases.len(), 1, "{sizes:?}");
    scratch.change_weights(|name, index, value| {
        *value = f32::from(u8::from(name == biases[0] && index == chosen));
    });
}

fn f1(scratch: &Scratch, input: &str) -> String {
    scratch.ok(&["evaluate", "@model", "--input", input, "--metric", "f1"])
}

#[test]
fn notations_with_other_prefixes_have_the_f1_of_conlleval() {
    for (tagged, tag, expected) in [
        // Three chunks are expected, and four are found; two of them are equal.
        ("a|U-LOC\nb|U-LOC\nc|B-PER d|L-PER\n", "U-LOC", 0.5714),
        ("a|U-LOC b|U-LOC\n", "U-LOC", 1.0),
        ("a|W-LOC b|W-LOC\n", "W-LOC", 1.0),
        ("a|B-PER b|M-PER c|E-PER\n", "B-PER", 0.0),
        ("a|B-ORG b|M-ORG c|M-ORG d|E-ORG\n", "M-ORG", 1.0),
        ("a|X-ORG b|X-ORG c|L-ORG\n", "I-ORG", 1.0),
    ] {
        let scratch = Scratch::new("f1");
        // The tag is in a line of its own, which is not evaluated.
        scratch.write("evaluated.txt", tagged);
        constant_tagger(&scratch, &format!("{tagged}a|{tag}\n"), tag);
        assert_eq!(f1(&scratch, "@evaluated.txt"), format!("f1: {expected:.4}\n"), "{tagged}");
    }
    let scratch = Scratch::new("f1-help");
    for command in ["evaluate", "train"] {
        let help = scratch.ok(&[command, "--help"]);
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("L- counts as E-, U- and W- as S-, M- and any other"), "{help}");
    }
}

#[test]
fn lattices_have_the_f1_of_their_classes() {
    let scratch = Scratch::new("f1-lattices");
    let line =
        |chars: &str, tags: &str| format!("{{\"chars\":{chars},\"words\":[],\"tags\":{tags}}}\n");
    let first = line("[\"a\",\"b\"]", "[\"B-PER\",\"M-PER\"]");
    let lattices = [first, line("[\"c\",\"d\"]", "[\"O\",\"S-PER\"]")].concat();
    scratch.write("in.jsonl", &lattices);
    scratch.ok(&["init", "lattice_lstm", "@model", "--hidden", "4", "--input", "@in.jsonl"]);
    let train = ["train", "@model", "--input", "@in.jsonl", "--valid", "@in.jsonl"];
    let options = ["--metric", "f1", "--rate", "0.1", "--epochs", "60", "--patience", "20"];
    let text = scratch.ok(&[&train[..], &options].concat());
    assert!(text.contains("best f1 1.0000 in epoch "), "{text}");
    assert_eq!(f1(&scratch, "@in.jsonl"), "f1: 1.0000\n");
    // A character without a target is part of no chunk.
    scratch.write(
        "labels.jsonl",
        lattices.replace("\"tags\":[\"O\"", "\"labels\":[null").replace("\"S-PER\"]", "3]"),
    );
    assert_eq!(f1(&scratch, "@labels.jsonl"), "f1: 1.0000\n");
}

#[test]
fn models_without_tags_have_no_f1() {
    let scratch = Scratch::new("f1-none");
    let refused = |words: &[&str]| {
        let error =
            scratch.error_of_usage(&[&["evaluate", "@model", "--metric", "f1"], words].concat());
        assert!(error.contains("--metric f1 needs a tagger, or lattices whose"), "{error}");
        assert!(error.contains("use --metric accuracy"), "{error}");
    };
    for (classes, file) in [(["pos", "neg"], "named.jsonl"), (["0", "1"], "numbers.jsonl")] {
        let tags = classes.map(|class| format!("{class:?}")).join(",");
        let text = format!("{{\"chars\":[\"a\",\"b\"],\"words\":[],\"tags\":[{tags}]}}\n");
        let text = if classes[0] == "0" {
            text.replace("tags", "labels").replace("\"0\",\"1\"", "0,1")
        } else {
            text
        };
        scratch.write(file, text);
        let input = format!("@{file}");
        let _ = std::fs::remove_dir_all(scratch.path("model"));
        scratch.ok(&["init", "lattice_gru", "@model", "--hidden", "4", "--input", &input]);
        refused(&["--input", &input]);
    }
    scratch.write("words.txt", "a|NOUN b|VERB\n");
    scratch.ok(&["init", "bilstm_tagger", "@model", "--hidden", "4", "--input", "@words.txt"]);
    refused(&["--input", "@words.txt"]);
    let trees = Scratch::new("f1-trees");
    trees.write("trees.txt", "(B-X (O a) (I-X b))\n");
    trees.ok(&["init", "tree_lstm", "@model", "--hidden", "4", "--input", "@trees.txt"]);
    let words = ["evaluate", "@model", "--metric", "f1", "--input", "@trees.txt"];
    let error = trees.error_of_usage(&words);
    assert!(error.contains("--metric f1 needs a tagger"), "{error}");
}
