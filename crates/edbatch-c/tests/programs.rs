//! Programs in C and C++, linked to the shared and to the static library, under sanitizers.

mod compiler;
#[path = "../examples/networks.rs"]
mod networks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use compiler::{compiler, include, root, succeed};
use tempfile::TempDir;

/// A folder with the libraries, networks and programs.
struct Workplace {
    folder: TempDir,
    sanitizers: Vec<&'static str>,
}

impl Workplace {
    /// Skips the running test without a C compiler, or where libraries have other names.
    #[track_caller]
    fn new() -> Option<Self> {
        let cc = compiler("CC", "cc")?;
        if !cfg!(target_os = "linux") {
            edbatch_testing::skip("libraries have other names on this system");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Cargo builds the libraries of the crate together with the one that this test links.
        let built = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        for (from, to) in
            [("libedbatch_c.so", "libedbatch_c.so.1"), ("libedbatch_c.a", "libedbatch_c.a")]
        {
            let from = built.join(from);
            fs::copy(&from, folder.path().join(to)).unwrap_or_else(|error| {
                panic!("{}: {error}", from.display());
            });
        }
        let link = folder.path().join("libedbatch_c.so");
        #[cfg(unix)]
        std::os::unix::fs::symlink("libedbatch_c.so.1", &link).unwrap();
        let _ = link;
        networks::write_all(folder.path()).unwrap();
        fs::rename(folder.path().join("clauses"), folder.path().join("net")).unwrap();
        let mut workplace = Self { folder, sanitizers: Vec::new() };
        workplace.sanitizers = workplace.sanitizers(cc);
        Some(workplace)
    }

    /// The options of the sanitizers, if the compiler has them.
    #[track_caller]
    fn sanitizers(&self, mut cc: Command) -> Vec<&'static str> {
        let options = vec!["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let source = self.path("empty.c");
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        cc.args(&options).arg(source).arg("-o").arg(self.path("empty"));
        let works = cc.output().is_ok_and(|output| output.status.success())
            && Command::new(self.path("empty")).status().is_ok_and(|status| status.success());
        if works {
            return options;
        }
        edbatch_testing::skip("the compiler has no sanitizers");
        Vec::new()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program twice, and returns the commands that run it: with the shared library, and
    /// with the static one.
    fn compile(&self, source: &Path) -> Vec<Command> {
        let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
        let (variable, default, standard) = match is_cpp {
            true => ("CXX", "c++", "-std=c++11"),
            false => ("CC", "cc", "-std=c99"),
        };
        let name = source.file_name().unwrap().to_string_lossy();
        let linked = ["shared", "static"].into_iter().filter_map(|kind| {
            let mut cc = compiler(variable, default)?;
            let program = self.path(&format!("{name}-{kind}"));
            cc.args([standard, "-g", "-pedantic", "-Wall", "-Wextra", "-Werror"]);
            cc.arg("-Wno-unused-function").args(&self.sanitizers).arg("-I").arg(include());
            cc.arg(source).arg("-o").arg(&program);
            match kind {
                "shared" => cc.arg("-L").arg(self.folder.path()).arg("-ledbatch_c"),
                _ => cc.arg("-DEDBATCH_STATIC").arg(self.path("libedbatch_c.a")),
            };
            succeed(cc.args(["-lpthread", "-lm", "-ldl"]));
            let mut command = Command::new(program);
            command.env("LD_LIBRARY_PATH", self.folder.path());
            Some(command)
        });
        linked.collect()
    }
}

#[test]
fn programs_in_c_and_cpp_pass() {
    let Some(workplace) = Workplace::new() else { return };
    for name in ["interface.c", "hostile.c", "interface.cpp"] {
        for mut program in workplace.compile(&root().join("tests").join(name)) {
            let printed = succeed(program.arg(workplace.path("net")));
            assert!(printed.contains("0 failed"), "{name}: {printed}");
        }
    }
}

#[test]
fn memory_is_constant_over_many_calls() {
    let Some(workplace) = Workplace::new() else { return };
    let calls = if edbatch_testing::all_cases() { "1000000" } else { "50000" };
    for mut program in workplace.compile(&root().join("tests/steady.c")) {
        let printed = succeed(program.arg(workplace.path("net")).arg(calls));
        assert!(printed.contains("0 failed"), "{printed}");
    }
}

/// Replays a derivation in waves. Returns what the example printed for each.
fn replay(workplace: &Workplace, derivation: &Path, waves: [&str; 3]) -> Vec<[String; 3]> {
    let programs = workplace.compile(&root().join("examples/prover.c")).into_iter();
    let printed = programs.map(|program| {
        waves.map(|wave| {
            let mut program = Command::new(program.get_program());
            program.env("LD_LIBRARY_PATH", workplace.folder.path());
            succeed(program.arg(workplace.path("prover")).arg(derivation).arg(wave))
        })
    });
    printed.collect()
}

/// The scores that the example printed.
fn scores(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| line.starts_with("clause ")).collect()
}

#[test]
fn waves_of_the_prover_have_the_same_scores() {
    let Some(workplace) = Workplace::new() else { return };
    let derivation = root().join("examples/derivation.tsv");
    for printed in replay(&workplace, &derivation, ["1", "3", "64"]) {
        assert_eq!(scores(&printed[0]).len(), 12, "{}", printed[0]);
        assert!(printed.iter().all(|one| scores(one) == scores(&printed[0])), "{printed:?}");
        // Every clause is released after the last one that reads it.
        for (printed, runs) in printed.iter().zip([12, 4, 1]) {
            let expected = format!("12 clauses in {runs} runs, 0 values stored\n");
            assert!(printed.ends_with(&expected), "{printed}");
        }
    }
}

#[test]
fn waves_of_a_real_derivation_have_the_same_scores() {
    let Some(derivation) = edbatch_testing::shared("datasets/derivations/lattice.tsv") else {
        return;
    };
    let Some(mut workplace) = Workplace::new() else { return };
    // The short derivation runs under them. They take seconds for the allocations of this one.
    workplace.sanitizers.clear();
    for printed in replay(&workplace, &derivation, ["16", "64", "1000"]) {
        assert_eq!(scores(&printed[0]).len(), 7500);
        assert!(printed.iter().all(|one| scores(one) == scores(&printed[0])));
    }
}

#[test]
fn plans_share_their_subplans() {
    let Some(workplace) = Workplace::new() else { return };
    for mut program in workplace.compile(&root().join("examples/plans.c")) {
        program.arg(workplace.path("plans")).arg(root().join("examples/plans.txt"));
        let printed = succeed(&mut program);
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), 2, "{printed}");
        assert!(
            lines[0].starts_with("query 1: 3 plans, 15 nodes, 9 of them different"),
            "{printed}"
        );
        assert!(
            lines[1].starts_with("query 2: 1 plans, 3 nodes, 3 of them different"),
            "{printed}"
        );
    }
}

