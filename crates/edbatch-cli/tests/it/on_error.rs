//! `infer --on-error record`: an invalid line becomes a line with its error, and other lines do not
//! change.

use crate::support::{Scratch, gz};

/// An invalid line does not change the bytes of other lines, for any mini-batch size and backend.
#[test]
fn an_invalid_line_is_recorded_and_others_do_not_change() {
    for model in ["tree_lstm", "tree_lstm_2type"] {
        let scratch = Scratch::new(&format!("record-{model}"));
        scratch.init(model);
        let trees = scratch.text("trees.txt");
        let mut bad: Vec<&[u8]> = trees.lines().map(str::as_bytes).collect();
        (bad[0], bad[4], bad[6]) = (b"", b"(2 (2 a) (2 b)", b"(2 \xe4)");
        let bad = bad.join(&b'\n');
        scratch.write("bad.txt", &bad);
        scratch.write("bad.txt.gz", gz(&bad));
        let stopped = scratch.error(&["infer", "@model", "--input", "@bad.txt"]);
        assert!(stopped.contains("bad.txt:1:1: expected \"(\""), "{stopped}");
        for backend in ["cpu", "interpret"] {
            let words = ["infer", "@model", "--backend", backend];
            let expected = scratch.ok(&words);
            for (file, batch, threads) in
                [("@bad.txt", "64", "1"), ("@bad.txt", "3", "2"), ("@bad.txt.gz", "1", "1")]
            {
                let more = ["--input", file, "--on-error", "record"];
                let more = [&more[..], &["--batch", batch, "--threads", threads]].concat();
                let got = scratch.ok(&[&words[..], &more].concat());
                assert_eq!(got.lines().count(), expected.lines().count());
                for (id, (got, expected)) in got.lines().zip(expected.lines()).enumerate() {
                    if ![0, 4, 6].contains(&id) {
                        assert_eq!(got, expected, "{model}, {backend}, mini-batches of {batch}");
                        continue;
                    }
                    let line: serde_json::Value = serde_json::from_str(got).unwrap();
                    assert_eq!(line["id"], id);
                    let error = line["error"].as_str().unwrap();
                    let place = format!(":{}:", id + 1);
                    assert!(error.contains(&place) && error.contains("expected"), "{error}");
                    assert_eq!(line.as_object().unwrap().len(), 2);
                }
            }
        }
        let run = scratch.run(&["infer", "@model", "--input", "@bad.txt", "--on-error", "record"]);
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(said.contains("3 of 8 inputs failed"), "{said}");
    }
}

/// The missing lines of a truncated file cannot be recorded.
#[test]
fn a_truncated_file_ends_the_run() {
    let scratch = Scratch::new("record-cut");
    scratch.init("tree_lstm");
    let trees = scratch.text("trees.txt");
    let whole = gz(trees.repeat(50).as_bytes());
    scratch.write("cut.gz", &whole[..whole.len() / 2]);
    let words = ["infer", "@model", "--input", "@cut.gz", "--on-error", "record"];
    let error = scratch.error(&words);
    assert!(error.contains("expected the rest of the compressed data"), "{error}");
}

/// If a whole mini-batch fails, every input has a line with the error.
#[test]
fn a_mini_batch_over_the_memory_limit_is_recorded() {
    let scratch = Scratch::new("record-refused");
    scratch.init("tree_lstm");
    let words = ["infer", "@model", "--memory", "1", "--on-error", "record"];
    let got = scratch.ok(&words);
    assert_eq!(got.lines().count(), 8);
    assert!(got.lines().all(|line| line.contains("the weights alone need ")), "{got}");
}
