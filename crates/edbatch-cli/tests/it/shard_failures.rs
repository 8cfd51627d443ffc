//! Shards with a full disk or missing inputs, killed shards, and shards that run twice at the same
//! time: a clear error or the same results, and never a wrong line.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use edbatch_testing::names;

use crate::support::{MODELS, Scratch};

/// Creates a model, and the file `many.txt` with `times` copies of the trees.
fn many(test: &str, times: usize) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.init("tree_lstm");
    scratch.write("many.txt", MODELS[0].2.repeat(times));
    scratch
}

fn shard(number: &str) -> [&str; 8] {
    ["infer", "@model", "--input", "@many.txt", "--shard", number, "--output-dir", "@out"]
}

/// Runs a shell script in the folder. In it, `INFER` stands for the command that runs the shard.
fn shell(scratch: &Scratch, script: &str, number: &str) -> Output {
    let infer = r#""$0" infer model --input many.txt --shard "$1" --output-dir out"#;
    let mut command = Command::new("sh");
    command.args(["-c", &script.replace("INFER", infer), env!("CARGO_BIN_EXE_edbatch"), number]);
    command.current_dir(&scratch.0).output().unwrap()
}

fn spawn(scratch: &Scratch, number: &str) -> Child {
    scratch.command(&shard(number)).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs the shards and compares their lines with the lines of one process.
fn finish(scratch: &Scratch, shards: &[&str]) {
    shards.iter().for_each(|number| drop(scratch.ok(&shard(number))));
    scratch.ok(&["shards", "check", "@out"]);
    assert!(
        names(&scratch.path("out")).iter().all(|name| name.starts_with("part-")),
        "{:?}",
        names(&scratch.path("out"))
    );
    let expected = scratch.ok(&["infer", "@model", "--input", "@many.txt"]);
    assert_eq!(scratch.ok(&["shards", "cat", "@out"]), expected);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let scratch = many("shards-disk", 400);
    fs::create_dir(scratch.path("out")).unwrap();
    let mount = "mount -t tmpfs -o size=64k none out";
    let mut probe = Command::new("unshare");
    probe.args(["-m", "sh", "-c", mount]).current_dir(&scratch.0);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        return edbatch_testing::skip("cannot mount a tmpfs");
    }
    let inside = format!("{mount} && {{ INFER; code=$?; ls -A out; exit $code; }}");
    let output = shell(&scratch, &format!("unshare -m sh -c '{inside}' \"$0\" \"$1\""), "0/2");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = "out/part-00000.jsonl: cannot be written: No space left on device";
    assert!(message.contains(expected), "{message}");
    assert!(output.stdout.is_empty(), "no file is left");
}

/// Exceeding a file size limit is an error as well. If SIGXFSZ kills the process, it leaves a
/// partial file, which the next run removes.
#[test]
#[cfg(target_os = "linux")]
fn a_file_size_limit_is_an_error() {
    let scratch = many("shards-limit", 400);
    let output = shell(&scratch, "trap '' XFSZ; ulimit -f 8; INFER", "0/2");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("part-00000.jsonl: cannot be written: File too large"), "{message}");
    assert!(names(&scratch.path("out")).is_empty());
    let output = shell(&scratch, "ulimit -f 8; exec INFER", "0/2");
    assert_eq!(output.status.code(), None, "{output:?}");
    assert!(
        names(&scratch.path("out"))[0].ends_with(".partial"),
        "{:?}",
        names(&scratch.path("out"))
    );
    // Another shard removes it, too.
    scratch.ok(&shard("1/2"));
    assert_eq!(names(&scratch.path("out")), ["part-00001.done", "part-00001.jsonl"]);
    finish(&scratch, &["0/2"]);
}

#[test]
fn a_killed_process_leaves_no_mark() {
    let scratch = many("shards-killed", 10_000);
    fs::create_dir(scratch.path("out")).unwrap();
    let mut before = Vec::new();
    for _ in 0..2 {
        let mut child = spawn(&scratch, "0/2");
        // Wait until the old leftover is replaced by a new partial file.
        while names(&scratch.path("out")).is_empty() || names(&scratch.path("out")) == before {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success(), "it ended before it was killed: {output:?}");
        let left = names(&scratch.path("out"));
        assert!(left.len() == 1 && left[0].ends_with(".partial"), "{left:?}");
        before = left;
    }
    finish(&scratch, &["0/2", "1/2"]);
}

#[test]
fn processes_may_run_the_same_shard() {
    let scratch = many("shards-twice", 200);
    for number in ["0/2", "1/2"] {
        let children: Vec<Child> = (0..4).map(|_| spawn(&scratch, number)).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }
    finish(&scratch, &[]);
}

#[test]
fn missing_inputs_are_errors() {
    let scratch = many("shards-vanished", 1);
    scratch.ok(&shard("0/2"));
    for inputs in [&["@none"][..], &["@many.txt", "@none"]] {
        let words = [&["infer", "@model", "--input"], inputs].concat();
        for number in ["1/2", "1/3"] {
            let more = ["--shard", number, "--output-dir", "@out"];
            let error = scratch.error(&[&words[..], &more].concat());
            assert!(error.contains("none: expected a readable file, got: No such"), "{error}");
        }
    }
    assert_eq!(
        names(&scratch.path("out")),
        ["part-00000.done", "part-00000.jsonl"],
        "the completed shard stays"
    );
    finish(&scratch, &["0/2", "1/2"]);
    let device = ["--input", "/dev/null", "--shard", "0/2", "--output-dir", "@out"];
    let error = scratch.error(&[&["infer", "@model"], &device[..]].concat());
    assert!(error.contains("/dev/null: expected a file, got a folder, a pipe or"), "{error}");
}

#[test]
fn files_in_the_way_are_errors() {
    let scratch = many("shards-way", 1);
    scratch.write("out", "");
    let error = scratch.error(&shard("0/2"));
    assert!(error.contains("out: cannot be written: "), "{error}");
    fs::remove_file(scratch.path("out")).unwrap();
    fs::create_dir_all(scratch.path("out/part-00000.jsonl")).unwrap();
    let error = scratch.error(&shard("0/2"));
    assert!(error.contains("part-00000.jsonl: cannot be written: "), "{error}");
    fs::create_dir_all(scratch.path("out/part-00001.done")).unwrap();
    let error = scratch.error(&shard("1/2"));
    assert!(error.contains("part-00001.done: cannot remove the file: "), "{error}");
    assert_eq!(names(&scratch.path("out")), ["part-00000.jsonl", "part-00001.done"]);
}

/// `shards check` reports the shards of hostile or truncated marks.
#[test]
fn invalid_marks_are_reported() {
    let scratch = many("shards-marks", 1);
    ["0/3", "1/3", "2/3"].iter().for_each(|number| drop(scratch.ok(&shard(number))));
    let good = scratch.text("out/part-00001.done");
    let more = good.replace("\"of\":3", "\"of\":4294967295");
    for invalid in ["", "{}", "[1]", "\u{0}", &good[..good.len() / 2], &good.repeat(2), &more] {
        scratch.write("out/part-00001.done", invalid);
        let output = scratch.run(&["shards", "check", "@out"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("shard 1: ") && said.contains("2 of 3 shards"), "{said}");
    }
    finish(&scratch, &["1/3"]);
}