/// Each block of C in the documentation is a program, and runs beside the folder `clauses`.
#[test]
fn programs_of_the_documentation_run() {
    let Some(workplace) = Workplace::new() else { return };
    fs::rename(workplace.path("net"), workplace.path("clauses")).unwrap();
    let page = fs::read_to_string(root().join("../../docs/c.md")).unwrap();
    let blocks = page.split("\n```c\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let mut printed = Vec::new();
    for (number, block) in blocks.enumerate() {
        let source = workplace.path(&format!("block{number}.c"));
        fs::write(&source, block).unwrap();
        for mut program in workplace.compile(&source) {
            printed.push(succeed(program.current_dir(workplace.folder.path())));
        }
    }
    let expected = ["a clause of 14 floats\n"; 2].into_iter().chain(["1 float\n"; 2]);
    assert!(printed.iter().map(String::as_str).eq(expected), "{printed:?}");
}

#[test]
fn a_session_runs_from_python() {
    let Some(workplace) = Workplace::new() else { return };
    let mut python = Command::new("python3");
    if !python.arg("--version").output().is_ok_and(|output| output.status.success()) {
        return edbatch_testing::skip("no `python3`; to install it: apt install python3");
    }
    let mut script = Command::new("python3");
    script.arg(root().join("tests/from_python.py"));
    script.arg(workplace.path("libedbatch_c.so")).arg(workplace.path("net"));
    assert_eq!(succeed(&mut script), "passed\n");
}

/// The shared library exports the functions of the header, and nothing of the crates inside.
#[test]
fn the_shared_library_exports_26_names() {
    let Some(workplace) = Workplace::new() else { return };
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only"]).arg(workplace.path("libedbatch_c.so"));
    if Command::new("nm").arg("--version").output().is_err() {
        return edbatch_testing::skip("no `nm`; to install it: apt install binutils");
    }
    let listed = succeed(&mut nm);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(names.len(), 26, "{listed}");
    assert!(names.iter().all(|name| name.starts_with("edbatch_")), "{listed}");
}
