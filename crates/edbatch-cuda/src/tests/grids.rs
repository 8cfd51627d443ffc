//! The kernels of sums and updates: they have the CPU's bits.

mod totals;

use edbatch_runtime::kernels::{Change, Level, RowsMut, RowsRef, Rule, accumulate, outer, update};
use edbatch_runtime::{Clipping, Gradient, Gradients};

use super::{Random, assert_same_bits, compiled_or_skip, levels};
use crate::device::{self, AHEAD_BYTES, Device, Kernel, MemorySide};
use crate::emulated::Emulated;
use crate::nvidia::Nvidia;
use crate::store::Store;
use crate::update::{Changed, Changes};

/// A compiled kernel on a device, and the state of its steps.
struct Grid<D: Device> {
    device: D,
    program: D::Program,
    stage: D::Memory,
    /// The message to the host.
    result: D::Memory,
}

/// `FINE` of `kernels/stage.h`.
const FINE: u32 = u32::MAX;

impl<D: Device> Grid<D> {
    fn new(device: D, text: &str) -> Result<Self, crate::CudaError> {
        let source = device::Source { text: text.to_owned(), kernel: Kernel::Grid };
        let program = device.compile(&source, None)?;
        let stage = device.memory(32, MemorySide::Device)?;
        let result = device.memory(32, MemorySide::Host)?;
        Ok(Self { device, program, stage, result })
    }

    /// Forgets all launches. `done` was the last one.
    fn set_stage(&self, done: u32, squared_norm: f64) {
        let norm = squared_norm.to_bits();
        let words = [done, 0, FINE, FINE, 0, 0, norm as u32, (norm >> 32) as u32];
        self.device.fill(&self.stage, &words).unwrap();
    }

    /// Returns the state: the last launch, the blocks of the next, the input and the parameter that
    /// are not finite, and the squared norm.
    fn stage(&self) -> ([u32; 4], f64) {
        let mut words = [0; 8];
        self.device.read(&self.stage, 0, &mut words).unwrap();
        let norm = f64::from_bits(u64::from(words[6]) | u64::from(words[7]) << 32);
        ([words[0], words[1], words[2], words[3]], norm)
    }

    /// Returns the bits of the loss and of the squared norm that the host was told.
    fn result(&self) -> (u64, u64) {
        let words = self.device.host(&self.result);
        let double = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        (double(4), double(6))
    }

    fn memory(&self, words: &[u32]) -> D::Memory {
        let memory = self.device.memory(4 * words.len().max(1), MemorySide::Device).unwrap();
        self.device.fill(&memory, words).unwrap();
        memory
    }

    fn floats(&self, floats: &[f32]) -> D::Memory {
        self.memory(&floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    }

    fn read(&self, memory: &D::Memory, len: usize) -> Vec<f32> {
        let mut words = vec![0; len];
        self.device.read(memory, 0, &mut words).unwrap();
        words.into_iter().map(f32::from_bits).collect()
    }

    fn at(&self, memory: &D::Memory) -> u64 {
        self.device.address(memory)
    }

    /// Runs launch `launch` with the other arguments.
    fn run(&self, launch: u64, blocks: usize, floats: usize, arguments: &[u64]) {
        let result = self.at(&self.result);
        let arguments = [&[self.at(&self.stage), launch, result], arguments].concat();
        let bytes = AHEAD_BYTES + 4 * floats;
        self.device.launch_grid(&self.program, 0, blocks, bytes, &arguments).unwrap();
        while !self.device.is_idle(0).unwrap() {}
    }
}

/// Returns a kernel on the emulated device, whose later launches have other orders, and on a GPU if
/// one is available.
fn grids(text: &str) -> Option<(Grid<Emulated>, Option<Grid<Nvidia>>)> {
    let emulated = compiled_or_skip(Grid::new(Emulated::new(1).with_size(12, 96 << 10), text))?;
    let nvidia = Nvidia::new(0, Store::of_user()).ok();
    Some((emulated, nvidia.map(|device| Grid::new(device, text).unwrap())))
}

const SUMS: &str = include_str!("../kernels/sums.cu");
/// Floats of shared memory of its blocks: four stages of 16 pairs of two rows of a tile.
const SUMS_FLOATS: usize = 4 * 16 * 2 * 128;

/// A sum of some size, its calls, and the gradient before and after them.
struct Sum {
    words: [u32; 9],
    starts: Vec<u32>,
    before: Vec<f32>,
}

impl Sum {
    /// A sum of products of `outputs` times `depth` elements; or, if the depth is 0, of elements.
    fn new([outputs, depth, pairs]: [usize; 3], calls: usize, random: &mut Random) -> Self {
        let delta = random.below(9);
        let x = delta + pairs * outputs + random.below(5);
        let stride = (x + pairs * depth).next_multiple_of(16);
        let starts = (0..calls).map(|_| (random.below(7) * stride) as u32).collect();
        let before = random.floats(outputs * depth.max(1), true);
        let x = if depth == 0 { u32::MAX } else { x as u32 };
        let [outputs, depth, pairs] = [outputs, depth, pairs].map(|size| size as u32);
        Self { words: [0, 0, delta as u32, x, outputs, depth, pairs, 0, 0], starts, before }
    }

