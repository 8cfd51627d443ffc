//! Launches of teams: their results, and timeouts of barriers.

use std::sync::Arc;
use std::time::Duration;

use super::compiled_or_skip;
use crate::CudaError;
use crate::device::{Arguments, Device, Kernel, MemorySide, Source, TeamArguments, TeamPart};
use crate::emulated::{Emulated, EmulatedProgram, HostMemory};
use crate::team_pool::TeamKernel;

/// Blocks of a team.
const BLOCKS: u32 = 4;

/// In each wave every block runs a job of phase 0: it adds its number to the sum of the values that
/// all blocks wrote in the previous wave. Then it erases what all blocks have loaded before the
/// wave: the entries of this wave and of the next two, the jobs of this one and of the next, and
/// the start of its row. A block that reads any of these once more has another sum.
const SUMS: &str = "#include \"ahead.h\"
DEVICE void load_weights(TeamBlock, const Arguments&) {}
DEVICE const float* missing_row(TeamBlock, Job) { return nullptr; }
DEVICE void run_job(TeamBlock block, const Arguments& a, Job j, u32) {
    u32 slice = j.slice;
    if (j.slices != block.slices || slice != block.index) __builtin_trap();
    find_rows(block, j, 1);
    u32 from = start(j, 0, 0);
    block.superstep([&](u32 t) {
        if (t != 0) return;
        float* before = a.arena + from;
        float sum = (float)(slice + 1);
        for (u32 other = 0; other < block.slices; ++other) sum += fresh(before + other);
        before[block.slices + slice] = sum;
        u32 *list = (u32*)a.commands, wave = j.out();
        if (wave == 0) return;
        for (u32 i = 4; i < 4 * (wave + 4) && i < 32; ++i) list[i] = 0;
        for (u32 i = 32; i < 32 + 16 * (wave + 2) && i < 32 + 16 * 5; ++i) list[i] = 0;
        list[32 + 16 * 5 + wave] = 0;
    });
}
#include \"team.h\"
";

/// A plan and its memory.
struct Plan {
    part: TeamPart,
    arena: HostMemory,
    _commands: [HostMemory; 2],
}

pub(super) const WAVES: u32 = 5;

/// A command list with one job per wave for a group of `slices` blocks. Its output is the number of
/// the wave, and its operand is a list of one row, of an element for each block.
pub(super) fn one_job_per_wave(slices: u32) -> Vec<u32> {
    let mut words = vec![WAVES, 16, 0, 0];
    words.extend((0..WAVES).flat_map(|wave| [32 + 16 * wave, 1, 0, 0]));
    for wave in 0..WAVES {
        words.resize(32 + 16 * wave as usize, 0);
        let list = 32 + 16 * WAVES + wave;
        words.extend([0, 1, wave, 0, slices, 1, 16, 1, list, u32::MAX]);
    }
    words.resize(32 + 16 * WAVES as usize, 0);
    words.extend((0..WAVES).map(|wave| wave * slices));
    words.resize(words.len().next_multiple_of(4), 0);
    words
}

impl Plan {
    fn new(device: &Emulated) -> Self {
        let words = one_job_per_wave(BLOCKS);
        let commands = memory(device, &words, MemorySide::Host);
        let device_commands = device.memory(4 * words.len(), MemorySide::Device).unwrap();
        let arena = memory(device, &[0; (BLOCKS * (WAVES + 1)) as usize], MemorySide::Host);
        let arguments = Arguments {
            commands: device.address(&device_commands),
            arena: device.address(&arena),
            ..Arguments::default()
        };
        let part = TeamPart {
            arguments,
            host_commands: device.address(&commands),
            words: words.len() as u32,
            waves: WAVES,
            job: 16,
            ..TeamPart::default()
        };
        Self { part, arena, _commands: [commands, device_commands] }
    }

    /// Returns the values of the last wave, which are NaN if it did not run.
    fn left<'a>(&'a self, device: &Emulated) -> &'a [f32] {
        &device.host_floats(&self.arena)[(BLOCKS * WAVES) as usize..]
    }
}

fn memory(device: &Emulated, words: &[u32], side: MemorySide) -> HostMemory {
    let memory = device.memory(4 * words.len(), side).unwrap();
    device.fill(&memory, words).unwrap();
    memory
}

/// A device with the program above, whose phase is divided between all blocks of a team.
struct Subject {
    device: Arc<Emulated>,
    program: Arc<EmulatedProgram>,
    places: HostMemory,
}

