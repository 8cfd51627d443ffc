//! Whether the device computes the CPU's bits: all goldens, and random networks; a launch a wave,
//! then by teams; and on tensor cores what is near.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use edbatch::cuda::CudaError;
use edbatch::cuda::{Driver, Precision};
use edbatch::{Engine, Rows, load};
use edbatch_models::{ModelName, ZooInput};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{BackendError, Cpu};
use edbatch_testing::Subject;
use serde_json::Value;

use super::on_device::{Way, difference, on_device, same_bits};
use super::run::{Context, Findings};
use super::setting::Kernels;
use super::throughput::cores;
use crate::workload::Failure;

/// Mini-batches of these sizes have the same bits.
const SIZES: [usize; 2] = [2, 64];

/// By how much outputs may differ from those of another program in float64.
const TOLERANCE: f64 = 1e-4;

/// By how much outputs of about one in size may differ where operands have 10 bits. Of a single
/// product the error has a bound, which tests of the kernels hold.
pub(super) const TF32_TOLERANCE: f64 = 1e-2;

/// What is compiled of goldens. A launch a wave comes first: where teams have other bits, it says
/// whether it is the kernels.
pub(super) const GOLDEN: [Kernels; 4] = [
    Kernels::WAVES,
    Kernels::TEAMS,
    Kernels::FOLDED,
    Kernels { precision: Precision::Tf32, ..Kernels::TEAMS },
];

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    if Level::detect() == Level::Portable {
        found.skipped("verify", "this processor does not fuse: its bits are not a device's");
        return Ok(());
    }
    for name in ModelName::ALL.map(ModelName::name) {
        if !context.options.takes_model(name) {
            continue;
        }
        if found.is_over() {
            found.stopped(&format!("before {name}"));
            return Ok(());
        }
        let what = format!("golden {name}");
        match golden(context, &context.files.goldens.join(name)) {
            Ok(note) => found.passed(&what, &note),
            Err(failure) if is_no_compiler(&*failure) => found.skipped(&what, &failure.to_string()),
            Err(failure) => found.failed(&what, &failure.to_string()),
        }
    }
    random_networks(context, found)
}

/// Compares a golden model in every way; what was compared.
fn golden(context: &Context<'_>, folder: &Path) -> Result<String, Failure> {
    let loaded = load(folder)?;
    let inputs: Vec<ZooInput> =
        loaded.folder.inputs(&loaded.folder.input())?.collect::<Result<_, _>>()?;
    let mut cpu = Engine::new(loaded.model.clone(), loaded.parameters.clone())?;
    let expected = cpu.run(&inputs)?;
    near_golden(&expected, &folder.join("expected.jsonl"))?;
    let mut tf32: Option<Vec<Rows>> = None;
    let chunks = SIZES.map(|size| inputs.chunks(size).map(<[_]>::to_vec).collect::<Vec<_>>());
    for kernels in GOLDEN {
        let target = &context.target;
        let way = Way { target, kernels, parts: 1, engines: 1, fewest_blocks: 0 };
        let (model, mini_batches) = (loaded.model.clone(), chunks.concat());
        let mut device = on_device(model, &loaded.parameters, mini_batches, &way)?;
        let mut next = 0;
        for (size, chunks) in SIZES.into_iter().zip(&chunks) {
            let mut got = Vec::new();
            for _ in chunks {
                got.extend(device.run(next)?.to_vec());
                next += 1;
            }
            let error = difference(&got, &expected);
            let compared =
                if kernels.is_exact() { &expected } else { tf32.get_or_insert(got.clone()) };
            if !same_bits(&got, compared) {
                return Err(format!("{kernels}, mini-batches of {size}: other bits").into());
            }
            if error > TF32_TOLERANCE {
                return Err(format!("{kernels}: differs by {error:e} from the CPU").into());
            }
        }
    }
    let error = tf32.map_or(0.0, |tf32| difference(&tf32, &expected));
    Ok(format!("the CPU's bits by waves, by teams and folded; tf32 within {error:.1e}"))
}