    /// The elements of the arena that calls read at most.
    fn end(&self) -> usize {
        let [_, _, delta, x, outputs, depth, pairs, ..] = self.words.map(|word| word as usize);
        let width = if depth == 0 { delta + outputs } else { x + pairs * depth };
        self.starts.iter().max().map_or(0, |start| *start as usize + width)
    }

    fn expected(&self, level: Level, arena: &[f32], from_zero: bool) -> Vec<f32> {
        let [_, _, delta, x, outputs, depth, pairs, ..] = self.words.map(|word| word as usize);
        let mut sum = if from_zero { vec![0.0; self.before.len()] } else { self.before.clone() };
        if self.starts.is_empty() {
            return sum;
        }
        let rows = |place: usize, width: usize| -> Vec<u32> {
            let of_call = |start: &u32| {
                let start = *start;
                (0..pairs).map(move |pair| start + (place + pair * width) as u32)
            };
            self.starts.iter().flat_map(of_call).collect()
        };
        let deltas = rows(delta, outputs);
        let deltas = RowsRef::List { data: arena, offsets: &deltas };
        if depth == 0 {
            accumulate(level, &deltas, &mut sum);
        } else {
            let xs = rows(x, depth);
            let xs = RowsRef::List { data: arena, offsets: &xs };
            outer(level, &deltas, 0, &xs, RowsMut::contiguous(&mut sum, depth));
        }
        sum
    }

