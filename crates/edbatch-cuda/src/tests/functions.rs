//! Functions of a float, for millions of arguments.

use edbatch_graph::Function;
use edbatch_layout::{Elementwise, Register};
use edbatch_runtime::kernels::{Input, Level, RowsMut, elementwise};

use super::{Kernel, assert_same_bits, everywhere, levels};

/// Computes `arena[n + i] = f(arena[i])` for i in 0..n, where n is the first word of the command
/// list.
fn map(name: &str) -> String {
    format!(
        "u32 count = a.commands[0];
        block.superstep([&](u32 t) {{
            for (u32 i = block.index * THREADS + t; i < count; i += block.slices * THREADS)
                a.arena[count + i] = {name}(fresh(a.arena + i));
        }});"
    )
}

/// Computes `to[i] = f(from[i])` on the CPU.
fn compute(level: Level, function: Function, from: &[f32], to: &mut [f32]) {
    let program = Elementwise::new(1, &[(function.into(), vec![Register(0)])], &[Register(1)]);
    let to = RowsMut::contiguous(to, from.len());
    elementwise(level, &program, from.len(), &[Input::Same(from)], &mut [to]);
}

/// Returns floats of all magnitudes, and all floats near the branches of the functions.
fn patterns() -> Vec<f32> {
    let everywhere = (0..u32::MAX).step_by(1_009);
    let borders: [f32; 14] = [
        0.0,
        1e-40,
        f32::MIN_POSITIVE,
        1e-4,
        0.28125,
        0.5,
        1.0,
        std::f32::consts::SQRT_2,
        8.4375,
        80.0,
        88.72,
        89.0,
        104.0,
        f32::MAX,
    ];
    let around = borders.into_iter().flat_map(|x| {
        let bits = x.to_bits();
        bits.saturating_sub(2_000)..bits + 2_000
    });
    let signed = around.flat_map(|bits| [bits, bits | 1 << 31]);
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN].map(f32::to_bits);
    everywhere.chain(signed).chain(special).map(f32::from_bits).collect()
}

#[test]
fn functions_have_the_bits_of_the_cpu() {
    let from = patterns();
    assert!(from.len() > 4_000_000 && from.iter().any(|x| x.to_bits() == 1 << 31));
    let mut expected = vec![0.0; from.len()];
    for &function in Function::ALL {
        let name = format!("{}_", function.name());
        let Some(run) = everywhere("", &map(&name)) else { return };
        let lefts = run((8, &[from.len() as u32], &[], &from, from.len()));
        for level in levels() {
            compute(level, function, &from, &mut expected);
            for (device, left) in &lefts {
                let got = &left.arena[from.len()..];
                for ((&x, g), e) in from.iter().zip(got).zip(&expected) {
                    let same = g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan());
                    assert!(same, "{device}: {name}({x:e}) is {g:e}, {e:e} at {level}");
                }
            }
        }
    }
}

/// The comparison in this plausible version loses the sign of -0.
#[test]
fn a_lost_sign_of_zero_is_found() {
    let careless = "DEVICE float careless(float x) {
        float size = tanh_(x < 0.0f ? -x : from_bits(bits(x) & 0x7fffffffu));
        return x < 0.0f ? -size : size;
    }";
    let Some(kernel) = Kernel::emulated(1, careless, &map("careless")) else { return };
    let from = [0.5, -0.5, 0.0, -0.0];
    let left = kernel.run((1, &[4], &[], &from, 4));
    for level in levels() {
        let mut expected = [0.0; 4];
        compute(level, Function::Tanh, &from, &mut expected);
        assert_same_bits(&left.arena[4..7], &expected[..3], || level.to_string());
        assert_eq!([left.arena[7].to_bits(), expected[3].to_bits()], [0, 1 << 31]);
    }
}

#[test]
fn a_fused_sum_is_found() {
    let wave = "block.superstep([&](u32 t) {
        if (t == 0) a.arena[3] = add(mul(a.arena[0], a.arena[1]), a.arena[2]);
    });";
    let x = 1.0 + f32::EPSILON * 2_048.0;
    let sum = |options: &[&'static str]| {
        let kernel = Kernel::with_options(1, "", wave, options)?;
        Some(kernel.run((1, &[], &[], &[x, x, -(x * x)], 1)).arena[3])
    };
    // Compilers fuse operations when they optimise.
    let Some(rounded) = sum(&["-O2"]) else { return };
    assert_eq!(rounded, 0.0);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(sum(&["-O2", "-ffp-contract=fast"]), Some(x.mul_add(x, -(x * x))));
        assert_ne!(x.mul_add(x, -(x * x)), 0.0);
    }
}
