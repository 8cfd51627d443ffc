//! Functions and softmax: accuracy against `f64`, special values, independence of the position.

use edbatch_graph::Function;
use edbatch_runtime::kernels::{
    Level, dot,
    math::{layer_norm, log_softmax, rms_norm, softmax},
};

use super::{assert_same_bits, map, mul_add, noise};

fn exact(function: Function, x: f32) -> f64 {
    let x = x as f64;
    match function {
        Function::Sigmoid if x < 0.0 => x.exp() / (1.0 + x.exp()),
        function => function.of(x),
    }
}

/// Returns the error in units in the last place of the exact result. Subnormal results use the unit
/// of the smallest normal float.
fn ulps(got: f32, exact: f64) -> f64 {
    let exact_size = exact.abs().max(f32::MIN_POSITIVE as f64);
    let power_of_two = f64::from_bits(exact_size.to_bits() & 0x7ff << 52);
    (got as f64 - exact).abs() / (power_of_two * f64::from(f32::EPSILON))
}

/// Checks the documented error bounds for floats given by their bits. Prints the largest errors, in
/// ulp and absolute.
fn check_errors(level: Level, function: Function, bits: impl Iterator<Item = u32>) {
    let (mut relative, mut absolute) = ((0.0, 0.0), 0.0f64);
    let mut bits = bits.map(f32::from_bits).peekable();
    let (mut x, mut y) = (Vec::new(), vec![0.0; 4096]);
    while bits.peek().is_some() {
        x.clear();
        x.extend(bits.by_ref().take(4096));
        map(level, function, &x, &mut y[..x.len()]);
        for (&x, &got) in x.iter().zip(&y) {
            let expected = exact(function, x);
            if expected.is_nan() {
                assert!(got.is_nan(), "{level}: {function:?}({x}) is {got}");
            } else if (expected as f32).is_infinite() || got.is_infinite() {
                assert_eq!(got, expected as f32, "{level}: {function:?}({x})");
            } else {
                let below_normal =
                    function == Function::Sigmoid && expected < f32::MIN_POSITIVE as f64;
                let error = if below_normal { 0.0 } else { ulps(got, expected) };
                if error > relative.0 {
                    relative = (error, x);
                }
                absolute = absolute.max((got as f64 - expected).abs());
            }
        }
    }
    let (ulps, x) = relative;
    println!("{level:8} {function:?}: {ulps:.2} ulp at {x:e}, {absolute:e} absolute");
    let allowed = match function {
        Function::Sigmoid => 4.0,
        Function::Tanh => 5.0,
        Function::Exp | Function::Log | Function::Erf => 2.0,
        Function::Sqrt => 0.5,
        _ => 0.0,
    };
    assert!(ulps <= allowed, "{level}: {function:?}({x:e}) has an error of {ulps} ulp");
    assert!(
        function != Function::Sigmoid || absolute <= 2e-7,
        "{level}: sigma has an error of {absolute:e}"
    );
}

#[test]
fn sampled_floats_are_within_the_documented_errors() {
    for level in Level::available() {
        for function in Function::ALL.iter().copied() {
            check_errors(level, function, (0..=u32::MAX).step_by(9973));
        }
    }
}

/// Checks all floats with |x| in 1e-5..104. Outside, the functions are almost linear or constant.
#[test]
#[ignore = "takes minutes in release"]
fn all_floats_are_within_the_documented_errors() {
    let sizes = (1e-5f32).to_bits()..(104f32).to_bits();
    for level in Level::available() {
        for function in Function::ALL.iter().copied() {
            let sign = f32::to_bits(-0.0);
            check_errors(level, function, sizes.clone().chain(sizes.clone().map(|x| x | sign)));
        }
    }
}

