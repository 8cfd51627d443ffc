//! Chains of launches on one stream, as a step of training is: each launch runs only if the one
//! before it ended well.

mod failures;

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use super::compiled_or_skip;
use super::teams::{WAVES, one_job_per_wave};
use crate::CudaError;
use crate::device::{
    AHEAD_BYTES, Arguments, Device, Kernel, MAX_PARTS, MemorySide, ROW_BYTES, Source,
    TEAM_BARRIER_WORDS, TICKET_WORDS, TeamArguments, TeamPart,
};
use crate::emulated::Emulated;
use crate::nvidia::Nvidia;
use crate::store::Store;
use crate::team_pool::{Held, TeamKernel};

/// In each wave every block of a group adds its number to the sum of the values that all of them
/// wrote in the previous wave. The first one writes the number of blocks of the team to `indices`.
/// With `masters`, a loss is not finite; with `given`, a thread waits too long in the last wave.
const SUMS: &str = "#include \"ahead.h\"
#include \"barrier.h\"
#include \"stage.h\"
DEVICE void load_weights(TeamBlock, const Arguments&) {}
DEVICE const float* missing_row(TeamBlock, Job) { return nullptr; }
DEVICE void run_job(TeamBlock block, const Arguments& a, Job j, u32) {
    find_rows(block, j, 1);
    u32 from = start(j, 0, 0);
    block.superstep([&](u32 t) {
        if (t != 0) return;
        float* before = a.arena + from;
        float sum = (float)(j.slice + 1);
        for (u32 other = 0; other < block.slices; ++other) sum += fresh(before + other);
        before[block.slices + j.slice] = sum;
        if (j.slice == 0) *a.indices = block.blocks;
        if (a.masters != nullptr) a.stage->set_bad_input(j.slice + 5);
        if (a.given != nullptr && j.out() == 4) a.limit.barrier->set_timed_out();
    });
}
#include \"team.h\"
";

/// Doubles floats, and writes the number of the launch to host memory.
const DOUBLES: &str = "#include \"stage.h\"
struct Work {
    Stage* stage;
    u64 launch;
    Result* result;
    const float* from;
    float* to;
    u64 count;
};
DEVICE void run_block(const Block& block, const Work& work, u32 index) {
    block.superstep([&](u32 t) {
        u32 i = index * 32 + t;
        if (t < 32 && i < work.count) work.to[i] = mul(2.0f, fresh(work.from + i));
    });
}
DEVICE void end_work(const Block&, const Work&) {}
#include \"grid.h\"
";

/// The blocks of a group of the two kernels of teams.
const SLICES: [u32; 2] = [2, 4];

/// The floats of a part's arena. The row of the first kernel's last wave begins the rows of the
/// second kernel, which are wider.
const BETWEEN: usize = (WAVES * SLICES[0]) as usize;
const ARENA: usize = BETWEEN + ((WAVES + 1) * SLICES[1]) as usize;

/// `FINE` of `kernels/stage.h`.
const FINE: u32 = u32::MAX;

/// The programs of teams and of grids.
struct Programs<D: Device> {
    teams: D::Program,
    grid: D::Program,
}

/// A device with both programs.
struct Subject<D: Device> {
    device: Arc<D>,
    programs: Arc<Programs<D>>,
    places: [D::Memory; 2],
}

/// The memory of a chain.
struct Chain<D: Device> {
    /// The plans of both kernels.
    parts: [Vec<TeamPart>; 2],
    arenas: D::Memory,
    doubled: [D::Memory; 2],
    /// For each kernel and part, the blocks of its team.
    blocks: D::Memory,
    stage: D::Memory,
    told: D::Memory,
    _commands: Vec<D::Memory>,
}

fn words<D: Device>(device: &D, words: &[u32], side: MemorySide) -> D::Memory {
    let memory = device.memory(4 * words.len(), side).unwrap();
    device.fill(&memory, words).unwrap();
    memory
}

