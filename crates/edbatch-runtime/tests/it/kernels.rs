//! Every kernel, at every level of this machine, against a naive loop.

mod arg_max;
mod attention;
mod batched_gemm;
mod bf16;
mod elementwise;
mod ln;
mod math;
mod products;
mod reduce;

use edbatch_graph::Op;
use edbatch_layout::{Elementwise, Register};
use edbatch_runtime::kernels::{self, Input, Level, RowsMut};

/// Pseudo-random floats in -1..1.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// `a · b + c`, rounded as the level rounds it.
fn mul_add(level: Level, a: f32, b: f32, c: f32) -> f32 {
    let fused =
        level != Level::Portable || cfg!(any(target_feature = "fma", target_arch = "aarch64"));
    if fused { a.mul_add(b, c) } else { a * b + c }
}

/// `to[i] = op(from[i])`, computed by a program of one operation.
fn map(level: Level, op: impl Into<Op>, from: &[f32], to: &mut [f32]) {
    let [x, y] = [0, 1].map(Register);
    let program = Elementwise::new(1, &[(op.into(), vec![x])], &[y]);
    let to = RowsMut::contiguous(to, from.len());
    kernels::elementwise(level, &program, from.len(), &[Input::Same(from)], &mut [to]);
}

/// The other tests run at the available levels. This one records which levels of the architecture
/// are not available.
#[test]
fn unavailable_levels_are_recorded() {
    let levels = match std::env::consts::ARCH {
        "x86_64" => &[Level::Avx512Bf16, Level::Avx512, Level::Avx2, Level::Portable][..],
        "aarch64" => &[Level::Neon, Level::Portable],
        _ => &[Level::Portable],
    };
    for level in levels.iter().filter(|level| !level.is_available()) {
        edbatch_testing::skip(&format!("this processor lacks {level}"));
    }
    assert!(levels.contains(&Level::available()[0]));
}

/// Panics at the first index at which the bits differ.
#[track_caller]
fn assert_same_bits(got: &[f32], expected: &[f32], what: impl Fn() -> String) {
    assert_eq!(got.len(), expected.len(), "{}", what());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan()),
            "{}: [{i}] is {g}, expected {e}",
            what()
        );
    }
}
