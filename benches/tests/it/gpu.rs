//! `cargo xtask gpu` without a GPU: its command line, its rehearsal, its packs, and what it makes
//! of records.

use std::path::PathBuf;
use std::process::{Command, Output};

use edbatch_benches::gpu::predictions::{LAUNCH_AND_TICKET, meeting, predicted};
use edbatch_benches::gpu::record::{Figure, MeasuredOn, Outcome, Part, Record, parse};
use edbatch_benches::gpu::setting::{Clock, Kernels, MODELS, Setting, Use};
use edbatch_benches::gpu::tables::{summary, tables};
use edbatch_benches::gpu::targets::{Better, Held, targets};
use edbatch_benches::gpu::verdicts::verdicts;
use edbatch_testing::skip;

fn gpu(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edbatch-gpu"));
    command.args(options);
    command
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A folder of a test's own, which is not there yet.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("edbatch-gpu-{name}-{}", std::process::id()));
    // What an interrupted run has left.
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Whether the emulated device can be had; else the test is skipped.
fn has_compiler() -> bool {
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
fn wrong_usage_exits_2_and_names_what_is_possible() {
    for (options, expected) in [
        (&["--only", "prob"][..], "probe"),
        (&["--minutes", "0"], "more than 0"),
        (&["--minutes", "ten"], "a number of minutes"),
        (&["--models", "tree"], "tree_lstm"),
        (&["--device", "opencl"], "emulated"),
        (&["--pack", "folder", "--only", "probe"], "--only"),
    ] {
        let (code, message) = said(&gpu(options).output().unwrap());
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn without_a_device_one_message_says_what_to_install() {
    let json = folder("none").with_extension("json");
    let output = gpu(&["--only", "probe", "--json", json.to_str().unwrap()]).output().unwrap();
    let (code, message) = said(&output);
    if code == Some(0) {
        return skip("there is a device");
    }
    assert_eq!(code, Some(1), "{message}");
    assert!(message.starts_with("error: ") && message.contains("--device emulated"), "{message}");
    assert_eq!(message.matches("error").count(), 1, "{message}");
    assert!(output.stdout.is_empty() && !json.exists());
}

/// All that needs no GPU, on the emulated device: every record is written, and no time counts.
#[test]
fn a_rehearsal_verifies_and_says_nothing_of_speed() {
    if !has_compiler() {
        return;
    }
    let folder = folder("rehearsal");
    let [json, html] = ["gpu.json", "gpu.html"].map(|name| folder.join(name));
    let options = ["--device", "emulated", "--models", "tree_lstm", "--networks", "1", "--json"];
    let output = gpu(&options).arg(&json).output().unwrap();
    let (code, message) = said(&output);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(code, Some(0), "{message}{printed}");
    let records = parse(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let page = std::fs::read_to_string(&html).unwrap();
    std::fs::remove_dir_all(folder).unwrap();

    let of = |part, outcome| {
        records.iter().filter(|record| (record.part, record.outcome) == (part, outcome)).count()
    };
    // Without AVX2 or NEON the CPU has other bits, and verify is skipped.
    let verified = of(Part::Verify, Outcome::Passed) + 2 * of(Part::Verify, Outcome::Skipped);
    assert_eq!((verified, of(Part::Stress, Outcome::Passed)), (2, 1), "{printed}");
    // By teams and by waves: three times of one mini-batch, and one of many.
    assert_eq!(of(Part::Throughput, Outcome::Measured), 8, "{printed}");
    for part in [Part::Probe, Part::Latencies, Part::Sanitize, Part::Sweep] {
        assert_eq!(of(part, Outcome::Skipped), 1, "{part}");
    }
    assert!(records.iter().all(|record| record.on.rehearsal && record.ratio.is_none()));
    let timed = records.iter().filter(|record| record.outcome == Outcome::Measured);
    assert!(timed.clone().all(|record| record.note.contains("says nothing")));
    for record in timed.filter(|record| record.part == Part::Throughput) {
        assert_eq!(record.same_bits, Some(true), "{}", record.what);
    }
    assert!(page.contains("A rehearsal") && !page.contains("To be held"), "{page}");
}

#[test]
fn what_is_left_when_the_minutes_are_over_is_skipped() {
    let json = folder("minutes").with_extension("json");
    let options = ["--device", "emulated", "--minutes", "0.000001", "--json"];
    let output = gpu(&options).arg(&json).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output).1);
    let records = parse(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for path in [json.with_extension("html"), json] {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(records.len(), 8);
    assert!(records.iter().all(|record| record.outcome == Outcome::Skipped));
}

/// Its `run` verifies, without the repository; on the emulated device, which needs no kernels of
/// the pack.
#[test]
fn a_pack_runs_by_itself() {
    let folder = folder("pack");
    let path = folder.to_str().unwrap();
    let small = ["--models", "tree_lstm", "--networks", "0"];
    let output = gpu(&["--pack", path, "--quick"]).args(small).output().unwrap();
    let (code, message) = said(&output);
    if message.contains("NVRTC 13.0; found") {
        assert_eq!(code, Some(1));
        assert!(!folder.exists() && !folder.with_extension("partial").exists());
        return skip("there is no NVRTC 13.0");
    }
    assert_eq!(code, Some(0), "{message}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    // The measuring kernel; a golden and a workload by waves, by teams, folded or not, and tf32.
    let mut list = Command::new("tar");
    let list = list.arg("-tzf").arg(folder.join("cache.tar.gz")).output().unwrap();
    let stored = String::from_utf8(list.stdout).unwrap().matches(".cubin").count();
    assert_eq!(stored, 1 + 3 + 3, "{printed}");
    let again = said(&gpu(&["--pack", path]).output().unwrap());
    assert!(again.0 == Some(1) && again.1.contains("exists already"), "{}", again.1);
    if has_compiler() {
        let mut run = Command::new(folder.join("run"));
        run.args(["--device", "emulated", "--only", "verify"]).args(small).current_dir("/");
        let output = run.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output).1);
        let records = std::fs::read_to_string(folder.join("gpu.json")).unwrap();
        assert!(parse(&records).unwrap().len() == 1 && folder.join("gpu.html").exists());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_a_compiler_nothing_is_packed() {
    let folder = folder("no-compiler");
    let mut command = gpu(&["--pack", folder.to_str().unwrap()]);
    let command = command.args(["--models", "tree_lstm", "--networks", "0", "--quick"]);
    let output = command.env_remove("EDBATCH_CUDA_LIBRARIES").output().unwrap();
    let (code, message) = said(&output);
    if code == Some(0) {
        std::fs::remove_dir_all(folder).unwrap();
        return skip("NVRTC 13.0 is installed");
    }
    assert_eq!(code, Some(1));
    assert!(message.contains("nvidia-cuda-nvrtc==13.0.88"), "{message}");
    let mut partial = folder.clone().into_os_string();
    partial.push(".partial");
    assert!(!folder.exists() && !PathBuf::from(partial).exists());
}

/// A record as if it had been measured.
fn measured(part: Part, what: &str, median: f64) -> Record {
    let figure = Figure { unit: "µs".into(), median, spread: 0.01, samples: 5 };
    Record {
        part,
        what: what.into(),
        outcome: Outcome::Measured,
        figure: Some(figure),
        same_bits: Some(true),
        predicted: None,
        ratio: None,
        note: String::new(),
        on: MeasuredOn { device: "made up".into(), ..MeasuredOn::default() },
    }
}

fn end_to_end(model: &str, kernels: Kernels, use_: Use, median: f64) -> Record {
    let what = Setting::main(model, kernels, use_).what(Clock::EndToEnd);
    measured(Part::Throughput, &what, median)
}

#[test]
fn records_survive_a_file() {
    let mut passed = measured(Part::Verify, "golden", 1.0);
    (passed.figure, passed.outcome, passed.note) = (None, Outcome::Passed, "\"so\"".into());
    let mut far = measured(Part::Latencies, "meeting", 1.25);
    (far.predicted, far.ratio, far.same_bits) = (Some(0.5), Some(2.5), None);
    let records = vec![passed, far];
    let lines: Vec<String> =
        records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    assert_eq!(parse(&lines.join("\n")).unwrap(), records);
    for key in
        ["part", "what", "median", "spread", "samples", "predicted", "ratio", "device", "driver"]
    {
        assert!(lines[1].contains(&format!("\"{key}\":")), "{}", lines[1]);
    }
    let broken = parse(&format!("{}\n{{\"part\":", lines[0])).unwrap_err();
    assert!(broken.starts_with("line 2"), "{broken}");
}

#[test]
fn predictions_are_those_of_the_design() {
    let of = |model, hidden, batch, kernels, use_, clock| {
        predicted(&Setting { hidden, batch, ..Setting::main(model, kernels, use_) }, clock)
    };
    let [trees, lattices, taggers, translator] = MODELS;
    let (one, many, all, execute) = (Use::One, Use::Many, Clock::EndToEnd, Clock::Execute);
    let (teams, waves, folded) = (Kernels::TEAMS, Kernels::WAVES, Kernels::FOLDED);
    assert_eq!(of(trees, 256, 64, teams, one, execute), Some(97.0));
    assert_eq!(of(trees, 256, 64, folded, one, execute), Some(87.0));
    assert_eq!(of(lattices, 256, 64, waves, one, execute), Some(700.0));
    assert_eq!(of(lattices, 512, 64, folded, one, execute), Some(541.0));
    assert_eq!(of(taggers, 128, 64, folded, many, all), Some(38.0));
    assert_eq!(of(taggers, 256, 64, Kernels::TF32, one, execute), Some(198.0));
    assert_eq!(of(translator, 256, 64, teams, many, all), Some(1200.0));
    // Nothing was estimated of these.
    assert_eq!(of(trees, 256, 8, teams, one, all), None);
    assert_eq!(of(trees, 1024, 64, folded, one, execute), None);
    assert_eq!(of(translator, 256, 64, waves, one, all), None);
    assert_eq!(of(taggers, 256, 64, Kernels::TF32, one, all), None);
    assert_eq!(of("mv_rnn", 256, 64, teams, one, all), None);
}

/// The decision by a rule that contains some words.
fn decision(records: &[Record], rule: &str) -> Option<String> {
    let verdict = verdicts(records).into_iter().find(|verdict| verdict.rule.contains(rule));
    verdict.map(|verdict| verdict.decision)
}

#[test]
fn teams_stay_if_they_gain_enough_in_either_use() {
    // By waves, in µs, where teams take 100: a use alone, both, none.
    for (one, many, expected) in [
        ([129.0, 125.0], [120.0, 110.0], "delete the team kernel"),
        ([140.0, 130.0], [90.0, 80.0], "the team kernel stays"),
        ([100.0, 100.0], [150.0, 131.0], "the team kernel stays"),
    ] {
        let mut records = Vec::new();
        for (index, model) in MODELS.into_iter().take(2).enumerate() {
            for (use_, waves) in [(Use::One, one), (Use::Many, many)] {
                records.push(end_to_end(model, Kernels::TEAMS, use_, 100.0));
                records.push(end_to_end(model, Kernels::WAVES, use_, waves[index]));
            }
        }
        assert_eq!(decision(&records, "team kernel").as_deref(), Some(expected));
        // One use alone decides nothing.
        let only_one = |record: &Record| record.what.contains("one at a time");
        let half: Vec<Record> = records.into_iter().filter(only_one).collect();
        assert_eq!(decision(&half, "team kernel"), None);
    }
}

#[test]
fn latencies_decide_what_comes_next() {
    for (what, micros, rule, expected) in [
        (meeting(1, 16), 1.25, "1.2 µs", "try clusters first"),
        (meeting(1, 16), 0.8, "1.2 µs", "the counter in the device's memory stays"),
        (LAUNCH_AND_TICKET.into(), 12.5, "12 µs", "try a resident kernel"),
        (LAUNCH_AND_TICKET.into(), 9.0, "12 µs", "a launch a mini-batch stays"),
    ] {
        let records = [measured(Part::Latencies, &what, micros)];
        assert_eq!(decision(&records, rule).as_deref(), Some(expected));
    }
    assert_eq!(verdicts(&[]), []);
}

#[test]
fn what_fails_and_what_is_far_from_its_estimate_is_named() {
    let mut records = vec![measured(Part::Verify, "golden tree_lstm", 1.0)];
    records[0].outcome = Outcome::Passed;
    assert_eq!(decision(&records, "CPU's bits").unwrap(), "the other figures count");
    let mut far = measured(Part::Latencies, "meeting of 4 blocks", 2.0);
    (far.predicted, far.ratio) = (Some(1.0), Some(2.0));
    records.push(far);
    let explain = decision(&records, "40 %").unwrap();
    assert!(explain.contains("meeting of 4 blocks (2.00 ×)"), "{explain}");
    records[0].outcome = Outcome::Failed;
    assert!(decision(&records, "CPU's bits").unwrap().starts_with("no other figure counts"));
    // In a rehearsal no time decides.
    records[0].on.rehearsal = true;
    assert_eq!(verdicts(&records), []);
}

#[test]
fn targets_are_met_or_missed() {
    let none = targets(&[]);
    assert!(none.len() >= 16 && none.iter().all(|held| held.is_met().is_none()));
    let is_beyond = |held: &Held| match held.better {
        Better::Lower => held.goal <= held.must,
        Better::Higher => held.goal >= held.must,
    };
    assert!(none.iter().all(is_beyond), "a goal is beyond what must be");
    let records = [
        end_to_end(MODELS[0], Kernels::TEAMS, Use::One, 120.0),
        end_to_end(MODELS[0], Kernels::TEAMS, Use::Many, 61.0),
        measured(Part::Baseline, "tree_lstm, PyTorch eager over ours, one at a time", 21.0),
    ];
    let outcomes: Vec<_> = targets(&records)
        .iter()
        .filter_map(|held| Some((held.is_met()?, held.reaches_goal()?)))
        .collect();
    assert_eq!(outcomes, [(true, false), (false, false), (true, true)]);
    let printed = summary(&records);
    assert!(printed.contains("MISSED") && printed.contains("not measured"), "{printed}");
    assert_eq!(tables(&records).len(), 3, "a table a part, and what is to be held");
}