fn floats<D: Device>(device: &D, memory: &D::Memory, len: usize) -> Vec<f32> {
    let mut words = vec![0; len];
    device.read(memory, 0, &mut words).unwrap();
    words.into_iter().map(f32::from_bits).collect()
}

impl<D: Device> Programs<D> {
    fn new(device: &D) -> Result<Arc<Self>, CudaError> {
        let compile = |text: &str, kernel| {
            let source = Source { text: text.to_owned(), kernel };
            device.compile(&source, None)
        };
        let (teams, grid) = (compile(SUMS, Kernel::Plan)?, compile(DOUBLES, Kernel::Grid)?);
        Ok(Arc::new(Self { teams, grid }))
    }
}

impl Subject<Emulated> {
    /// An emulated device of a size. All of them share their programs.
    fn emulated(sms: u32) -> Option<Self> {
        static PROGRAMS: OnceLock<Result<Arc<Programs<Emulated>>, CudaError>> = OnceLock::new();
        let programs = PROGRAMS.get_or_init(|| Programs::new(&Emulated::new(1)));
        let programs = compiled_or_skip(programs.clone())?;
        Some(Self::new(Emulated::new(1).with_size(sms, 0), programs))
    }
}

impl<D: Device> Subject<D> {
    fn new(device: D, programs: Arc<Programs<D>>) -> Self {
        let places = SLICES.map(|slices| words(&device, &[0, slices], MemorySide::Device));
        Self { device: Arc::new(device), programs, places }
    }

