//! Measured limits of one core, peak FLOP/s and bandwidths, for benchmarks to compare with.
//!
//! Absolute figures vary between machines and over time; ratios within one run are stable. Each
//! function measures for some milliseconds and returns the best of several rounds, since other
//! load on the machine can only slow it down.

use std::{hint::black_box, time::Instant};

use super::{
    isa::Level,
    simd::{self, Kernel, Simd},
};

const ROUNDS: usize = 7;

/// Steps of each chain of multiply-adds.
const STEPS: usize = 200_000;

/// Measures the peak of one core in GFLOP/s, with fused multiply-adds (two FLOPs each) in
/// registers.
pub fn peak_gflops(level: Level) -> f64 {
    let flops = (STEPS * 2 * CHAINS * simd::lanes(level)) as f64;
    let seconds = best_seconds(|| {
        black_box(simd::run(level, MultiplyAdds::<false> { steps: black_box(STEPS) }));
    });
    flops / seconds / 1e9
}

/// Measures the rate of multiply-adds of the level's instruction for pairs of bf16, relative to the
/// instruction for `f32`: at most 2. `None` if the level has no such instruction.
pub fn pair_rate(level: Level) -> Option<f64> {
    if !level.has_pairs() {
        return None;
    }
    let seconds = best_seconds(|| {
        black_box(simd::run_pairs(level, MultiplyAdds::<true> { steps: black_box(STEPS) }));
    });
    let flops = (STEPS * 4 * CHAINS * simd::lanes(level)) as f64;
    Some(flops / seconds / 1e9 / peak_gflops(level))
}

/// Measures the bandwidth in GB/s at which one core copies a buffer of `bytes` bytes. Each byte
/// counts once, although it is read and written.
pub fn copy_bandwidth(bytes: usize) -> f64 {
    let from = vec![1.0f32; bytes.div_ceil(4)];
    let mut to = vec![0.0f32; from.len()];
    bandwidth(bytes, || black_box(&mut to).copy_from_slice(black_box(&from)))
}

/// Measures the bandwidth in GB/s at which one core repeatedly reads a buffer of `bytes` bytes.
pub fn read_bandwidth(level: Level, bytes: usize) -> f64 {
    let from = vec![1.0f32; bytes.div_ceil(4)];
    bandwidth(bytes, || {
        black_box(simd::run(level, Read { from: black_box(&from) }));
    })
}

/// Number of independent chains: more than any core needs to hide the latency of an operation.
const CHAINS: usize = 12;

/// Multiply-adds of floats, or of pairs of bf16.
struct MultiplyAdds<const PAIRS: bool> {
    steps: usize,
}

impl<const PAIRS: bool> Kernel for MultiplyAdds<PAIRS> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let (a, b) = (simd.splat(black_box(0.5)), simd.splat(black_box(1.0)));
        let mut sums = [simd.splat(0.0); CHAINS];
        for _ in 0..self.steps {
            for sum in &mut sums {
                *sum = match PAIRS {
                    true => simd.mul_add_pairs(a, b, *sum),
                    false => simd.mul_add(*sum, a, b),
                };
            }
        }
        sums.iter().map(|&sum| first_lane(simd, sum)).sum()
    }
}

struct Read<'a> {
    from: &'a [f32],
}

impl Kernel for Read<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let mut sums = [simd.splat(0.0); 8];
        for chunk in self.from.chunks_exact(8 * S::LANES) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the chunk has 8 · LANES floats, and i < 8.
                *sum = simd.add(*sum, unsafe { simd.load(chunk.as_ptr().add(i * S::LANES)) });
            }
        }
        sums.iter().map(|&sum| first_lane(simd, sum)).sum()
    }
}

#[inline(always)]
fn first_lane<S: Simd>(simd: S, x: S::Vector) -> f32 {
    let mut lane = 0.0;
    // SAFETY: `lane` is one float, and one float is written.
    unsafe { simd.store_first(&mut lane, x, 1) };
    lane
}

fn bandwidth(bytes: usize, mut pass: impl FnMut()) -> f64 {
    let passes = (32 << 20) / bytes.max(1) + 1;
    pass();
    let seconds = best_seconds(|| (0..passes).for_each(|_| pass()));
    (passes * bytes) as f64 / seconds / 1e9
}

fn best_seconds(mut work: impl FnMut()) -> f64 {
    let seconds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_every_level_are_positive() {
        for level in Level::available() {
            assert!(peak_gflops(level) > 0.01 && read_bandwidth(level, 1 << 12) > 0.01, "{level}");
        }
        assert!(copy_bandwidth(1 << 12) > 0.01);
    }
}
