//! `cargo xtask gpu` without a GPU: command line, rehearsal on the emulated device, packs.

use std::path::Path;
use std::process::Command;

use edbatch_benches::record::finding::{Finding, Outcome};
use edbatch_benches::record::journal::read;
use edbatch_benches::record::{Figures, OnDevice};
use edbatch_testing::skip;

use crate::run::{Run, outcome};

fn gpu(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edbatch-benches"));
    command.arg("--gpu").args(options);
    command
}

fn findings(path: &Path) -> Vec<Finding> {
    let figures = read(path).unwrap().into_iter().map(|record| record.figures);
    let finding = |figures| match figures {
        Figures::Device(finding) => Some(finding),
        _ => None,
    };
    figures.filter_map(finding).collect()
}

/// Returns true if there is a C++ compiler for the emulated device; else skips the test.
pub(crate) fn has_compiler() -> bool {
    let compiler = std::env::var("CXX").ok().filter(|name| !name.trim().is_empty());
    let compiler = compiler.unwrap_or("c++".into());
    let mut words = compiler.split_whitespace();
    let found = Command::new(words.next().unwrap()).arg("--version").output().is_ok();
    if !found {
        skip("there is no C++ compiler");
    }
    found
}

#[test]
fn a_missing_device_is_one_error_that_says_what_to_install() {
    let run = Run::new();
    let (code, printed, message) = run.run(&[&["--gpu", "--only", "probe"]]);
    if code == Some(0) {
        return skip("there is a device");
    }
    assert_eq!(code, Some(1), "{message}");
    assert!(message.starts_with("error: ") && message.contains("--device emulated"), "{message}");
    assert_eq!(message.matches("error").count(), 1, "{message}");
    assert!(printed.is_empty() && !run.json.exists());
}

/// Everything that needs no GPU, on the emulated device, in two minutes: throughput has fewer
/// laps if the machine is slow.
#[test]
fn a_rehearsal_writes_figures_for_every_part() {
    if !has_compiler() {
        return;
    }
    let run = Run::new();
    let small = ["--gpu", "--device", "emulated", "--models", "tree_lstm", "--networks", "1"];
    let printed = run.ok(&[&small, &["--minutes", "2", "--systems", "cuda"]]);
    let (findings, records) = (findings(&run.json), read(&run.json).unwrap());
    let page = std::fs::read_to_string(&run.html).unwrap();

    let of = |part: &str, outcome| {
        findings.iter().filter(|found| (&*found.part, found.outcome) == (part, outcome)).count()
    };
    // Without AVX2 or NEON the processor computes other bits, and verify is skipped.
    let verified = of("verify", Outcome::Passed) + 2 * of("verify", Outcome::Skipped);
    assert_eq!((verified, of("stress", Outcome::Passed)), (2, 1), "{printed}");
    let [passed, skipped, stopped] =
        [Outcome::Passed, Outcome::Skipped, Outcome::Stopped].map(|it| of("verify-training", it));
    assert_eq!(passed + 2 * skipped + stopped, 2, "{printed}");
    assert_eq!(of("training", Outcome::Passed), 1, "{printed}");
    // Each shape, or those that the time has sufficed for.
    let [passed, stopped, skipped] =
        [Outcome::Passed, Outcome::Stopped, Outcome::Skipped].map(|it| of("waves", it));
    let complete = passed + skipped == 6 + 2 * 2 || stopped == 1;
    assert!((passed > 0 && complete) || (passed == 0 && skipped == 1), "{printed}");
    for part in ["probe", "latencies", "sanitize"] {
        assert_eq!(of(part, Outcome::Skipped), 1, "{part}");
    }
    assert!(findings.iter().all(|finding| finding.figure.is_none()));
    let speeds: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.figures {
            Figures::Throughput(speed) if speed.laps > 0 => Some(speed),
            _ => None,
        })
        .collect();
    assert!(!speeds.is_empty(), "{printed}");
    for speed in speeds {
        let OnDevice { device_ns, launch_ns, host_ns, sm_mhz } = speed.on_device.clone().unwrap();
        // The emulated device has the host's clock, and its SMs a cycle a nanosecond.
        assert!(device_ns > 0.0 && launch_ns > 0.0 && host_ns > 0.0, "{speed:?}");
        assert!((sm_mhz - 1000.0).abs() < 10.0, "{sm_mhz} MHz");
    }
    assert!(printed.contains("; device ") && printed.contains(" MHz"), "{printed}");
    assert!(records.iter().all(|record| record.machine.device.contains("emulated")));
    assert!(printed.contains("Device: 0 measured") && page.contains("CUDA device"), "{printed}");
}

/// The `run` of a pack verifies without the repository, on the emulated device, which needs no
/// kernels of the pack. Without NVRTC 13.0 there is no pack.
#[test]
fn a_pack_runs_without_the_repository() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("pack");
    let path = folder.to_str().unwrap();
    let small = ["--models", "tree_lstm", "--networks", "0"];
    let output = gpu(&["--pack", path, "--quick"]).args(small).output().unwrap();
    let (code, printed, message) = outcome(output);
    if message.contains("NVRTC 13.0; found") {
        assert!(code == Some(1) && message.contains("nvidia-cuda-nvrtc==13.0.88"), "{message}");
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        return skip("there is no NVRTC 13.0");
    }
    assert_eq!(code, Some(0), "{message}");
    // The probe's kernels; a golden and a workload, folded or not, in TF32 and in bf16.
    let mut list = Command::new("tar");
    let list = list.arg("-tzf").arg(folder.join("cache.tar.gz")).output().unwrap();
    let stored = String::from_utf8(list.stdout).unwrap().matches(".cubin").count();
    assert_eq!(stored, 1 + 3 + 3, "{printed}");
    let (code, _, message) = outcome(gpu(&["--pack", path]).output().unwrap());
    assert!(code == Some(1) && message.contains("exists already"), "{message}");
    if has_compiler() {
        let mut run = Command::new(folder.join("run"));
        run.args(["--device", "emulated", "--only", "verify"]).args(small).current_dir("/");
        let (code, _, message) = outcome(run.output().unwrap());
        assert_eq!(code, Some(0), "{message}");
        assert_eq!(findings(&folder.join("gpu.json")).len(), 1);
        assert!(folder.join("gpu.html").exists());
    }
}

#[test]
fn findings_survive_serialization() {
    let passed = Finding::new("verify", "golden", Outcome::Passed, "\"so\"");
    let measured = Finding::measured("latencies", "barrier", &[1.0, 1.25, 1.5], "µs");
    for finding in [passed, measured] {
        let figures = Figures::Device(finding);
        let line = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<Figures>(&line).unwrap(), figures, "{line}");
    }
}