    fn kernel(&self, number: usize) -> TeamKernel<'_, D> {
        TeamKernel {
            device: &*self.device,
            program: &self.programs.teams,
            places: self.device.address(&self.places[number]),
            slices: SLICES[number],
            resident: 0,
            shared_bytes: self.device.properties().shared_bytes,
            parked: (0, 0),
            barriers: false,
        }
    }

    /// Returns the memory of a chain after launch `done`.
    fn chain(&self, parts: usize, done: u32) -> Chain<D> {
        let device = &*self.device;
        // Both kernels begin with zeros; what they write is NaN before.
        let mut arena = [f32::NAN.to_bits(); ARENA];
        arena[..SLICES[0] as usize].fill(0);
        arena[BETWEEN + SLICES[0] as usize..BETWEEN + SLICES[1] as usize].fill(0);
        let arenas = words(device, &arena.repeat(parts), MemorySide::Device);
        let nan = vec![f32::NAN.to_bits(); ARENA * parts];
        let doubled = [(); 2].map(|()| words(device, &nan, MemorySide::Device));
        let blocks = words(device, &vec![0; 2 * parts], MemorySide::Device);
        let (stage, told) =
            (device.memory(32, MemorySide::Device), device.memory(32, MemorySide::Host));
        let (stage, mut told) = (stage.unwrap(), told.unwrap());
        device.host_mut(&mut told).fill(0);
        let mut commands = Vec::new();
        let mut of_kernel = |number: usize| {
            let list = one_job_per_wave(SLICES[number]);
            let host = words(device, &list, MemorySide::Host);
            let own = (0..parts).map(|part| {
                let copied = words(device, &list, MemorySide::Device);
                let begin = ARENA * part + number * BETWEEN;
                let arguments = Arguments {
                    commands: device.address(&copied),
                    arena: device.address(&arenas) + 4 * begin as u64,
                    indices: device.address(&blocks) + 4 * (number * parts + part) as u64,
                    stage: device.address(&stage),
                    ..Arguments::default()
                };
                commands.push(copied);
                let (host_commands, words) = (device.address(&host), list.len() as u32);
                let (waves, job) = (WAVES, 16);
                TeamPart { arguments, host_commands, words, waves, job, ..TeamPart::default() }
            });
            let own = own.collect::<Vec<_>>();
            commands.push(host);
            own
        };
        let parts = [of_kernel(0), of_kernel(1)];
        let chain = Chain { parts, arenas, doubled, blocks, stage, told, _commands: commands };
        self.set_stage(&chain, done);
        chain
    }

    fn set_stage(&self, chain: &Chain<D>, done: u32) {
        self.device.fill(&chain.stage, &[done, 0, FINE, FINE, 0, 0, 0, 0]).unwrap();
    }

    /// Returns the last launch that ended well, the teams or blocks of the next that have ended,
    /// and the first bad input.
    fn stage(&self, chain: &Chain<D>) -> [u32; 3] {
        let mut words = [0; 3];
        self.device.read(&chain.stage, 0, &mut words).unwrap();
        words
    }

    fn hold(&self, parts: usize) -> Held<&D> {
        self.device.team_pool().hold(&*self.device, &SLICES, parts).unwrap()
    }

    /// Enqueues all launches: of both kernels of teams, and of two grids. Returns the number of the
    /// last one.
    fn enqueue(&self, held: &mut Held<&D>, chain: &Chain<D>, done: u32) -> Result<u32, CudaError> {
        let (device, mut last) = (&*self.device, done);
        let at = |memory: &D::Memory| device.address(memory);
        for (number, parts) in chain.parts.iter().enumerate() {
            let stage = (at(&chain.stage), last.wrapping_add(1));
            last = last.wrapping_add(held.enqueue(&self.kernel(number), parts, Some(stage))?);
        }
        let all = [&chain.arenas, &chain.doubled[0], &chain.doubled[1]];
        let count = ARENA * chain.parts[0].len();
        for (pair, told) in all.windows(2).zip([0, at(&chain.told)]) {
            last = last.wrapping_add(1);
            let [from, to] = [pair[0], pair[1]].map(at);
            let work = [at(&chain.stage), last.into(), told, from, to, count as u64];
            device.launch_grid(
                &self.programs.grid,
                held.stream(),
                count.div_ceil(32),
                AHEAD_BYTES,
                &work,
            )?;
        }
        Ok(last)
    }

    /// Runs a chain that ends well. Returns the number of its last launch.
    fn run(&self, chain: &Chain<D>, done: u32) -> u32 {
        let mut held = self.hold(chain.parts[0].len());
        let last = self.enqueue(&mut held, chain, done).unwrap();
        held.wait(|| self.device.word(&chain.told, 0) == last).unwrap();
        while !self.device.is_idle(held.stream()).unwrap() {}
        held.release();
        last
    }

    /// Checks the memory after a chain that ended well.
    fn check(&self, chain: &Chain<D>, last: u32) {
        let (device, parts) = (&*self.device, chain.parts[0].len());
        assert_eq!(self.stage(chain), [last, 0, FINE], "{parts} parts");
        let arena = expected();
        let got = floats(device, &chain.arenas, ARENA * parts);
        assert_eq!(got, arena.repeat(parts));
        for (doubled, factor) in chain.doubled.iter().zip([2.0, 4.0]) {
            let expected: Vec<f32> = got.iter().map(|x| factor * x).collect();
            assert_eq!(floats(device, doubled, ARENA * parts), expected);
        }
    }

    /// Checks chains in which a team of the first or second kernel times out, and later chains.
    fn check_timeouts(&self) {
        let device = &*self.device;
        for (number, part) in [(0, 0), (0, 2), (1, 1)] {
            let mut chain = self.chain(3, 7);
            chain.parts[number][part].arguments.given = device.address(&chain.doubled[0]);
            let mut held = self.hold(3);
            let last = self.enqueue(&mut held, &chain, 7).unwrap();
            held.wait(|| device.word(&chain.told, 0) == last).unwrap();
            drop(held);
            // Two teams have ended.
            assert_eq!(self.stage(&chain), [7 + number as u32, 2, FINE], "part {part}");
            assert_eq!(written(&floats(device, &chain.doubled[0], 3 * ARENA)), 0);
            let next = self.chain(3, 20);
            let last = self.run(&next, 20);
            self.check(&next, last);
        }
    }

    /// Returns the blocks of the teams of both kernels.
    fn blocks(&self, chain: &Chain<D>) -> [Vec<u32>; 2] {
        let parts = chain.parts[0].len();
        let mut words = vec![0; 2 * parts];
        self.device.read(&chain.blocks, 0, &mut words).unwrap();
        [words[..parts].to_vec(), words[parts..].to_vec()]
    }
}

