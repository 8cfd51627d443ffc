//! Accuracy against `f64`, special values, and independence of the place.

use edbatch_layout::Function;
use edbatch_runtime::kernels::{
    Level,
    math::{log_softmax, map, map_in_place, softmax},
};

use super::{assert_same_bits, mul_add, noise};

const FUNCTIONS: [Function; 5] =
    [Function::Sigmoid, Function::Tanh, Function::Relu, Function::Exp, Function::Log];

fn exact(function: Function, x: f32) -> f64 {
    let x = x as f64;
    match function {
        Function::Sigmoid if x < 0.0 => x.exp() / (1.0 + x.exp()),
        Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Function::Tanh => x.tanh(),
        Function::Relu => x.max(0.0),
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
    }
}

/// The distance in units in the last place of the exact result, the smallest unit being that of
/// normal floats.
fn ulps(got: f32, exact: f64) -> f64 {
    let exponent = exact.abs().max(f32::MIN_POSITIVE as f64).log2().floor();
    (got as f64 - exact).abs() / 2f64.powf(exponent - 23.0)
}

/// Checks the documented errors over floats, given by their bits; prints the largest, in ulp and
/// absolute.
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
        Function::Relu => 0.0,
        Function::Exp | Function::Log => 2.0,
        Function::Sigmoid => 4.0,
        Function::Tanh => 5.0,
    };
    assert!(ulps <= allowed, "{level}: {function:?}({x:e}) is {ulps} ulp off");
    assert!(
        function != Function::Sigmoid || absolute <= 2e-7,
        "{level}: sigma is {absolute:e} off"
    );
}

#[test]
fn errors_are_as_documented() {
    for level in Level::available() {
        for function in FUNCTIONS {
            check_errors(level, function, (0..=u32::MAX).step_by(9973));
        }
    }
}

/// Each float that is not so small or so large that the function is as good as a straight line
/// there.
#[test]
#[ignore = "takes minutes in release"]
fn errors_of_all_floats_are_as_documented() {
    let sizes = (1e-5f32).to_bits()..(104f32).to_bits();
    for level in Level::available() {
        for function in FUNCTIONS {
            let sign = f32::to_bits(-0.0);
            check_errors(level, function, sizes.clone().chain(sizes.clone().map(|x| x | sign)));
        }
    }
}

#[test]
fn special_values_are_those_of_std() {
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
            let mut y = [x];
            map_in_place(level, function, &mut y);
            assert_same_bits(&y, &[expected], || format!("{level}: {function:?}({x})"));
        }
        for function in FUNCTIONS {
            let mut y = [f32::NAN; 5];
            map_in_place(level, function, &mut y);
            assert!(y.iter().all(|y| y.is_nan()), "{level}: {function:?}(NaN) is {y:?}");
        }
    }
}

#[test]
fn an_element_is_the_same_in_every_place() {
    let x: Vec<f32> = noise(1, 70).iter().map(|x| x * 12.0).collect();
    for level in Level::available() {
        for function in FUNCTIONS {
            let mut alone = x.clone();
            alone.chunks_mut(1).for_each(|x| map_in_place(level, function, x));
            for start in 0..20 {
                for end in start..x.len() {
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

/// The sum has 16 parts at every level, however many floats a vector has.
#[test]
fn softmax_has_the_same_bits_at_all_levels_that_fuse() {
    let mut levels = Level::available();
    levels.retain(|&level| mul_add(level, 1.0 + f32::EPSILON, 1.0 - f32::EPSILON, -1.0) != 0.0);
    for len in (0..70).chain([1000, 7709]) {
        let x: Vec<f32> = noise(len as u64, len).iter().map(|x| x * 30.0).collect();
        let both = |level| {
            let (mut y, mut log) = (x.clone(), x.clone());
            softmax(level, &mut y);
            log_softmax(level, &mut log);
            [y, log].concat()
        };
        let expected: Vec<f32> = levels.first().map(|&level| both(level)).unwrap_or_default();
        for &level in levels.iter().skip(1) {
            assert_same_bits(&both(level), &expected, || format!("{len} at {level}"));
        }
    }
}
