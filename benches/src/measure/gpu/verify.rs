//! The part `verify`: the device computes the processor's bits, for all goldens and for random
//! networks. Results in TF32 and bf16 are close to them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use edbatch::models::{ModelName, ZooInput};
use edbatch::{Engine, Rows, load};
use edbatch_cuda::CudaError;
use edbatch_graph::Network;
use edbatch_layout::Program;
use edbatch_policy::{Encoding, Fsm};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{BackendError, Cpu, Precision};
use edbatch_testing::Subject;

use crate::Failure;
use crate::measure::assets;
use crate::measure::bits::{difference, same_bits_or_nan};
use crate::measure::contestant::{Contestant, Running};
use crate::measure::device::Device;
use crate::measure::systems::{Setup, System};
use crate::record::finding::{Finding, Outcome};

/// Sizes of mini-batches that must give the same bits.
const SIZES: [usize; 2] = [2, 64];

/// All variants.
pub(super) const VARIANTS: [System; 4] =
    [System::Cuda, System::CudaFolded, System::CudaTf32, System::CudaBf16];

/// Compares models, and `networks` random networks, until a deadline.
pub(super) fn verify(
    device: &Device,
    models: &[String],
    networks: u64,
    until: Instant,
    mut progress: impl FnMut(&str),
) -> Vec<Finding> {
    let mut findings =
        match of_goldens("verify", models, until, &mut progress, |folder| golden(device, folder)) {
            ControlFlow::Continue(findings) => findings,
            ControlFlow::Break(findings) => return findings,
        };
    let random = |seed| Ok(random_network(device, seed)?);
    findings.extend(of_random_networks("verify", networks, until, progress, random));
    findings
}

/// Compares models by a function of a golden's folder. Breaks with what there is if nothing can be
/// compared, or no time is left.
pub(super) fn of_goldens(
    part: &str,
    models: &[String],
    until: Instant,
    mut progress: impl FnMut(&str),
    compare: impl Fn(&Path) -> Result<String, Failure>,
) -> ControlFlow<Vec<Finding>, Vec<Finding>> {
    let finding = |what: &str, outcome, note: String| Finding::new(part, what, outcome, note);
    if Level::detect() == Level::Portable {
        let note = "this processor does not fuse multiplications and additions, but a device does";
        return ControlFlow::Break(vec![finding(part, Outcome::Skipped, note.into())]);
    }
    let mut findings = Vec::new();
    for name in ModelName::ALL.map(ModelName::name) {
        if !models.is_empty() && !models.iter().any(|model| model == name) {
            continue;
        }
        let what = format!("golden {name}");
        if Instant::now() >= until {
            findings.push(finding(&what, Outcome::Stopped, "the time was over".into()));
            return ControlFlow::Break(findings);
        }
        progress(&what);
        let (outcome, note) = match compare(&assets::goldens().join(name)) {
            Ok(note) => (Outcome::Passed, note),
            Err(failure) if is_no_compiler(&*failure) => (Outcome::Skipped, failure.to_string()),
            Err(failure) => (Outcome::Failed, failure.to_string()),
        };
        findings.push(finding(&what, outcome, note));
    }
    ControlFlow::Continue(findings)
}

/// Compares a golden model's results in all variants with the CPU's. Returns a description.
fn golden(device: &Device, folder: &Path) -> Result<String, Failure> {
    let loaded = load(folder)?;
    let inputs: Vec<ZooInput> =
        loaded.folder.inputs(&loaded.folder.input())?.collect::<Result<_, _>>()?;
    let mut cpu = Engine::new(loaded.model.clone(), loaded.parameters.clone())?;
    let expected = cpu.run(&inputs)?;
    let chunks = SIZES.map(|size| inputs.chunks(size).map(<[_]>::to_vec).collect::<Vec<_>>());
    let unlearned = Fsm::new(Encoding::Sort, 0);
    let mut note = String::from("the processor's bits, also with folded tables");
    for system in VARIANTS {
        let mut first: Option<Vec<Rows>> = None;
        let setup = Setup::new(system, &unlearned, 1).on(Some(device));
        let (model, set) = (loaded.model.clone(), Arc::default());
        let mut running = Running::new(model, &setup, &loaded.parameters, set, chunks.concat())?;
        let (mut next, name) = (0, system.name());
        for (size, chunks) in SIZES.into_iter().zip(&chunks) {
            let mut got = Vec::new();
            for _ in chunks {
                got.extend(running.run(next)?.to_vec());
                next += 1;
            }
            let error = difference(&got, &expected);
            let compared = match system {
                System::CudaTf32 | System::CudaBf16 => first.get_or_insert(got.clone()),
                _ => &expected,
            };
            if !same_bits_or_nan(&got, compared) {
                return Err(format!("{name}, mini-batches of {size}: different bits").into());
            }
            if error > system.tolerance().into() {
                return Err(format!("{name}: differs by {error:e} from the processor").into());
            }
        }
        if let Some(rounded) = first {
            note += &format!("; {name} within {:.1e}", difference(&rounded, &expected));
        }
    }
    Ok(note)
}

