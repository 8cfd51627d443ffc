//! Launches of teams: what they leave, and what becomes of one whose blocks wait in vain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::CudaError;
use super::super::device::{Arguments, Device, Kernel, Side, Source, TeamArguments, TeamPart};
use super::super::emulated::{Emulated, EmulatedProgram, HostMemory};
use super::super::slots::{Flight, Team};

/// Blocks of a team.
const BLOCKS: u32 = 4;

/// Each wave is a job of phase 0 for every block: it adds up what the blocks have left in the wave
/// before, and itself.
const SUMS: &str = "#include \"block.h\"
DEVICE void carry_out(Block& block, const Arguments& a, const u32* job, u32 slice, u32 slices) {
    if (slices != block.blocks || slice != block.index) __builtin_trap();
    block.superstep([&](u32 t) {
        if (t != 0) return;
        float* before = a.arena + job[1] * block.blocks;
        float sum = (float)(slice + 1);
        for (u32 other = 0; other < block.blocks; ++other) sum += fresh(before + other);
        before[block.blocks + slice] = sum;
    });
}
#include \"team.h\"
";

/// A plan of a device, and its memory.
struct Plan {
    part: TeamPart,
    arena: HostMemory,
    _tape: [HostMemory; 2],
}

const WAVES: u32 = 5;

impl Plan {
    /// A wave a job, each `[phase, wave, 0, 0, 0, 0]`.
    fn new(device: &Emulated) -> Self {
        let jobs: Vec<[u32; 6]> = (0..WAVES).map(|wave| [0, wave, 0, 0, 0, 0]).collect();
        let first = WAVES + 2;
        let mut words = vec![WAVES];
        words.extend((0..=WAVES).map(|wave| first + 6 * wave));
        words.extend(jobs.iter().flatten());
        words.resize(words.len().next_multiple_of(4), 0);
        let tape = memory(device, &words, Side::Host);
        let pulled = device.memory(4 * words.len(), Side::Device).unwrap();
        let arena = memory(device, &[0; (BLOCKS * (WAVES + 1)) as usize], Side::Host);
        let arguments = Arguments {
            tape: device.address(&pulled),
            arena: device.address(&arena),
            ..Arguments::default()
        };
        let part = TeamPart {
            arguments,
            tape: device.address(&tape),
            words: words.len() as u32,
            waves: WAVES,
            ..TeamPart::default()
        };
        Self { part, arena, _tape: [tape, pulled] }
    }

    /// What the last wave has left: NaN where it was not reached.
    fn left<'a>(&'a self, device: &Emulated) -> &'a [f32] {
        &device.host_floats(&self.arena)[(BLOCKS * WAVES) as usize..]
    }
}

fn memory(device: &Emulated, words: &[u32], side: Side) -> HostMemory {
    let memory = device.memory(4 * words.len(), side).unwrap();
    device.fill(&memory, words).unwrap();
    memory
}

/// A device with the program above, and a placement of its phase on all blocks of a team.
struct Subject {
    device: Arc<Emulated>,
    program: EmulatedProgram,
    places: HostMemory,
}

impl Subject {
    fn new(processors: u32) -> Option<Self> {
        let device = Arc::new(Emulated::new(1).with_size(processors, 0));
        let source = Source { text: SUMS.to_string(), kernel: Kernel::Plan };
        let program = match device.compile(&source) {
            Err(error @ CudaError::NoCompiler { .. }) => {
                edbatch_testing::skip(&error.to_string());
                return None;
            }
            compiled => compiled.unwrap(),
        };
        let places = memory(&device, &[0, BLOCKS], Side::Device);
        Some(Self { device, program, places })
    }

    fn launch(&self, plans: &[Plan]) -> Result<Vec<Flight>, CudaError> {
        let team = Team {
            device: &*self.device,
            program: &self.program,
            places: self.device.address(&self.places),
            blocks: BLOCKS,
            shared_bytes: self.device.facts().shared_bytes,
        };
        let parts: Vec<_> = plans.iter().map(|plan| plan.part).collect();
        let mut flights = Vec::new();
        self.device.slots().launch(&team, &parts, &mut flights)?;
        Ok(flights)
    }

