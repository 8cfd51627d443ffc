//! Experiments with the probe kernel of a CUDA device: launches, barriers, copies and
//! multiply-adds. Each checks the result of its first launch.

use std::ops::Range;
use std::time::{Duration, Instant};

use edbatch_cuda::CudaError;
use edbatch_cuda::measure::{
    CHAINS, Launches, Launching, MemorySide, ProbeDevice, ProbeWork, THREADS,
};

use crate::Failure;

/// The work of a launch of `blocks` blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Experiment {
    /// No work.
    Launch { how: Launching, blocks: u32 },
    /// Barriers of teams that run at the same time; `blocks` is the number of blocks of a team.
    Barriers { teams: u32, blocks: u32 },
    /// Copies from host memory to device memory, as for command lists.
    Pull { blocks: u32, bytes: usize },
    /// Copies from device memory to host memory, as for outputs.
    WriteBack { blocks: u32, bytes: usize },
    /// Copies within device memory, or within the L2 cache if they fit.
    Copy { bytes: usize },
    /// Multiply-adds in registers on all SMs.
    MultiplyAdds,
}

/// The times of launches.
pub(crate) struct Measured {
    /// Nanoseconds per launch in a sequence of launches, by the device's clock. If the driver call
    /// takes longer than the launch, this is the time of the call.
    pub(crate) device: Vec<f64>,
    /// Nanoseconds from the driver call until the host sees the end of a single launch.
    pub(crate) host: Vec<f64>,
    /// Nanoseconds until the driver call that launches returns.
    pub(crate) call: Vec<f64>,
    /// The work of a launch: barriers per team, FLOPs, or bytes (bytes of
    /// [`Copy`](Experiment::Copy) count twice, as read and as written); 0 for no work.
    pub(crate) work: f64,
}

/// The number of barriers of each team in a launch.
const ROUNDS: u32 = 1000;
/// The number of multiply-adds in a chain.
const TERMS: u32 = 1 << 14;
/// The number of launches that the device times together.
const BEHIND: u32 = 16;
/// The number of blocks per SM for [`Experiment::Copy`].
const COPYING: u32 = 8;
/// The time of a warm-up before samples are taken.
const WARM_UP: Duration = Duration::from_millis(100);
/// The number of words at the end of a copy that are compared.
const COMPARED: usize = 1 << 14;

impl Experiment {
    /// Checks the result of a first launch, then measures further launches. Returns `samples`
    /// values for each time in [`Measured`].
    pub(crate) fn measure(self, device: &ProbeDevice, samples: usize) -> Result<Measured, Failure> {
        let mut launches = self.launches(device)?;
        launches.launch(None)?;
        launches.wait()?;
        self.compare(device, &launches)?;
        // Clocks rise under load.
        let warm = Instant::now() + WARM_UP;
        while Instant::now() < warm {
            launches.launch(None)?;
            launches.wait()?;
        }
        let (mut host, mut call) = (Vec::new(), Vec::new());
        for _ in 0..samples {
            let began = Instant::now();
            launches.launch(None)?;
            call.push(began.elapsed().as_nanos() as f64);
            launches.wait()?;
            host.push(began.elapsed().as_nanos() as f64);
        }
        let mut behind = || device.timed(|| (0..BEHIND).try_for_each(|_| launches.launch(None)));
        let times = (0..samples).map(|_| Ok(behind()? / f64::from(BEHIND)));
        let times = times.collect::<Result<_, CudaError>>()?;
        launches.wait()?;
        Ok(Measured { device: times, host, call, work: self.amount(device) })
    }

