//! Compares the kernels with the CPU's, bit by bit: on the emulated device, and on a GPU if one is
//! available.

mod adjoints;
mod banks;
mod barriers;
mod chains;
mod compiled;
mod functions;
mod grids;
mod launches;
mod levels;
mod losses;
mod model;
mod placed;
mod products;
mod ptx;
mod rows;
mod stored;
mod teams;
mod tensor;
mod tiles;
mod trained;
mod training;
mod waits;

use super::CudaError;
use super::device::{self, Arguments, Device, MemorySide, Source, TeamPart};
use super::emulated::Emulated;
use super::nvidia::Nvidia;
use super::store::Store;
use super::team_pool::TeamKernel;
use edbatch_runtime::kernels::Level;

/// The number of launches per comparison, each with a different order of threads and blocks.
const ORDERS: usize = 3;

/// Returns the CPU levels with fused multiply-adds: a device must compute the same bits.
fn levels() -> Vec<Level> {
    let mut levels = Level::available();
    levels.retain(|&level| level != Level::Portable);
    if levels.is_empty() {
        edbatch_testing::skip("this CPU has no fused multiply-adds");
    }
    levels
}

/// Returns what was compiled. Without a compiler, counts a skipped test and returns `None`.
#[track_caller]
fn compiled_or_skip<T>(compiled: Result<T, CudaError>) -> Option<T> {
    edbatch_testing::or_skip(compiled, |error| matches!(error, CudaError::NoCompiler { .. }))
}

/// A compiled source on a device.
struct Kernel<D: Device> {
    device: D,
    program: D::Program,
}

/// The memory after a launch.
#[derive(Debug)]
struct Left {
    arena: Vec<f32>,
    indices: Vec<u32>,
}

/// The arguments of a launch: blocks, commands, weights, arena, and the number of NaN after the
/// arena.
type Launch<'a> = (u32, &'a [u32], &'a [f32], &'a [f32], usize);

/// Compiles functions and the body of `wave` for the host, and for a GPU if one is available. The
/// result launches them in several orders on the host, and once on the GPU. Returns `None` without
/// a C++ compiler.
fn everywhere(
    functions: &str,
    wave: &str,
) -> Option<impl Fn(Launch<'_>) -> Vec<(String, Left)> + use<>> {
    let emulated = Kernel::emulated(1, functions, wave)?;
    let nvidia = Nvidia::new(0, Store::of_user()).ok();
    let nvidia = nvidia.map(|device| Kernel::new(device, functions, wave).unwrap());
    Some(move |launch: Launch<'_>| {
        let orders = 0..ORDERS;
        let orders = orders.map(|order| (format!("order {order}"), emulated.run(launch)));
        let nvidia = nvidia.iter();
        let nvidia =
            nvidia.map(|kernel| (kernel.device.properties().name.clone(), kernel.run(launch)));
        orders.chain(nvidia).collect()
    })
}

impl Kernel<Emulated> {
    /// Compiles for the emulated device. Returns `None` without a C++ compiler.
    fn emulated(seed: u32, functions: &str, wave: &str) -> Option<Self> {
        Self::with_options(seed, functions, wave, &[])
    }

    fn with_options(
        seed: u32,
        functions: &str,
        wave: &str,
        options: &[&'static str],
    ) -> Option<Self> {
        let device = Emulated::with_options(seed, options).with_size(64, ROOM);
        compiled_or_skip(Self::new(device, functions, wave))
    }
}

impl<D: Device> Kernel<D> {
    fn new(device: D, functions: &str, wave: &str) -> Result<Self, CudaError> {
        let program = device.compile(&source(functions, wave), None)?;
        Ok(Self { device, program })
    }