    fn plans(&self, count: usize) -> Vec<Plan> {
        (0..count).map(|_| Plan::new(&self.device)).collect()
    }
}

/// After each wave, every block leaves its number and the sum of what was there.
fn expected() -> Vec<f32> {
    let mut row = vec![0.0; BLOCKS as usize];
    for _ in 0..WAVES {
        let sum: f32 = row.iter().sum();
        row = (1..=BLOCKS).map(|block| sum + block as f32).collect();
    }
    row
}

/// More teams than the device has side by side, again and again: counters go on where they were.
#[test]
fn every_team_carries_its_plan_out() {
    let Some(subject) = Subject::new(3 * BLOCKS + 1) else { return };
    let device = &*subject.device;
    for (round, count) in [1, 3, 2, 40, 3, 1].into_iter().enumerate() {
        let plans = subject.plans(count);
        let before = device.calls();
        let flights = subject.launch(&plans).unwrap();
        // Once all slots have their memory, plans that fit side by side are one call.
        if round > 3 {
            assert_eq!(device.calls() - before, 1);
        }
        for (plan, flight) in plans.iter().zip(flights) {
            device.slots().wait(device, flight).unwrap();
            assert_eq!(plan.left(device), expected());
        }
    }
}

/// A team whose block never comes is given up; the others' plans are done, and the slot is fit for
/// the next plan.
#[test]
fn a_team_that_waits_in_vain_fails_alone() {
    let Some(subject) = Subject::new(3 * BLOCKS) else { return };
    let device = &*subject.device;
    for round in 0..3 {
        let plans = subject.plans(3);
        // A block of the second team.
        device.set_absent(Some(BLOCKS + round));
        let flights = subject.launch(&plans).unwrap();
        device.set_absent(None);
        let waited = flights.into_iter().map(|flight| device.slots().wait(device, flight));
        let waited: Vec<_> = waited.collect();
        let late = CudaError::Late { patience: Duration::from_secs(1) };
        assert_eq!(waited, [Ok(()), Err(late), Ok(())]);
        assert_eq!(plans[0].left(device), expected());
        assert_ne!(plans[1].left(device), expected());
        assert_eq!(plans[2].left(device), expected());
        let plans = subject.plans(3);
        for (plan, flight) in plans.iter().zip(subject.launch(&plans).unwrap()) {
            device.slots().wait(device, flight).unwrap();
            assert_eq!(plan.left(device), expected());
        }
    }
}

/// Who launched a plan need not ask for its end before others take its slot.
#[test]
fn slots_come_back_of_plans_that_nobody_waits_for() {
    let Some(subject) = Subject::new(2 * BLOCKS) else { return };
    let device = &*subject.device;
    let plans = subject.plans(2);
    let began = Instant::now();
    let first = subject.launch(&plans).unwrap();
    device.set_absent(Some(0));
    let lost = subject.launch(&plans).unwrap();
    device.set_absent(None);
    // Both slots are those of plans that have ended, one of them before it was done.
    let second = subject.launch(&subject.plans(2)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(60));
    for flight in first.into_iter().chain(second).chain(lost[1..].iter().copied()) {
        device.slots().wait(device, flight).unwrap();
    }
    let late = device.slots().wait(device, lost[0]).unwrap_err();
    assert!(late.to_string().contains("EDBATCH_CUDA=waves"), "{late}");
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let Some(subject) = Subject::new(2 * BLOCKS) else { return };
    let Subject { device, program, .. } = &subject;
    let arguments = TeamArguments {
        places: 0,
        blocks: BLOCKS,
        parts: [TeamPart::default(); super::super::device::MOST_PARTS],
    };
    let shared = device.facts().shared_bytes;
    let error = device.launch_teams(program, 0, 3, shared, &arguments).unwrap_err();
    assert_eq!(
        error.to_string(),
        "blocks that run at the same time: at most 8 is possible, got 12"
    );
    let error = device.launch_teams(program, 0, 1, shared + 1, &arguments).unwrap_err();
    assert!(error.to_string().starts_with("bytes of shared memory"), "{error}");
    device.launch(program, 1, &Arguments::default()).unwrap_err();
}
