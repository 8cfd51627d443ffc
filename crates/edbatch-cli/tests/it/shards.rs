//! `infer --shard` and `shards check|cat`: for any number of shards, the lines equal the lines of
//! one process.

use std::fs;

use edbatch_runtime::kernels::Level;
use edbatch_testing::names;

use crate::support::{MODELS, Scratch, gz};

/// Returns the arguments that run a shard of a corpus.
fn shard<'a>(inputs: &[&'a str], shard: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["infer", "@model", "--input"];
    words.extend(inputs);
    words.extend(["--shard", shard, "--output-dir", "@out"]);
    words.extend(more);
    words
}

/// Returns the output of `shards check` for an incomplete folder.
fn problems(scratch: &Scratch) -> String {
    let output = scratch.run(&["shards", "check", "@out"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let cat = scratch.run(&["shards", "cat", "@out"]);
    assert!(cat.status.code() == Some(1) && cat.stdout.is_empty(), "cat writes nothing");
    String::from_utf8(output.stdout).unwrap()
}

/// Covers division by files and by lines, more shards than lines, a file of several gzip members,
/// and a last line without a line end.
#[test]
fn shards_equal_the_lines_of_one_process() {
    for (model, file, text) in MODELS {
        let scratch = Scratch::new(&format!("shards-{model}"));
        scratch.init(model);
        scratch.write("b.gz", [gz(text.as_bytes()), gz(text.as_bytes())].concat());
        scratch.write("c.txt", text.trim_end());
        let inputs = [&*format!("@{file}"), "@b.gz", "@c.txt"];
        let whole = [&["infer", "@model", "--input"], &inputs[..]].concat();
        let expected = scratch.ok(&whole);
        assert_eq!(expected.lines().count(), 32);
        for of in [1, 2, 3, 4, 5, 40] {
            let _ = fs::remove_dir_all(scratch.path("out"));
            for number in (0..of).rev() {
                let number = format!("{number}/{of}");
                assert_eq!(scratch.ok(&shard(&inputs, &number, &["--batch", "3"])), "");
            }
            let check = scratch.ok(&["shards", "check", "@out"]);
            let sum = format!("{of} of {of} shards are done: 32 lines, 0 without results");
            assert_eq!(check.trim(), sum, "{model}");
            assert_eq!(scratch.ok(&["shards", "cat", "@out"]), expected, "{model}, {of} shards");
            assert_eq!(names(&scratch.path("out")).len(), 2 * of);
        }
    }
}

/// Every shard reads all of an arc file, because an input takes several lines.
#[test]
fn shards_of_arc_files_equal_the_lines_of_one_process() {
    let scratch = Scratch::new("shards-arcs");
    let text = "3\n3\n0 5 6\n0\n1 0 7\n2 1 8 0 40\n\n1\n0\n0\n2\n0 0\n0\n1 0 9\n";
    scratch.write("a.arcs.txt", text);
    scratch.write("b.arcs.txt.gz", gz(text.as_bytes()));
    scratch.ok(&["init", "lattice_lstm", "@model", "--hidden", "4", "--input", "@a.arcs.txt"]);
    let inputs = ["@a.arcs.txt", "@b.arcs.txt.gz"];
    let expected = scratch.ok(&["infer", "@model", "--input", inputs[0], inputs[1]]);
    assert_eq!(expected.lines().count(), 6);
    for of in [2, 3, 4] {
        for number in (0..of).rev() {
            scratch.ok(&shard(&inputs, &format!("{number}/{of}"), &[]));
        }
        assert_eq!(scratch.ok(&["shards", "cat", "@out"]), expected);
    }
}

#[test]
fn errors_are_recorded_with_their_positions() {
    let scratch = Scratch::new("shards-record");
    scratch.init("tree_lstm");
    scratch.write("bad.txt", b"(2 a)\n\n(2 \xe4)\n(2 (2 a) (2 b)\n(2 b)");
    for inputs in [&["@trees.txt", "@bad.txt"][..], &["@trees.txt", "@bad.txt", "@trees.txt"]] {
        let record = ["--on-error", "record"];
        let whole = [&["infer", "@model", "--input"], inputs, &record].concat();
        let expected = scratch.ok(&whole);
        assert!(expected.contains("{\"id\": 9, \"error\": ") && expected.contains("bad.txt:2:1: "));
        for number in ["0/3", "1/3", "2/3"] {
            scratch.ok(&shard(inputs, number, &record));
        }
        let check = scratch.ok(&["shards", "check", "@out"]);
        assert!(check.contains(" lines, 3 without results"), "{check}");
        assert_eq!(scratch.ok(&["shards", "cat", "@out"]), expected);
    }
    let error = scratch.error(&shard(&["@bad.txt"], "0/3", &[]));
    assert!(error.contains("bad.txt:4:15: expected \")\""), "{error}");
}

#[test]
fn a_completed_shard_is_not_run_again() {
    let scratch = Scratch::new("shards-again");
    scratch.init("tree_lstm");
    scratch.write("more.txt", MODELS[0].2);
    let said = |words: &[&str]| scratch.notice(words);
    for inputs in [&["@trees.txt"][..], &["@more.txt", "@trees.txt"]] {
        let words = shard(inputs, "1/2", &[]);
        let first = said(&words);
        assert!(first.starts_with("edbatch: shard 1/2: done in "), "{first}");
        let part = fs::metadata(scratch.path("out/part-00001.jsonl")).unwrap().modified().unwrap();
        let again = said(&words);
        assert!(again.starts_with("edbatch: shard 1/2: already done: "), "{again}");
        assert!(again.contains(" lines, 0 without results"), "{again}");
        let after = fs::metadata(scratch.path("out/part-00001.jsonl")).unwrap().modified().unwrap();
        assert_eq!(part, after);
    }
    // The part, the inputs, the number of shards or the arithmetic no longer matches the mark.
    let words = shard(&["@more.txt", "@trees.txt"], "1/2", &[]);
    scratch.write("out/part-00001.jsonl", "{}\n");
    assert!(said(&words).contains("(run again: the part has 3 bytes"));
    fs::remove_file(scratch.path("out/part-00001.jsonl")).unwrap();
    assert!(said(&words).contains("(run again: cannot read the part"));
    scratch.write("trees.txt", MODELS[0].2.replacen("(2 ", "(1 ", 1));
    assert!(said(&words).contains("(run again: the inputs have changed)"));
    let words = shard(&["@more.txt", "@trees.txt"], "1/3", &[]);
    assert!(said(&words).contains("(run again: there were 2 shards)"));
    let words = [&words[..], &["--backend", "interpret"]].concat();
    assert!(said(&words).contains("(run again: the arithmetic was "));
    let words = shard(&["@more.txt", "@trees.txt"], "1/3", &["--precision", "bf16"]);
    assert!(said(&words).contains("(run again: the arithmetic was interpret"));
    let mark = scratch.text("out/part-00001.done");
    let portable = if Level::detect() == Level::Portable { ", portable" } else { "" };
    assert!(mark.contains(&format!("\"arithmetic\":\"bf16{portable}\"")), "{mark}");
    scratch.write("out/part-00001.done", "no mark");
    assert!(said(&words).contains("(run again: not a valid shard mark: "));
}

/// A file that grows changes the numbers of the inputs in later files.
#[test]
fn inputs_that_change_between_shards_are_detected() {
    let scratch = Scratch::new("shards-changed");
    scratch.init("tree_lstm");
    scratch.write("more.txt", MODELS[0].2);
    let files = ["@more.txt", "@trees.txt"];
    let lines = ["@more.txt"];
    for (inputs, found) in [(&files[..], "do not continue"), (&lines[..], "has the inputs ")] {
        let run = |number| scratch.ok(&shard(inputs, number, &[]));
        scratch.write("more.txt", MODELS[0].2);
        run("1/2");
        scratch.write("more.txt", format!("(2 a)\n{}", MODELS[0].2));
        run("0/2");
        let got = problems(&scratch);
        assert!(got.contains(found) && got.contains("1 of 2 shards"), "{got}");
        run("0/2");
        run("1/2");
        let expected = scratch.ok(&[&["infer", "@model", "--input"], inputs].concat());
        assert_eq!(scratch.ok(&["shards", "cat", "@out"]), expected);
    }
}

#[test]
fn a_model_that_changes_between_shards_is_detected() {
    let scratch = Scratch::new("shards-model");
    scratch.init("tree_lstm");
    let run = |number| drop(scratch.ok(&shard(&["@trees.txt"], number, &[])));
    ["0/3", "1/3"].into_iter().for_each(run);
    let words = ["init", "tree_lstm", "@model", "--hidden", "8", "--embed", "6"];
    scratch.ok(&[&words[..], &["--input", "@trees.txt", "--seed", "1"]].concat());
    run("2/3");
    let got = problems(&scratch);
    assert!(got.contains("shard 2: has the model ") && got.contains("2 of 3 shards"), "{got}");
    ["0/3", "1/3", "2/3"].into_iter().for_each(run);
    let expected = scratch.ok(&["infer", "@model"]);
    assert_eq!(scratch.ok(&["shards", "cat", "@out"]), expected);
}

#[test]
fn missing_shards_are_listed() {
    let scratch = Scratch::new("shards-missing");
    scratch.init("tree_lstm");
    let error = scratch.error(&["shards", "check", "@out"]);
    assert!(error.contains("out: expected a readable file"), "{error}");
    fs::create_dir(scratch.path("out")).unwrap();
    let error = scratch.error(&["shards", "cat", "@out"]);
    assert!(error.contains("expected the marks of shards"), "{error}");
    for number in ["0/9", "3/9", "7/9"] {
        scratch.ok(&shard(&["@trees.txt"], number, &[]));
    }
    scratch.write("out/part-00003.jsonl", scratch.bytes("out/part-00007.jsonl"));
    scratch.write("out/part-00007.done", scratch.bytes("out/part-00000.done"));
    let got = problems(&scratch);
    let lines: Vec<&str> = got.lines().collect();
    assert_eq!(lines[0], "shards 1 to 2: not done");
    assert!(lines[1].starts_with("shard 3: the part has "), "{got}");
    assert_eq!(lines[2], "shards 4 to 6: not done");
    assert_eq!(lines[3], "shard 7: the mark belongs to shard 0");
    assert_eq!(lines[4], "shard 8: not done");
    assert_eq!(lines[5], "1 of 9 shards are done: 1 lines, 0 without results");
}

/// The mark contains the checksum of the input file on disk.
#[test]
fn checksums_in_marks_equal_sha256sum() {
    let scratch = Scratch::new("shards-sums");
    scratch.init("tree_lstm");
    scratch.write("t.gz", gz(MODELS[0].2.as_bytes()));
    scratch.ok(&shard(&["@t.gz"], "1/2", &[]));
    let mark = scratch.json("out/part-00001.done");
    for (what, file) in [("input", "t.gz"), ("output", "out/part-00001.jsonl")] {
        let mut command = std::process::Command::new("sha256sum");
        let Ok(output) = command.arg(scratch.path(file)).output() else {
            return edbatch_testing::skip("sha256sum is not installed");
        };
        let sum = String::from_utf8(output.stdout).unwrap();
        assert_eq!(mark[what].as_str(), sum.split(' ').next());
    }
    assert_eq!((&mark["lines"], &mark["failed"]), (&4.into(), &0.into()));
}
