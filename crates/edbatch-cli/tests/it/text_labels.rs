//! Labels, empty lines and special words in text files: what is trained on, and what is an error.

use crate::support::{Scratch, init};

/// Returns the loss, the number of terms and the number of instances of `gradients`. Checks that
/// the backends agree, and `evaluate`.
fn loss(scratch: &Scratch, files: &[&str]) -> (f64, u64, u64) {
    let gradients = ["gradients", "@model", "--output", "@g", "--stats", "@stats", "--backend"];
    let mut found = Vec::new();
    for backend in ["cpu", "interpret"] {
        scratch.ok(&[&gradients[..], &[backend], files].concat());
        let stats = scratch.json("stats");
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

#[test]
fn minus_one_among_numbers_means_no_class() {
    let scratch = Scratch::new("minus-one");
    scratch.write("in", "(1 (-1 a) (0 b))\n(-1 (-1 a) (1 c))\n");
    let notice = init(&scratch, "tree_lstm", "@model", &["@in"]);
    assert_eq!(notice, "edbatch: 2 classes, 3 words; 3 labels are -1, which means no class\n");
    assert!(!scratch.path("model/classes.txt").exists());
    let minus = loss(&scratch, &["--input", "@in"]);
    scratch.write("in", "(1 (_ a) (0 b))\n(_ (_ a) (1 c))\n");
    assert_eq!(loss(&scratch, &["--input", "@in"]), minus);
    assert_eq!((minus.1, minus.2), (3, 2));

    let labels = r#"{"chars": ["a", "b"], "words": [], "labels": [1, -1]}"#;
    let tags = r#"{"chars": ["a", "b"], "words": [], "tags": ["0", "-1"]}"#;
    scratch.write("in.jsonl", format!("{labels}\n{tags}\n"));
    let notice = init(&scratch, "lattice_lstm", "@model", &["@in.jsonl"]);
    let expected = "2 classes, 2 characters, 0 words; 2 labels are -1, which means no class\n";
    assert_eq!(notice, format!("edbatch: {expected}"));
    assert_eq!(loss(&scratch, &["--input", "@in.jsonl"]).1, 2);

    scratch.write("in.arcs.txt", "1\n4\n-7 -1 1 -1\n0\n1 0 1\n1 1 2\n1 2 1\n");
    let notice = init(&scratch, "lattice_gru", "@model", &["@in.arcs.txt"]);
    assert_eq!(notice, format!("edbatch: {expected}"));
    assert_eq!(loss(&scratch, &["--input", "@in.arcs.txt"]).1, 1);
    scratch.write("all", "(-1 a)\n");
    let error = init(&scratch, "tree_lstm", "@model", &["@all"]);
    assert!(error.contains("all: expected labels, got none"), "{error}");
}

#[test]
fn other_negative_numbers_are_errors() {
    let scratch = Scratch::new("negative");
    let expected = "expected a class number, or -1 for no class, got ";
    let tags = r#"{"chars": ["a", "b"], "words": [], "tags": ["0", "-2"]}"#;
    let labels = r#"{"chars": ["a", "b"], "words": [], "labels": [0, -2]}"#;
    for (model, file, text, place) in [
        ("tree_lstm", "bad", "(1 (0 a) (0 b))\n(1 (-1 ü) (-2 b))\n", "2:12"),
        ("lattice_lstm", "bad.jsonl", labels, "1:50"),
        ("lattice_lstm", "bad.jsonl", tags, "1:50"),
        ("lattice_gru", "bad.arcs.txt", "1\n3\n0 1 -2\n0\n1 0 1\n1 1 2\n", "3:5"),
    ] {
        scratch.write(file, text);
        let error = init(&scratch, model, "@bad-model", &[&format!("@{file}")]);
        assert!(error.contains(&format!("{file}:{place}: {expected}")), "{text}: {error}");
        assert!(error.contains("-2"), "{error}");
        assert!(!scratch.path("bad-model").exists());
        // The same in a file for a model that was made from another one.
        scratch.write(&format!("good-{file}"), text.replace("-2", "1"));
        init(&scratch, model, "@model", &[&format!("@good-{file}")]);
        let input = format!("@{file}");
        let error = scratch.error(&["evaluate", "@model", "--metric", "loss", "--input", &input]);
        assert!(error.contains(&format!("{file}:{place}: {expected}")), "{text}: {error}");
    }
}

#[test]
fn negative_numbers_of_any_form_are_errors() {
    let scratch = Scratch::new("negative-forms");
    for label in ["-2", "-01", "-0", "-1.0", "-1e3", "-99999999999999999999"] {
        scratch.write("bad", format!("({label} (0 a) (1 b))\n"));
        let error = init(&scratch, "tree_lstm", "@model", &["@bad"]);
        assert!(error.contains("bad:1:2: expected a class number, or -1"), "{label}: {error}");
    }
}

#[test]
fn minus_one_among_names_is_a_name() {
    let scratch = Scratch::new("minus-name");
    scratch.write("in", "(pos (-1 a) (-2 b))\n");
    let notice = init(&scratch, "tree_lstm", "@model", &["@in"]);
    assert_eq!(notice, "edbatch: 3 classes, named in classes.txt, 2 words\n");
    assert_eq!(scratch.text("model/classes.txt"), "-1\n-2\npos\n");
    assert_eq!(loss(&scratch, &["--input", "@in"]).1, 3);
    scratch.write("tagged", "a|-1 b|0\n");
    init(&scratch, "bilstm_tagger", "@model", &["@tagged"]);
    assert_eq!(scratch.text("model/tags.txt"), "-1\n0\n");
}

#[test]
fn numbers_far_beyond_the_size_of_a_file_are_refused() {
    let scratch = Scratch::new("vast");
    let expected = "expected a number up to 65535, the limit for files of this size, got ";
    for (text, place, number) in [
        ("1\n2\n0 1\n0\n1 0 4294967295\n", "5:5", "4294967295"),
        ("1\n3\n0 1 0\n0\n1 0 1\n2 1 2 0 65536\n", "6:9", "65536"),
    ] {
        scratch.write("x.arcs.txt", text);
        let error = init(&scratch, "lattice_gru", "@model", &["@x.arcs.txt"]);
        let expected = format!("x.arcs.txt:{place}: {expected}\"{number}\"");
        assert!(error.contains(&expected), "{error}");
    }
    scratch.write("x.arcs.txt", "1\n3\n0 1 0\n0\n1 0 1\n2 1 2 0 65535\n");
    init(&scratch, "lattice_gru", "@model", &["@x.arcs.txt"]);
    let words = scratch.text("model/words.txt");
    assert_eq!(words.lines().count(), 65_536);
    // Without a vocabulary for them, such numbers are unknown.
    scratch.write("y.arcs.txt", "1\n2\n0 1\n0\n1 0 4294967295\n");
    scratch.ok(&["infer", "@model", "--input", "@y.arcs.txt"]);
    // A larger file may have larger numbers.
    let arcs: String = (0..20_000).map(|state| format!("1 {state} 1\n")).collect();
    let labels = "0 ".repeat(20_002);
    scratch.write("x.arcs.txt", format!("1\n20002\n{labels}\n0\n{arcs}1 20000 80000\n"));
    let notice = init(&scratch, "lattice_gru", "@model", &["@x.arcs.txt"]);
    assert_eq!(notice, "edbatch: 1 classes, 80000 characters, 0 words\n");
}

/// The pair of an empty source counts: its targets are the words of its translation, and the end.
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
    let words = scratch.text("model/tgt_vocab.txt");
    assert_eq!(words, "<unk>\n<s>\n</s>\nx\ny\n");
    let files = ["--input", "@source", "--targets", "@target"];
    let special = (loss(&scratch, &files), scratch.ok(&["infer", "@model"]));
    scratch.write("source", "a <unk> b new a\n");
    scratch.write("target", "x new y <unk>\n");
    assert_eq!((loss(&scratch, &files), scratch.ok(&["infer", "@model"])), special);
}

/// Errors of data that a model was not made for say how to go on.
#[test]
fn errors_say_how_to_go_on() {
    let scratch = Scratch::new("advice");
    let advice = "create a model that has it by giving all files to `edbatch init --input`";
    for (model, text, bad, expected) in [
        ("bilstm_tagger", "a|X\n", "ü|Y\n", "1:3: expected a tag of tags.txt, got \"Y\": "),
        ("tree_lstm", "(p a)\n", "(q a)\n", "1:2: expected a class of classes.txt, got \"q\": "),
        ("tree_lstm", "(0 a)\n", "(1 a)\n", "1:2: expected a class below 1, got \"1\": "),
    ] {
        scratch.write("in", text);
        scratch.write("bad", bad);
        init(&scratch, model, "@model", &["@in"]);
        let error = scratch.error(&["evaluate", "@model", "--input", "@bad", "--metric", "loss"]);
        assert!(error.contains(&format!("bad:{expected}{advice}")), "{error}");
    }
    scratch.write("bad", "(0 (0 a))\n(0 a)\n");
    let expected = "bad:1:9: expected a second child (join a node that has one child with it), got";
    for words in [
        &["evaluate", "@model", "--input", "@bad", "--metric", "loss"][..],
        &["train", "@model", "--input", "@bad", "--valid", "@bad"],
        &["infer", "@model", "--input", "@bad"],
    ] {
        assert!(scratch.error(words).contains(expected));
    }
    let record = ["infer", "@model", "--input", "@bad", "--on-error", "record"];
    let results = scratch.ok(&record);
    assert!(
        results.contains("{\"id\": 0, \"error\": ") && results.contains("{\"id\": 1, \"logits\"")
    );
}