#[test]
#[ignore = "takes minutes in release"]
fn roots_and_error_functions_of_all_floats() {
    let blocks = || (0..=u32::MAX >> 12).map(|block| block << 12);
    let (mut x, mut y) = (vec![0.0; 4096], vec![0.0; 4096]);
    for level in Level::available() {
        for block in blocks() {
            x.iter_mut().zip(block..).for_each(|(x, bits)| *x = f32::from_bits(bits));
            map(level, Function::Sqrt, &x, &mut y);
            for (x, y) in x.iter().zip(&y) {
                let exact = x.sqrt();
                let same = exact.to_bits() == y.to_bits() || exact.is_nan() && y.is_nan();
                assert!(same, "{level}: the root of {x:e} is {y:e}");
            }
        }
        check_errors(level, Function::Erf, 0..=u32::MAX);
    }
}

#[test]
fn special_values_equal_those_of_std() {
    const INF: f32 = f32::INFINITY;
    for level in Level::available() {
        for (function, x, expected) in [
            (Function::Sigmoid, INF, 1.0),
            (Function::Sigmoid, -INF, 0.0),
            (Function::Sigmoid, 0.0, 0.5),
            (Function::Tanh, INF, 1.0),
            (Function::Tanh, -INF, -1.0),
            (Function::Tanh, 20.0, 1.0),
            (Function::Tanh, 0.0, 0.0),
            (Function::Tanh, -0.0, -0.0),
            (Function::Sqrt, -1.0, f32::NAN),
            (Function::Sqrt, -0.0, -0.0),
            (Function::Sqrt, INF, INF),
            (Function::Erf, INF, 1.0),
            (Function::Erf, -INF, -1.0),
            (Function::Erf, -0.0, -0.0),
            (Function::Erf, 4.0, 1.0),
            (Function::Relu, -INF, 0.0),
            (Function::Relu, INF, INF),
            (Function::Exp, INF, INF),
            (Function::Exp, -INF, 0.0),
            (Function::Exp, 0.0, 1.0),
            (Function::Log, INF, INF),
            (Function::Log, 0.0, -INF),
            (Function::Log, 1.0, 0.0),
            (Function::Log, -1.0, f32::NAN),
            (Function::Log, -INF, f32::NAN),
        ] {
            let mut y = [0.0];
            map(level, function, &[x], &mut y);
            assert_same_bits(&y, &[expected], || format!("{level}: {function:?}({x})"));
        }
        for function in Function::ALL.iter().copied() {
            let mut y = [0.0; 5];
            map(level, function, &[f32::NAN; 5], &mut y);
            assert!(y.iter().all(|y| y.is_nan()), "{level}: {function:?}(NaN) is {y:?}");
        }
    }
}

#[test]
fn an_element_has_the_same_bits_at_every_position() {
    let x: Vec<f32> = noise(1, 70).iter().map(|x| x * 12.0).collect();
    for level in Level::available() {
        for function in Function::ALL.iter().copied() {
            let mut alone = vec![0.0; x.len()];
            x.chunks(1).zip(alone.chunks_mut(1)).for_each(|(x, y)| map(level, function, x, y));
            for start in 0..20 {
                for end in start + 1..=x.len() {
                    let mut y = vec![0.0; end - start];
                    map(level, function, &x[start..end], &mut y);
                    assert_same_bits(&y, &alone[start..end], || {
                        format!("{level}: {function:?} of {start}..{end}")
                    });
                }
            }
        }
    }
}

