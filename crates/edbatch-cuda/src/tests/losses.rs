//! Losses of rows of scores, and their gradients.

use edbatch_runtime::kernels::math;

use super::{Random, assert_same_bits, everywhere, levels};

const LOSS: &str = "#include \"loss.h\"";

/// The command list: the number of rows, their width, the weight, whether a block computes a row,
/// and the terms.
const LOSSES: &str = "
    u32 count = a.commands[0], width = a.commands[1];
    float weight = from_bits(a.commands[2]);
    const Term* terms = (const Term*)(a.commands + 4);
    if (a.commands[3] == 0) {
        block.superstep([&](u32 t) {
            u32 i = block.index * THREADS + t;
            if (i < count) narrow_loss(a.arena, terms[i], width, weight);
        });
    } else {
        for (u32 i = block.index; i < count; i += block.slices)
            wide_loss(block, a.arena, terms[i], width, weight);
    }";

/// Returns rows of scores: usual ones, large ones, ones with special values, and ones of zeros and
/// infinities alone.
fn rows(count: usize, width: usize, random: &mut Random) -> Vec<f32> {
    let mut row = |row: usize| {
        let mut row = (random.floats(width, row % 4 == 2), row % 4);
        match row.1 {
            1 => row.0.iter_mut().for_each(|x| *x *= 100.0),
            3 => {
                let infinite =
                    [f32::NEG_INFINITY, f32::INFINITY][usize::from(random.below(8) == 0)];
                let few = [0.0, -0.0, infinite, f32::NEG_INFINITY, -f32::MAX];
                row.0.iter_mut().for_each(|x| *x = few[random.below(few.len())]);
            }
            _ => {}
        }
        row.0
    };
    (0..count).flat_map(&mut row).collect()
}

#[test]
fn losses_and_their_gradients_have_the_bits_of_the_cpu() {
    let Some(run) = everywhere(LOSS, LOSSES) else { return };
    let mut random = Random(3);
    let most = if edbatch_testing::all_cases() { 1 } else { 7 };
    let widths = (1..70).chain((70..=300).step_by(most)).chain([4095, 4096, 4097, 9001]);
    for width in widths {
        let count = if width > 300 { 4 } else { 12 };
        let arena = rows(count, width, &mut random);
        let weight = [1.0, 1.0 / 64.0, 0.3, -2.5][random.below(4)];
        // Gradients are in reverse order, and losses are behind them.
        let losses = (2 * arena.len()).next_multiple_of(2);
        let term = |row: usize, class: usize| {
            let gradient = arena.len() + (count - 1 - row) * width;
            [row * width, class, gradient, losses + 2 * row].map(|word| word as u32)
        };
        let classes: Vec<usize> = (0..count).map(|_| random.below(width)).collect();
        let terms: Vec<_> = classes.iter().enumerate().map(|(row, &of)| term(row, of)).collect();
        for wide in (0..2).filter(|&wide| width <= 64 || wide == 1) {
            let head = [count as u32, width as u32, f32::to_bits(weight), wide];
            let commands = [&head[..], terms.as_flattened()].concat();
            let blocks = 1 + random.below(3) as u32;
            let lefts = run((blocks, &commands, &[], &arena, losses + 2 * count - arena.len()));
            for level in levels() {
                for (row, &class) in classes.iter().enumerate() {
                    let mut expected = arena[row * width..][..width].to_vec();
                    let loss = math::cross_entropy(level, &mut expected, class);
                    expected[class] -= 1.0;
                    expected.iter_mut().for_each(|element| *element *= weight);
                    let loss = f64::from(weight) * loss;
                    for (device, left) in &lefts {
                        let what = || format!("{device}: row {row} of {width}, {wide}, at {level}");
                        let gradient = terms[row][2] as usize;
                        assert_same_bits(&left.arena[gradient..][..width], &expected, what);
                        let got = double(&left.arena, losses + 2 * row);
                        let same =
                            got.to_bits() == loss.to_bits() || (got.is_nan() && loss.is_nan());
                        assert!(same, "{}: {got:e}, expected {loss:e}", what());
                    }
                }
            }
        }
    }
}

/// Returns the double at a place.
fn double(floats: &[f32], at: usize) -> f64 {
    f64::from_bits(u64::from(floats[at].to_bits()) | u64::from(floats[at + 1].to_bits()) << 32)
}

#[test]
fn the_logarithm_of_doubles_has_the_bits_of_the_cpu() {
    let wave = "u32 count = a.commands[0];
        double* x = (double*)a.arena;
        block.superstep([&](u32 t) {
            for (u32 i = block.index * THREADS + t; i < count; i += block.slices * THREADS)
                x[count + i] = ln_(x[i]);
        });";
    let Some(run) = everywhere(LOSS, wave) else { return };
    let mut random = Random(4);
    let mut from = vec![0.0, -0.0, 1.0, -1.0, 5e-324, 1e-310, f64::INFINITY, f64::NEG_INFINITY];
    from.extend([f64::NAN, f64::MAX, f64::MIN_POSITIVE, std::f64::consts::SQRT_2]);
    // Any bits, and sums of exponentials.
    from.extend((0..50_000).map(|_| {
        let bits = [(); 2].map(|()| random.below(1 << 31) as u64);
        f64::from_bits((bits[0] << 32 | bits[1] << 1) & !(1 << 63))
    }));
    from.extend((0..50_000).map(|_| f64::from(1.0 + random.float().abs() * 300.0)));
    let halves = |x: &f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32].map(f32::from_bits);
    let arena: Vec<f32> = from.iter().flat_map(halves).collect();
    for (device, left) in run((4, &[from.len() as u32], &[], &arena, arena.len())) {
        for (i, x) in from.iter().enumerate() {
            let (got, expected) = (double(&left.arena, arena.len() + 2 * i), math::ln(*x));
            let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
            assert!(same, "{device}: ln {x:e} is {got:e}, expected {expected:e}");
        }
    }
}