/// Compares with the outputs of another program.
fn near_golden(got: &[Rows], path: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut expected = Vec::new();
    for line in &lines {
        let rows = line["logits"].as_array().ok_or("a golden without logits")?;
        expected
            .extend(rows.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_f64));
    }
    let got: Vec<f32> = got.iter().flat_map(Rows::iter).flatten().copied().collect();
    let far = |(&got, want): (&f32, &f64)| (f64::from(got) - want).abs() > TOLERANCE;
    let far = got.iter().zip(&expected).any(far);
    if got.len() != expected.len() || far {
        return Err(format!("the CPU differs from {}", path.display()).into());
    }
    Ok(())
}

/// What became of the random networks so far.
#[derive(Default)]
struct Compared {
    same: u64,
    /// Why the others were not compared.
    lacking: Option<String>,
    wrong: Option<String>,
}

/// By several threads, since compiling takes most of the time.
fn random_networks(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    let (all, until) = (context.options.networks(), found.until());
    if all == 0 {
        return Ok(());
    }
    let (next, compared) = (AtomicU64::new(0), Mutex::new(Compared::default()));
    let work = || {
        while Instant::now() < until {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= all {
                break;
            }
            let result = random_network(context, seed);
            let mut compared = compared.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(true) => compared.same += 1,
                Ok(false) => compared.wrong = Some(format!("network {seed} has other bits")),
                Err(error) if is_no_compiler(&error) => {
                    compared.lacking = Some(error.to_string());
                }
                Err(error) => compared.wrong = Some(format!("network {seed}: {error}")),
            }
            if compared.lacking.is_some() || compared.wrong.is_some() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        (0..threads()).for_each(|_| drop(scope.spawn(work)));
    });
    let what = "random networks";
    let compared = compared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let same = format!("{} have the CPU's bits, by waves and by teams", compared.same);
    match compared {
        Compared { wrong: Some(wrong), .. } => found.failed(what, &wrong),
        Compared { same: 0, lacking: Some(why), .. } => found.skipped(what, &why),
        Compared { lacking: Some(_), .. } => {
            found.passed(what, &format!("{same}; others are not stored"));
        }
        Compared { same: got, .. } if got < all => found.stopped(&format!("{same}; of {all}")),
        _ => found.passed(what, &same),
    }
    Ok(())
}

/// Threads that compile.
pub(super) fn threads() -> usize {
    cores().min(16)
}

/// What is compiled of a random network: of every other one, tables are folded.
pub(super) fn kernels_of(seed: u64) -> [Kernels; 2] {
    let folded = seed % 2 == 1;
    [Driver::Waves, Driver::Teams].map(|driver| Kernels { driver, folded, ..Kernels::TEAMS })
}

/// Whether a random network has the CPU's bits, by both drivers.
fn random_network(context: &Context<'_>, seed: u64) -> Result<bool, BackendError> {
    let subject = Subject::random(seed);
    let program = |kernels: &Kernels| {
        kernels.program(&subject.network).expect("cells of random networks are small")
    };
    // The CPU folds nothing.
    let unfolded = program(&Kernels::TEAMS);
    let cpu = Cpu::new(unfolded.clone(), &subject.parameters, Level::detect());
    let mut cpu = cpu.expect("parameters of random networks are few");
    let expected = subject.run(&unfolded, &mut cpu)?;
    for kernels in kernels_of(seed) {
        let program = program(&kernels);
        let mut device = context.target.load(&program, &subject.parameters, &kernels.options())?;
        // Plan after plan in the same memory.
        for _ in 0..2 {
            if subject.run(&program, &mut *device)? != expected {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether kernels are not stored and there is no compiler.
fn is_no_compiler(failure: &(dyn std::error::Error + 'static)) -> bool {
    let error = failure.downcast_ref::<BackendError>().and_then(CudaError::of);
    matches!(error, Some(CudaError::NoCompiler { .. }))
}