/// Compares random networks on several threads, since compiling takes most of the time. `is_same`
/// compares the network of a seed. The first failure ends the comparison.
pub(super) fn of_random_networks(
    part: &str,
    all: u64,
    until: Instant,
    mut progress: impl FnMut(&str),
    is_same: impl Fn(u64) -> Result<bool, Failure> + Sync,
) -> Option<Finding> {
    if all == 0 {
        return None;
    }
    progress("random networks");
    let (next, same) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed = Mutex::new(None);
    let work = || {
        let goes_on = || Instant::now() < until && failed.lock().is_ok_and(|it| it.is_none());
        while goes_on() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= all {
                break;
            }
            let outcome = match is_same(seed) {
                Ok(true) => {
                    same.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Ok(false) => (Outcome::Failed, format!("network {seed} has different bits")),
                Err(error) if is_no_compiler(&*error) => (Outcome::Skipped, error.to_string()),
                Err(error) => (Outcome::Failed, format!("network {seed}: {error}")),
            };
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(outcome);
        }
    };
    thread::scope(|scope| {
        (0..compiler_threads()).for_each(|_| drop(scope.spawn(work)));
    });
    let same = same.into_inner();
    let note = format!("{same} of {all} have the processor's bits");
    let (outcome, note) = match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((Outcome::Skipped, why)) if same > 0 => (Outcome::Passed, format!("{note}; {why}")),
        Some(failed) => failed,
        None if same < all => (Outcome::Stopped, note),
        None => (Outcome::Passed, note),
    };
    Some(Finding::new(part, "random networks", outcome, note))
}

/// Returns the number of threads that compile kernels.
pub(super) fn compiler_threads() -> usize {
    thread::available_parallelism().map_or(1, Into::into).min(16)
}

/// Compiles the cells of a random network. If `seed` is odd, folds the tables.
pub(super) fn random_program(seed: u64, network: &Arc<Network>) -> Program {
    let system = if seed % 2 == 1 { System::CudaFolded } else { System::Cuda };
    system.program(network).expect("cells of random networks are small")
}

/// Returns true if a random network has the processor's bits.
fn random_network(device: &Device, seed: u64) -> Result<bool, BackendError> {
    let subject = Subject::random(seed);
    // The processor folds no tables.
    let unfolded = Arc::new(random_program(0, &subject.network));
    let cpu = Cpu::new(unfolded.clone(), &subject.parameters, Level::detect(), Precision::F32);
    let mut cpu = cpu.expect("parameters of random networks are few");
    let expected = subject.run(&unfolded, &mut cpu)?;
    let program = Arc::new(random_program(seed, &subject.network));
    let options = System::Cuda.on_cuda().expect("it is on a device");
    let mut device = device.load(&program, &subject.parameters, &options)?;
    // Twice in the same memory.
    for _ in 0..2 {
        if subject.run(&program, &mut *device)? != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true for the error that kernels are not cached and there is no compiler.
pub(super) fn is_no_compiler(failure: &(dyn std::error::Error + 'static)) -> bool {
    let error = failure.downcast_ref::<BackendError>().and_then(CudaError::of);
    matches!(error, Some(CudaError::NoCompiler { .. }))
}