    fn run(&self, (blocks, commands, weights, arena, more): Launch<'_>) -> Left {
        let behind = vec![f32::NAN; more];
        // One wave with one job, which all blocks divide.
        let mut words = vec![1, 16, 0, 0, 16, 1, 0, 0];
        words.resize(16, 0);
        words.extend([0, 1, 0, 0, blocks, 0, 16]);
        words.resize(32, 0);
        words.extend(commands);
        words.resize(words.len().next_multiple_of(4), 0);
        let commands = self.memory(words.iter().copied(), MemorySide::Host);
        let device_commands = self.memory(words.iter().copied(), MemorySide::Device);
        let weights = self.memory(weights.iter().map(|x| x.to_bits()), MemorySide::Device);
        let arena = self.memory(arena.iter().chain(&behind).map(|x| x.to_bits()), MemorySide::Host);
        let indices = self.memory([0; 16], MemorySide::Host);
        // The place of a phase with unit tiles, whose rings have four stages.
        let mut place = vec![0; 48];
        place[..4].copy_from_slice(&[0, blocks, 0, 4]);
        let places = self.memory(place, MemorySide::Device);
        let device = &self.device;
        let arguments = Arguments {
            commands: device.address(&device_commands),
            arena: device.address(&arena),
            weights: device.address(&weights),
            indices: device.address(&indices),
            ..Arguments::default()
        };
        let (host_commands, words) = (device.address(&commands), words.len() as u32);
        let part =
            TeamPart { arguments, host_commands, words, waves: 1, job: 16, ..TeamPart::default() };
        let (program, places) = (&self.program, device.address(&places));
        let shared_bytes = device::AHEAD_BYTES + device::ROW_BYTES + ROOM;
        let (slices, resident) = (blocks, (RESIDENT / 4) as u32);
        let sums = self.memory(vec![0; blocks as usize * PARKED / 4], MemorySide::Device);
        let kernel = TeamKernel {
            device,
            program,
            places,
            slices,
            resident,
            shared_bytes,
            parked: (device.address(&sums), PARKED),
            barriers: false,
        };
        device.team_pool().run(&kernel, &[part]).unwrap();
        Left { arena: device.host_floats(&arena).to_vec(), indices: device.host(&indices).to_vec() }
    }

    fn memory(&self, words: impl IntoIterator<Item = u32>, side: MemorySide) -> D::Memory {
        let words: Vec<u32> = words.into_iter().collect();
        let memory = self.device.memory(4 * words.len(), side).unwrap();
        self.device.fill(&memory, &words).unwrap();
        memory
    }
}

/// `LIST` of `kernels/job.h`.
const LIST: usize = u32::MAX as usize;

/// Bytes of resident weights of a block, and with more room for rows.
const RESIDENT: usize = 84 << 10;
const ROOM: usize = RESIDENT + (76 << 10);

/// Bytes of a block for the sums of a product of a tile of 256 rows.
const PARKED: usize = 64 << 10;

/// Returns a source with all headers, whose only job runs `wave`. There, the command list begins
/// with the caller's words. A first line of `functions` that defines a precision comes first.
fn source(functions: &str, wave: &str) -> Source {
    let define = functions.lines().next().filter(|line| line.starts_with("#define")).unwrap_or("");
    let text = format!(
        "{define}\n#include \"ahead.h\"\n#include \"attention.h\"\n#include \"outputs.h\"\n\
         #include \"small.h\"\n\
         #include \"large.h\"\n#include \"ring.h\"\n#include \"tensor_tile.h\"\n\n{functions}\n\n\
         DEVICE void wave(TeamBlock block, const Arguments& a) {{\n{wave}\n}}\n\
         DEVICE void load_weights(TeamBlock, const Arguments&) {{}}\n\
         DEVICE const float* missing_row(TeamBlock, Job) {{ return nullptr; }}\n\
         DEVICE void run_job(TeamBlock block, Arguments a, Job, u32) {{\n\
         a.commands += 32;\nwave(block, a);\n}}\n\n#include \"team.h\"\n"
    );
    Source { text, kernel: device::Kernel::Plan }
}

/// Panics at the first element with different bits. All NaN are equal.
#[track_caller]
fn assert_same_bits(got: &[f32], expected: &[f32], what: impl Fn() -> String) {
    assert_eq!(got.len(), expected.len(), "{}", what());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let same = g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan());
        assert!(same, "{}: [{i}] is {g:e}, expected {e:e}", what());
    }
}

/// A random generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }

    fn float(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Returns floats in -1..1, and if `special`, sometimes zeros, infinities, NaN and extremes.
    fn floats(&mut self, len: usize, special: bool) -> Vec<f32> {
        const SPECIAL: [f32; 7] =
            [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, f32::MAX];
        let mut float = || match self.below(40) {
            0 if special => SPECIAL[self.below(SPECIAL.len())],
            _ => self.float(),
        };
        (0..len).map(|_| float()).collect()
    }
}
