//! The example `c1p` as a program: its output and its exit codes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Returns the path of the example program. Builds it if it is older than its source, because
/// `cargo test --test` does not build examples.
fn program() -> PathBuf {
    // Tests are in `deps`, next to `examples`.
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/c1p");
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["src", "dev", "examples"].map(|folder| crate_folder.join(folder));
    if modified(&program) <= sources.iter().filter_map(|folder| newest(folder)).max() {
        build();
    }
    program
}

fn build() {
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let arguments = ["build", "--quiet", "--example", "c1p", "--profile", profile];
    let built =
        Command::new(env!("CARGO")).args(arguments).args(["--manifest-path", manifest]).status();
    assert!(built.unwrap().success());
}

/// Returns the time of the last change in a folder.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
    entries.filter_map(|path| if path.is_dir() { newest(&path) } else { modified(&path) }).max()
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

fn c1p(arguments: &[&str]) -> Output {
    Command::new(built()).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn built() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(program)
}

/// Returns the exit code and the texts.
fn read(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

struct Instances(PathBuf);

impl Instances {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("pqtree-{}-{name}.c1p", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        Self(path)
    }

    fn run(&self, options: &[&str]) -> (Option<i32>, String, String) {
        read(c1p(&[options, &[self.0.to_str().unwrap()]].concat()))
    }
}

impl Drop for Instances {
    fn drop(&mut self) {
        // A file that stays in the temporary folder does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

const TWO: &str = "\
c a comment
p c1p 4 3 6
2 0 1
2 1 2
2 0 2

p c1p 40 0 0
";

#[test]
fn instances_are_measured_and_answered() {
    let two = Instances::new("two", TWO);
    let (code, out, _) = two.run(&["--answers"]);
    let orders = "815915283247897734345611269596115894272000000000";
    assert_eq!((code, out), (Some(0), format!("110 4\n {orders}\n")));
    let (code, out, _) = two.run(&[]);
    let fields: Vec<&str> = out.lines().next().unwrap().split('\t').collect();
    assert_eq!((code, fields.len()), (Some(0), 11));
    assert_eq!(fields[1..6], ["4", "3", "6", "2", "d0a6fb18672a10cf"]);
    assert_eq!(fields[6..9], ["1", "1", "2.000"]);
}

#[test]
fn help_succeeds_and_wrong_usage_exits_with_2() {
    let help = c1p(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: c1p [--answers] FILE"));
    for arguments in [&[][..], &["--answers"], &["--nonsense", "file"]] {
        let output = c1p(arguments);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: "));
    }
}

#[test]
fn errors_name_the_line() {
    let check = |name: &str, text: &str, expected: &str| {
        let (code, _, error) = Instances::new(name, text).run(&[]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(expected), "{error}");
    };
    check("range", "p c1p 4 2 4\n2 0 1\n2 1 4\n", "line 3: leaf 4 is out of range");
    check("twice", "p c1p 4 1 2\nc\n2 1 1\n", "line 3: leaf 1 is repeated");
    check("count", "p c1p 4 1 2\n3 1 2\n", "line 2: expected 3 leaves, got 2");
    check("many", "p c1p 4000000000 1 2\n2 0 1\n", "line 1: expected at most 536870912 leaves");
    check("end", "p c1p 4 2 2\n2 0 1\n", "line 3: expected 2 restrictions, got 1");
    check("header", "p c2p 4 2 2\n", "line 1: expected `p c1p n m total`");
    check("number", "p c1p 4 1 2\n2 0 x\n", "line 2: expected a number below 2^32, got \"x\"");
    check("total", "p c1p 4 1 99\n2 0 1\n", "line 2: expected 99 elements in all, got 2");
    check("empty", "c only this\n", "expected at least one instance");
    let output = c1p(&["/nowhere/at/all.c1p"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/at/all.c1p"));
}

/// One header that asks for more than any limit, and one instance that fits under some of them.
#[test]
#[cfg(target_os = "linux")]
fn every_limit_of_memory_gives_an_answer_or_one_error_line() {
    let hostile = Instances::new("hostile", "p c1p 536870912 1 2\n2 0 1\n");
    let mut text = String::from("p c1p 2000000 2000 40000\n");
    for set in 0..2000 {
        let first = set * 15;
        let leaves: Vec<String> = (first..first + 20).map(|leaf| leaf.to_string()).collect();
        text += &format!("20 {}\n", leaves.join(" "));
    }
    let real = Instances::new("real", &text);
    let (_, expected, _) = real.run(&["--answers"]);
    let mut answered = Vec::new();
    for megabytes in (20..=400).step_by(20) {
        for instances in [&hostile, &real] {
            let command = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1000);
            let mut limited = Command::new("sh");
            limited.args(["-c", &command]).arg(built()).args(["--answers"]).arg(&instances.0);
            let (code, out, error) = read(limited.output().unwrap());
            match code {
                Some(0) => {
                    assert!(out == expected && out.starts_with(&"1".repeat(2000)), "{out}");
                    answered.push(megabytes);
                }
                Some(1) => assert!(error.starts_with("error: ") && error.lines().count() == 1),
                _ => panic!("{megabytes} MB: {code:?} {error}"),
            }
        }
    }
    assert!(answered.len() > 10 && answered.len() < 20, "{answered:?}");
}