    fn launches(self, device: &ProbeDevice) -> Result<Launches<'_>, CudaError> {
        device.launches(self.work(device), &pattern(0..self.bytes() / 4))
    }

    fn work(self, device: &ProbeDevice) -> ProbeWork {
        use Launching::{Cooperative, Plain};
        let sms = device.hardware().sms;
        let sides = match self {
            Self::Pull { .. } => [MemorySide::Host, MemorySide::Device],
            Self::WriteBack { .. } => [MemorySide::Device, MemorySide::Host],
            _ => [MemorySide::Device; 2],
        };
        let (how, teams, blocks) = match self {
            Self::Launch { how, blocks } => (how, 1, blocks),
            Self::Barriers { teams, blocks } => (Cooperative, teams, blocks),
            Self::Pull { blocks, .. } | Self::WriteBack { blocks, .. } => (Cooperative, 1, blocks),
            Self::Copy { .. } => (Plain, 1, COPYING * sms),
            Self::MultiplyAdds => (Plain, 1, sms),
        };
        let barriers = if matches!(self, Self::Barriers { .. }) { ROUNDS } else { 0 };
        let terms = if self == Self::MultiplyAdds { TERMS } else { 0 };
        ProbeWork { how, teams, blocks, sides, barriers, terms }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Pull { bytes, .. } | Self::WriteBack { bytes, .. } | Self::Copy { bytes } => {
                bytes
            }
            _ => 0,
        }
    }

    /// Returns [`Measured::work`].
    fn amount(self, device: &ProbeDevice) -> f64 {
        match self {
            Self::Barriers { .. } => f64::from(ROUNDS),
            Self::Copy { bytes } => 2.0 * bytes as f64,
            Self::MultiplyAdds => {
                let chains = device.hardware().sms * THREADS * CHAINS;
                2.0 * f64::from(chains) * f64::from(TERMS)
            }
            _ => self.bytes() as f64,
        }
    }

    /// Checks the results of the first launch.
    fn compare(self, device: &ProbeDevice, launches: &Launches<'_>) -> Result<(), Failure> {
        let words = self.bytes() / 4;
        if words > 0 {
            let last = words.saturating_sub(COMPARED)..words;
            check("a copy", &launches.copied(last.clone())?, &pattern(last))?;
        }
        if let Self::Barriers { teams, blocks } = self {
            let count = u64::from(ROUNDS) * u64::from(blocks);
            for team in 0..teams {
                let got = launches.barrier_count(team)?;
                check("the count of a barrier", &got, &[count as u32, (count >> 32) as u32])?;
            }
        }
        if self == Self::MultiplyAdds {
            let threads = (device.hardware().sms * THREADS) as usize;
            let expected = vec![end_of_chains().to_bits(); threads];
            check("chains of products", &launches.ends_of_chains()?, &expected)?;
        }
        Ok(())
    }
}

/// Returns the nanoseconds until the host sees the end of `launches` launches of a team each, on
/// streams of their own. Each team has `blocks` blocks and a thousand barriers. If launches
/// overlap, several take about as long as one.
pub(crate) fn side_by_side(
    device: &ProbeDevice,
    launches: usize,
    blocks: u32,
    samples: usize,
) -> Result<Vec<f64>, Failure> {
    let barriers = Experiment::Barriers { teams: 1, blocks };
    let runs = (0..launches).map(|_| barriers.launches(device));
    let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
    let mut sample = || -> Result<f64, Failure> {
        let began = Instant::now();
        for (stream, run) in runs.iter_mut().enumerate() {
            run.launch(Some(stream))?;
        }
        runs.iter().try_for_each(Launches::wait)?;
        Ok(began.elapsed().as_nanos() as f64)
    };
    // The first one creates the streams.
    sample()?;
    (0..samples).map(|_| sample()).collect()
}

/// Returns test data for a range of words. Each word differs from its neighbours.
fn pattern(words: Range<usize>) -> Vec<u32> {
    words.map(|word| (word as u32).wrapping_mul(0x9E37_79B9)).collect()
}

/// Returns the expected result of each thread: the sum of its chains of multiply-adds.
fn end_of_chains() -> f32 {
    let chain = |chain| (0..TERMS).fold(chain as f32, |x, _| x.mul_add(1.0 - 1.0 / 4096.0, 0.5));
    (0..CHAINS).map(chain).sum()
}

fn check(what: &str, got: &[u32], expected: &[u32]) -> Result<(), Failure> {
    match got == expected {
        true => Ok(()),
        false => Err(format!("{what} failed: the device's result is wrong").into()),
    }
}
