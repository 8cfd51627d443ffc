//! Labels, empty lines and special words in text files: what is trained on, and what is an error.

use std::fs;

use serde_json::Value;

use crate::support::Scratch;

/// Runs `init` for small sizes, and returns its line on standard error.
fn init(scratch: &Scratch, model: &str, dir: &str, inputs: &[&str]) -> String {
    let words = ["init", model, dir, "--hidden", "4", "--input"];
    let message = scratch.run(&[&words[..], inputs].concat()).stderr;
    let message = String::from_utf8(message).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// Returns the loss, the number of terms and the number of instances of `gradients`. Checks that
/// the backends agree, and `evaluate`.
fn loss(scratch: &Scratch, files: &[&str]) -> (f64, u64, u64) {
    let gradients = ["gradients", "@model", "--output", "@g", "--stats", "@stats", "--backend"];
    let mut found = Vec::new();
    for backend in ["cpu", "interpret"] {
        scratch.ok(&[&gradients[..], &[backend], files].concat());
        let stats: Value =
            serde_json::from_slice(&fs::read(scratch.path("stats")).unwrap()).unwrap();
        let number = |key: &str| stats[key].as_u64().unwrap();
        found.push((stats["loss"].as_f64().unwrap(), number("terms"), number("instances")));
    }
    let [(loss, terms, instances), (reference, same_terms, same_instances)] = found[..] else {
        unreachable!("two backends")
    };
    assert_eq!((terms, instances), (same_terms, same_instances));
    assert!((loss - reference).abs() < 1e-5, "{loss} {reference}");
    let evaluated = scratch.ok(&[&["evaluate", "@model", "--metric", "loss"][..], files].concat());
    let evaluated: f64 = evaluated.trim_start_matches("loss: ").trim().parse().unwrap();
    assert!((loss - evaluated).abs() < 1e-4, "{loss} {evaluated}");
    (loss, terms, instances)
}

/// The pair of an empty source counts: its targets are those of its translation, and the end.
#[test]
fn an_empty_source_is_trained_with_its_targets() {
    let scratch = Scratch::new("empty-source");
    for (source, target, terms) in [
        ("a b\n\nb\n", "x\n\ny x\n", 2 + 1 + 3),
        ("a b\n \t \nb\n", "x\n  \ny x\n", 2 + 1 + 3),
        ("\na\n", "x y\n\n", 3 + 1),
        ("\n\nb a\n", "x\ny\n\n", 2 + 2 + 1),
    ] {
        scratch.write("source", source);
        scratch.write("target", target);
        init(&scratch, "lstm_nmt", "@model", &["@source", "@target"]);
        let files = ["--input", "@source", "--targets", "@target"];
        let lines = source.lines().count();
        let (_, got, instances) = loss(&scratch, &files);
        assert_eq!((got, instances), (terms, lines as u64), "{source:?}");
        let train = ["train", "@model", "--valid", "@source", "--test", "@source", "--epochs", "2"];
        scratch.ok(&[&train[..], &files, &["--batch", "1"]].concat());
        let results = scratch.ok(&["infer", "@model"]);
        let empty: Vec<bool> = source.lines().map(|line| line.trim().is_empty()).collect();
        let no_rows = results.lines().map(|line| line.contains("\"logits\": []"));
        assert_eq!(no_rows.collect::<Vec<_>>(), empty);
    }
}

/// Lines without words are inputs without rows in every command, except that trees have none.
#[test]
fn lines_without_words_are_the_same_in_every_command() {
    let scratch = Scratch::new("empty-lines");
    let lattice = r#"{"chars": ["a"], "words": [], "tags": ["X"]}"#;
    for (model, file, text) in [
        ("bilstm_tagger", "in", "\na|X b|Y\n  \n".to_string()),
        ("bilstm_tagger_char", "in", "\na|X b|Y\n  \n".to_string()),
        ("lattice_lstm", "in.jsonl", format!("\n{lattice}\n  \n")),
    ] {
        scratch.write(file, &text);
        let file = format!("@{file}");
        init(&scratch, model, "@model", &[&file]);
        let (_, _, instances) = loss(&scratch, &["--input", &file]);
        assert_eq!(instances, 3);
        let train = ["train", "@model", "--input", &file, "--valid", &file, "--epochs", "1"];
        scratch.ok(&[&train[..], &["--batch", "1"]].concat());
        let results = scratch.ok(&["infer", "@model", "--input", &file]);
        let no_rows = results.lines().map(|line| line.contains("\"logits\": []"));
        assert_eq!(no_rows.collect::<Vec<_>>(), [true, false, true]);
    }
    scratch.write("good", "(1 (0 a) (1 b))\n");
    for text in ["(1 a)\n\n", "(1 a)\n \t\n"] {
        scratch.write("bad", text);
        let column = text.lines().nth(1).unwrap().len() + 1;
        let expected = format!("bad:2:{column}: expected \"(\", got the end of the line");
        assert!(init(&scratch, "tree_lstm", "@none", &["@bad"]).contains(&expected));
        init(&scratch, "tree_lstm", "@model", &["@good"]);
        for words in [
            &["infer", "@model", "--input", "@bad"][..],
            &["evaluate", "@model", "--input", "@bad", "--metric", "loss"],
            &["gradients", "@model", "--input", "@bad", "--output", "@g"],
            &["train", "@model", "--input", "@bad", "--valid", "@good"],
            &["train", "@model", "--input", "@good", "--valid", "@bad"],
        ] {
            let error = scratch.error(words);
            assert!(error.contains(&expected), "{words:?}: {error}");
        }
    }
}

#[test]
fn the_ends_of_sentences_are_unknown_words_in_texts() {
    let scratch = Scratch::new("ends");
    scratch.write("source", "a <s> b </s> a\n");
    scratch.write("target", "x </s> y <s>\n");
    init(&scratch, "lstm_nmt", "@model", &["@source", "@target"]);
    let words = fs::read_to_string(scratch.path("model/tgt_vocab.txt")).unwrap();
    assert_eq!(words, "<unk>\n<s>\n</s>\nx\ny\n");
    let files = ["--input", "@source", "--targets", "@target"];
    let special = (loss(&scratch, &files), scratch.ok(&["infer", "@model"]));
    scratch.write("source", "a <unk> b new a\n");
    scratch.write("target", "x new y <unk>\n");
    assert_eq!((loss(&scratch, &files), scratch.ok(&["infer", "@model"])), special);
}