#[test]
fn softmax_is_a_distribution() {
    for level in Level::available() {
        for len in (1..70).chain([1000]) {
            let x: Vec<f32> = noise(len as u64, len).iter().map(|x| x * 30.0).collect();
            let max = x.iter().copied().fold(f32::MIN, f32::max) as f64;
            let sum: f64 = x.iter().map(|&x| (x as f64 - max).exp()).sum();
            let (mut y, mut log) = (x.clone(), x.clone());
            softmax(level, &mut y);
            log_softmax(level, &mut log);
            for i in 0..len {
                let expected = (x[i] as f64 - max).exp() / sum;
                assert!(
                    (y[i] as f64 - expected).abs() < 1e-6,
                    "{level}: {len}: {} against {expected}",
                    y[i]
                );
                let expected = x[i] as f64 - max - sum.ln();
                assert!(
                    (log[i] as f64 - expected).abs() < 1e-5,
                    "{level}: {len}: {} against {expected}",
                    log[i]
                );
            }
        }
        let mut with_nan = [1.0, f32::NAN, 0.0];
        softmax(level, &mut with_nan);
        assert!(with_nan.iter().all(|x| x.is_nan()));
        softmax(level, &mut []);
    }
}

/// Relative to the largest element of the result, in f64.
#[test]
fn norms_and_inner_products_are_accurate() {
    let close = |got: &[f32], exact: &[f64], what: String| {
        let largest = exact.iter().fold(0.0f64, |max, x| max.max(x.abs()));
        for (&got, &exact) in got.iter().zip(exact) {
            let error = (f64::from(got) - exact).abs();
            assert!(error <= 1e-6 * largest, "{what}: {got} against {exact}");
        }
    };
    for level in Level::available() {
        for len in [1, 2, 15, 16, 17, 100, 256, 1000] {
            // A mean that is far larger than the spread.
            let x: Vec<f32> = noise(len as u64, len).iter().map(|x| x + 3.0).collect();
            let exact: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let mean = exact.iter().sum::<f64>() / len as f64;
            let root =
                |x: &[f64]| (x.iter().map(|x| x * x).sum::<f64>() / len as f64 + 1e-3).sqrt();
            let (mut layer, mut rms) = (x.clone(), x.clone());
            layer_norm(level, &mut layer, 1e-3);
            rms_norm(level, &mut rms, 1e-3);
            let centred: Vec<f64> = exact.iter().map(|x| x - mean).collect();
            let by = root(&centred);
            let expected: Vec<f64> = centred.iter().map(|x| x / by).collect();
            if len > 1 {
                close(&layer, &expected, format!("{level}: layer norm of {len}"));
            }
            let by = root(&exact);
            let expected: Vec<f64> = exact.iter().map(|x| x / by).collect();
            close(&rms, &expected, format!("{level}: RMS norm of {len}"));
            let mut product = [0.0];
            dot(level, &x, &x, &mut product);
            let expected = exact.iter().map(|x| x * x).sum::<f64>();
            close(&product, &[expected], format!("{level}: product of {len}"));
        }
        let mut with_nan = [1.0, f32::NAN, 0.0];
        layer_norm(level, &mut with_nan, 0.1);
        assert!(with_nan.iter().all(|x| x.is_nan()));
    }
}

/// The sum has 16 parts at every level, whatever the number of lanes.
#[test]
fn functions_of_rows_have_the_same_bits_at_all_levels_that_fuse() {
    let mut levels = Level::available();
    levels.retain(|&level| mul_add(level, 1.0 + f32::EPSILON, 1.0 - f32::EPSILON, -1.0) != 0.0);
    for len in (0..70).chain([1000, 7709]) {
        let x: Vec<f32> = noise(len as u64, len).iter().map(|x| x * 30.0).collect();
        let both = |level| {
            let [mut y, mut log, mut layer, mut rms] = [(); 4].map(|()| x.clone());
            let mut product = [0.0];
            softmax(level, &mut y);
            log_softmax(level, &mut log);
            layer_norm(level, &mut layer, 1e-5);
            rms_norm(level, &mut rms, 1e-5);
            dot(level, &y, &x, &mut product);
            [&y[..], &log, &layer, &rms, &product].concat()
        };
        let expected: Vec<f32> = levels.first().map(|&level| both(level)).unwrap_or_default();
        for &level in levels.iter().skip(1) {
            assert_same_bits(&both(level), &expected, || format!("{len} at {level}"));
        }
    }
}
