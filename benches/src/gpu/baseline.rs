//! PyTorch on the same inputs: level by level, eagerly and as a replayed graph; cuDNN's LSTM.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::record::{Figure, median};
use super::run::{Context, Ended, Findings, run_until};
use super::setting::{Clock, Kernels, Setting, Use};
use crate::files::Scratch;
use crate::peers::{Graphs, python};
use crate::workload::Failure;

/// Ways to run it, as the script calls them.
pub(super) const EAGER: &str = "eager";
/// A graph of launches, captured per mini-batch.
pub(super) const REPLAYED: &str = "graph replayed";

/// What records call PyTorch's time over ours.
#[must_use]
pub(super) fn over_ours(model: &str, way: &str) -> String {
    format!("{model}, PyTorch {way} over ours, one at a time")
}

/// What the script exits with where PyTorch finds no device.
const NO_DEVICE: i32 = 3;

/// A line of the script.
#[derive(Deserialize)]
struct Line {
    model: String,
    version: String,
    #[serde(flatten)]
    ways: BTreeMap<String, Way>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Way {
    Skipped { skipped: String },
    Wrong { wrong: String },
    Timed { difference: f64, seconds: Vec<f64> },
}

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    let mut probe = python();
    probe.args(["-c", "import torch; print(torch.__version__)"]);
    let torch = run_until(probe, found.until());
    if !torch.is_ok_and(|ended| ended.status.is_some_and(|status| status.success())) {
        found.skipped("baseline", "python3 (or $EDBATCH_PYTHON) cannot import torch");
        return Ok(());
    }
    let options = context.options;
    let (hidden, batch) = (options.hidden()[0], options.batches()[0]);
    // Decoding word by word would measure Python.
    let models: Vec<&str> = options.workloads().filter(|model| *model != "lstm_nmt").collect();
    let work = Scratch::new("baseline")?;
    let mut folders = Vec::new();
    for model in &models {
        let subject = context.subject(model, hidden, batch)?;
        let folder = work.path().join(model);
        fs::create_dir_all(&folder)?;
        let weights = subject.parameters.to_safetensors(subject.workload.network())?;
        fs::write(folder.join("weights.safetensors"), weights)?;
        let (name, workload) = (subject.family.model, &*subject.workload);
        let graphs = Graphs::new(name, workload, &subject.mini_batches);
        fs::write(folder.join("graphs.json"), serde_json::to_string(&graphs)?)?;
        let expected = subject.expected[0].iter().flat_map(|rows| rows.iter()).flatten();
        let expected: Vec<u8> = expected.flat_map(|x| x.to_le_bytes()).collect();
        fs::write(folder.join("expected.f32"), expected)?;
        folders.push(folder);
    }
    let left = found.until().saturating_duration_since(Instant::now()).min(MOST);
    let seconds = left.as_secs_f64() / (4 * models.len()).max(1) as f64;
    let (device, seconds) = match options.is_rehearsal() {
        true => ("cpu", 0.1),
        false => ("cuda", seconds),
    };
    let mut command = python();
    command.arg(context.files.scripts.join("baseline.py"));
    command.args(["--device", device, "--seconds", &seconds.to_string()]).args(folders);
    // Nothing is to be left beside the script.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let Ended { status, said } = run_until(command, found.until())?;
    for line in said.lines().filter(|line| line.starts_with('{')) {
        add(context, found, (hidden, batch), serde_json::from_str(line)?);
    }
    match status.map(|status| status.code()) {
        Some(Some(0)) => {}
        None => found.stopped("PyTorch was ended"),
        Some(Some(NO_DEVICE)) => found.skipped("baseline", "PyTorch finds no CUDA device"),
        Some(_) => found.failed("baseline", said.lines().next_back().unwrap_or_default()),
    }
    Ok(())
}

/// Of the part's time, what measuring may take.
const MOST: Duration = Duration::from_secs(120);

fn add(
    context: &Context<'_>,
    found: &mut Findings<'_>,
    (hidden, batch): (usize, usize),
    line: Line,
) {
    let Line { model, version, ways } = line;
    let (kernels, use_) = (Kernels::TEAMS, Use::One);
    let setting = Setting { model: model.clone(), hidden, batch, kernels, use_ };
    let ours = median(&context.records, &setting.what(Clock::EndToEnd));
    for (way, timed) in ways {
        let what = format!("{model}, H = {hidden}, {batch} inputs, PyTorch {version} {way}");
        match timed {
            Way::Skipped { skipped } => found.skipped(&what, &skipped),
            Way::Wrong { wrong } => found.failed(&what, &wrong),
            Way::Timed { difference, seconds } => {
                let micros: Vec<f64> = seconds.iter().map(|seconds| seconds * 1e6).collect();
                found.measured(&what, Figure::of(&micros, "µs"), None, None);
                found.passed(&what, &format!("results within {difference:.1e} of ours"));
                if let Some(ours) = ours {
                    let ratios: Vec<f64> = micros.iter().map(|micros| micros / ours).collect();
                    found.measured(&over_ours(&model, &way), Figure::of(&ratios, "×"), None, None);
                }
            }
        }
    }
}