    /// `flags` are the kernel's: 1 if sums begin with zero, 2 if rows are beside gradients.
    fn check<D: Device>(all: &[Self], grid: &Grid<D>, arena: &[f32], flags: u32, is_large: bool) {
        let (mut sums, mut tiles, mut gradients) = (vec![], vec![], vec![]);
        let mut calls = vec![];
        let elements: usize = all.iter().map(|sum| sum.before.len()).sum();
        let (is_beside, from_zero) = (flags & 2 != 0, flags & 1 != 0);
        let behind = elements.next_multiple_of(16);
        for (number, sum) in all.iter().enumerate() {
            let mut words = sum.words;
            words[0] = calls.len() as u32;
            let first = if is_beside { behind as u32 } else { 0 };
            calls.extend(sum.starts.iter().map(|start| first + start));
            (words[1], words[7], words[8]) = (calls.len() as u32, gradients.len() as u32, flags);
            sums.extend(words);
            let [_, _, _, _, outputs, depth, ..] = sum.words;
            let is_large = is_large && depth > 0;
            tiles.extend(crate::sums::tiles(number as u32, [outputs, depth], is_large));
            gradients.extend(&sum.before);
        }
        if is_beside {
            gradients.resize(behind, f32::NAN);
            gradients.extend(arena);
        }
        let gradient = grid.floats(&gradients);
        let [sums, of_tiles] = [&sums, tiles.as_flattened()].map(|words| grid.memory(words));
        let unread = vec![f32::NAN; arena.len()];
        let (calls, data) =
            (grid.memory(&calls), grid.floats(if is_beside { &unread } else { arena }));
        grid.set_stage(4, 0.0);
        let arguments = [&sums, &of_tiles, &calls, &data, &gradient].map(|memory| grid.at(memory));
        grid.run(5, tiles.len(), SUMS_FLOATS, &arguments);
        assert_eq!(grid.stage().0, [5, 0, FINE, FINE]);
        let gradients = &gradients[..elements];
        let got = grid.read(&gradient, gradients.len());
        for level in levels() {
            let expected: Vec<f32> =
                all.iter().flat_map(|sum| sum.expected(level, arena, from_zero)).collect();
            assert_same_bits(&got, &expected, || {
                let sizes: Vec<_> = all.iter().map(|sum| (sum.words, sum.starts.len())).collect();
                format!("{sizes:?}, large: {is_large}, from zero: {from_zero}")
            });
        }
    }
}

#[test]
fn sums_over_calls_have_the_bits_of_the_cpu() {
    let Some((emulated, nvidia)) = grids(SUMS) else { return };
    let mut random = Random(7);
    let edges = [1, 5, 13, 21, 64, 65, 130, 300];
    for calls in [0, 1, 15, 16, 17, 48, 70] {
        let mut all = Vec::new();
        for _ in 0..6 {
            let [outputs, depth] = [0; 2].map(|_| edges[random.below(edges.len())]);
            let pairs = if random.below(3) == 0 { 1 + random.below(3) } else { 1 };
            all.push(Sum::new([outputs, depth, pairs], calls, &mut random));
        }
        all.push(Sum::new([edges[random.below(edges.len())], 0, 1], calls, &mut random));
        let end = all.iter().map(Sum::end).max().unwrap_or(0);
        let arena = random.floats(end.next_multiple_of(16), true);
        for (flags, is_large) in [(1, false), (2, false), (0, true), (3, true)] {
            Sum::check(&all, &emulated, &arena, flags, is_large);
            nvidia.iter().for_each(|grid| Sum::check(&all, grid, &arena, flags, is_large));
        }
    }
}

const ROWS: &str = include_str!("../kernels/rows.cu");

#[test]
fn sums_of_named_rows_have_the_bits_of_the_cpu() {
    let Some((emulated, _)) = grids(ROWS) else { return };
    let mut random = Random(11);
    for count in [0_usize, 1, 7, 8, 9, 50] {
        // Two fields; the second one is wider than a warp.
        let fields = [[3, 0, 5], [16, 8, 70]];
        let (stride, width) = (96, 80);
        let arena = random.floats(stride * 20, true);
        let (mut rows, mut list, mut lists) = (vec![], vec![], vec![]);
        let before = random.floats(count * width, true);
        for row in 0..count {
            let first = list.len() as u32;
            let calls = [0, 1, 2, 8, 9, 33][random.below(6)];
            let own: Vec<u32> = (0..calls).map(|_| (random.below(20) * stride) as u32).collect();
            list.extend(&own);
            let from_zero = random.below(2) as u32;
            rows.extend([first, list.len() as u32, (row * width) as u32, 0, 2, from_zero]);
            lists.push((own, from_zero == 1));
        }
        let sums = emulated.floats(&before);
        let [of_rows, of_fields] = [&rows[..], fields.as_flattened()].map(|it| emulated.memory(it));
        let of_list = emulated.memory(&list);
        emulated.set_stage(2, 0.0);
        let at = |memory| emulated.at(memory);
        // Losses of two parts, with none and with `count` inputs.
        let of_inputs: Vec<f64> =
            (0..count).map(|_| f64::from(random.floats(1, true)[0]) / 3.0).collect();
        let words = of_inputs
            .iter()
            .flat_map(|x| [x.to_bits() as u32, (x.to_bits() >> 32) as u32].map(f32::from_bits));
        let data = emulated.floats(&arena.iter().copied().chain(words).collect::<Vec<_>>());
        let place = arena.len() as u32;
        let losses = emulated.memory(&[0, 0, place, count as u32]);
        let first = 0.7_f64;
        let arguments =
            [at(&of_rows), count as u64, 3, at(&of_fields), at(&of_list), at(&data), at(&sums)];
        // Lists of some sizes are copied: four blocks of 4,096 words.
        let moved = [0, 4, 9000].map(|words| {
            let words: Vec<u32> = (0..words).map(|_| random.below(1 << 30) as u32).collect();
            let to = emulated.memory(&vec![0; words.len()]);
            (emulated.memory(&words), to, words)
        });
        let mut arguments = [&arguments[..], &[at(&losses), 2, first.to_bits()]].concat();
        for (from, to, words) in &moved {
            arguments.extend([at(from), at(to), words.len() as u64]);
        }
        emulated.run(3, (3 * count).div_ceil(8) + 4, 0, &arguments);
        for (_, to, words) in &moved {
            let mut got = vec![0; words.len()];
            emulated.device.read(to, 0, &mut got).unwrap();
            assert_eq!(got, *words);
        }
        assert_eq!(emulated.stage().0, [3, 0, FINE, FINE]);
        let loss = of_inputs.iter().fold(first, |sum, x| sum + x);
        assert_eq!(emulated.result().0, loss.to_bits());
        let got = emulated.read(&sums, before.len());
        for level in levels() {
            let mut expected = before.clone();
            for (to, (calls, from_zero)) in expected.chunks_mut(width).zip(&lists) {
                for [from, at, width] in fields.map(|field| field.map(|word| word as usize)) {
                    let to = &mut to[at..at + width];
                    if *from_zero {
                        to.fill(0.0);
                    }
                    let offsets: Vec<u32> = calls.iter().map(|row| row + from as u32).collect();
                    if !offsets.is_empty() {
                        accumulate(level, &RowsRef::List { data: &arena, offsets: &offsets }, to);
                    }
                }
            }
            assert_same_bits(&got, &expected, || format!("{count} rows at {level}"));
        }
    }
}