impl Subject {
    fn new(sms: u32) -> Option<Self> {
        let device = Arc::new(Emulated::new(1).with_size(sms, 0));
        let source = Source { text: SUMS.to_string(), kernel: Kernel::Plan };
        let program = compiled_or_skip(device.compile(&source, None))?;
        let places = memory(&device, &[0, BLOCKS], MemorySide::Device);
        Some(Self { device, program, places })
    }

    fn run(&self, plans: &[Plan]) -> Result<(), CudaError> {
        let kernel = TeamKernel {
            device: &*self.device,
            program: &self.program,
            places: self.device.address(&self.places),
            slices: BLOCKS,
            resident: 0,
            shared_bytes: self.device.properties().shared_bytes,
            parked: (0, 0),
            barriers: false,
        };
        let parts: Vec<_> = plans.iter().map(|plan| plan.part).collect();
        self.device.team_pool().run(&kernel, &parts)
    }

    fn plans(&self, count: usize) -> Vec<Plan> {
        (0..count).map(|_| Plan::new(&self.device)).collect()
    }
}

/// The values after the last wave.
fn expected() -> Vec<f32> {
    let mut row = vec![0.0; BLOCKS as usize];
    for _ in 0..WAVES {
        let sum: f32 = row.iter().sum();
        row = (1..=BLOCKS).map(|block| sum + block as f32).collect();
    }
    row
}

/// This holds even if there are more plans than teams that fit on the device.
#[test]
fn every_plan_runs_to_its_end() {
    let Some(subject) = Subject::new(3 * BLOCKS + 1) else { return };
    let device = &*subject.device;
    for (round, count) in [1, 3, 2, 40, 3, 1].into_iter().enumerate() {
        let plans = subject.plans(count);
        let before = device.calls();
        subject.run(&plans).unwrap();
        // Once all teams have memory, plans that fit on the device together take one driver call.
        // The first team takes two allocations and sets its barrier to zero.
        match round {
            0 => assert_eq!(device.calls() - before, 4),
            4.. => assert_eq!(device.calls() - before, 1),
            _ => {}
        }
        assert!(plans.iter().all(|plan| plan.left(device) == expected()));
    }
}

#[test]
fn a_barrier_timeout_fails_one_plan_and_leaves_the_team_usable() {
    let Some(subject) = Subject::new(3 * BLOCKS) else { return };
    let device = &*subject.device;
    for round in 0..3 {
        let plans = subject.plans(3);
        // A block of the second team.
        device.set_absent(Some(BLOCKS + round));
        let error = subject.run(&plans).unwrap_err();
        device.set_absent(None);
        assert_eq!(error, CudaError::BarrierTimeout { timeout: Duration::from_secs(1) });
        assert_eq!(plans[0].left(device), expected());
        assert_ne!(plans[1].left(device), expected());
        assert_eq!(plans[2].left(device), expected());
        let plans = subject.plans(3);
        subject.run(&plans).unwrap();
        assert!(plans.iter().all(|plan| plan.left(device) == expected()));
        // Failed launches have no times. The emulated device has the host's clock.
        let times = device.team_pool().times();
        assert_eq!(times.launches, u64::from(round) + 1);
        assert!(0 < times.device_ns && times.device_ns <= times.seen_ns, "{times:?}");
    }
}

#[test]
fn threads_wait_for_free_sms() {
    let Some(subject) = Subject::new(2 * BLOCKS) else { return };
    let device = &*subject.device;
    std::thread::scope(|scope| {
        for count in [1, 2, 3, 2] {
            let subject = &subject;
            scope.spawn(move || {
                for _ in 0..50 {
                    let plans = subject.plans(count);
                    subject.run(&plans).unwrap();
                    assert!(plans.iter().all(|plan| plan.left(device) == expected()));
                }
            });
        }
    });
}

#[test]
fn launches_that_do_not_fit_are_errors() {
    let Some(subject) = Subject::new(2 * BLOCKS) else { return };
    let Subject { device, program, .. } = &subject;
    let arguments = TeamArguments {
        places: 0,
        stage: 0,
        launch: 0,
        blocks: BLOCKS,
        slices: BLOCKS,
        resident: 0,
        room: 0,
        barriers: 0,
        parts: [TeamPart::default(); crate::device::MAX_PARTS],
    };
    let shared = device.properties().shared_bytes;
    let error = device.launch_teams(program, 0, 3, shared, &arguments).unwrap_err();
    assert_eq!(error.to_string(), "blocks that run at the same time: expected at most 8, got 12");
    let error = device.launch_teams(program, 0, 1, shared + 1, &arguments).unwrap_err();
    assert!(error.to_string().starts_with("bytes of shared memory"), "{error}");
}