/// The arena of a part after both kernels.
fn expected() -> Vec<f32> {
    let mut arena = vec![0.0; ARENA];
    for (begin, slices) in [0, BETWEEN].into_iter().zip(SLICES) {
        let width = slices as usize;
        for wave in 0..WAVES as usize {
            let row = &mut arena[begin + wave * width..][..2 * width];
            let sum: f32 = row[..width].iter().sum();
            row[width..].iter_mut().zip(1..).for_each(|(x, block)| *x = sum + block as f32);
        }
    }
    arena
}

/// Returns the number of elements of memory that were written.
fn written(floats: &[f32]) -> usize {
    floats.iter().filter(|x| !x.is_nan()).count()
}

#[test]
fn a_chain_runs_its_launches_one_after_the_other() {
    // Of the second kernel's teams, 3 fit on the first device, and 33 on the second one.
    for (sms, cases) in [(13, [40, 1, 3, 2, 7]), (135, [70, 1, 32, 33, 100])] {
        let Some(subject) = Subject::emulated(sms) else { return };
        let (device, mut done) = (&*subject.device, u32::MAX - 20);
        for (round, parts) in cases.into_iter().enumerate() {
            let chain = subject.chain(parts, done);
            let (calls, launches) = (device.calls(), device.launches());
            let last = subject.run(&chain, done);
            let (calls, launches) = (device.calls() - calls, device.launches() - launches);
            subject.check(&chain, last);
            let at_once = (sms as usize / 4).min(MAX_PARTS);
            let expected = 2 * parts.div_ceil(at_once) + 2;
            assert_eq!(launches, expected as u64, "{parts} parts");
            // The numbers continue after the last one of 32 bits.
            assert_eq!(last.wrapping_sub(done) as usize, expected, "{parts} parts");
            // Each team takes two allocations and sets its barrier to zero, once.
            let allocated = if round == 0 { 3 * at_once as u64 } else { 0 };
            assert_eq!(calls - launches, allocated, "{parts} parts");
            done = last;
        }
    }
}

#[test]
fn the_plans_of_a_launch_share_all_held_sms() {
    let Some(subject) = Subject::emulated(22) else { return };
    for (parts, blocks) in [
        (1, [&[22][..], &[20]]),
        // Each team of the second kernel has two groups, of 8 blocks together.
        (2, [&[10, 10], &[8, 8]]),
        (3, [&[6, 6, 6], &[4, 4, 4]]),
        (5, [&[4, 4, 4, 4, 4], &[4, 4, 4, 4, 4]]),
        // Five teams; in the last launch one or two plans have the SMs of all.
        (6, [&[4, 4, 4, 4, 4, 20], &[4, 4, 4, 4, 4, 20]]),
        (7, [&[4, 4, 4, 4, 4, 10, 10], &[4, 4, 4, 4, 4, 8, 8]]),
    ] {
        let chain = subject.chain(parts, 0);
        subject.run(&chain, 0);
        assert_eq!(subject.blocks(&chain), blocks.map(<[u32]>::to_vec), "{parts} parts");
    }
}

#[test]
fn chains_of_several_threads_share_a_device() {
    let Some(subject) = Subject::emulated(3 * SLICES[1]) else { return };
    std::thread::scope(|scope| {
        for parts in [1, 2, 3, 5] {
            let subject = &subject;
            scope.spawn(move || {
                let mut done = 0;
                for _ in 0..20 {
                    let chain = subject.chain(parts, done);
                    done = subject.run(&chain, done);
                    subject.check(&chain, done);
                }
            });
        }
    });
}
