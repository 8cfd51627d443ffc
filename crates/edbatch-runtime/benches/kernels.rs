//! Kernels beside the roof of the core: fractions of peak, of bandwidth, and nanoseconds an element.
//!
//! `cargo bench -p edbatch-runtime --bench kernels -- [products] [elements] [cell] [batched]`, all without arguments.
//! Contestants take many short turns; the best and the median of all turns are printed, since whatever else
//! runs on the machine only slows them down. `EDBATCH_CPU` chooses the level.

use std::{
    env,
    hint::black_box,
    ops::{Deref, DerefMut},
    time::Instant,
};

use edbatch_runtime::kernels::{
    Elementwise, Function, Input, Left, Level, PackedWeights, Program, Rows, RowsMut, Shape, Start,
    batched_product, math::map, product, roof,
};

fn main() {
    let level = Level::detect();
    let peak = best_peak(level, 0.0);
    println!("{level}: {peak:.1} GFLOP/s");
    for kib in [16, 256, 512, 2048, 8192, 65536] {
        let (read, copy) =
            (roof::read_bandwidth(level, kib << 10), roof::copy_bandwidth(kib << 10));
        println!("{kib:6} KiB: read {read:.1}, copy {copy:.1} GB/s");
    }
    let chosen: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| chosen.is_empty() || chosen.iter().any(|arg| arg == name);
    if wants("products") {
        products(level, peak);
    }
    if wants("elements") {
        elements(level);
    }
    if wants("cell") {
        cell(level);
    }
    if wants("batched") {
        batched(level, peak);
    }
}

/// The highest peak so far: the best times are compared with the best peak.
fn best_peak(level: Level, so_far: f64) -> f64 {
    (0..10).map(|_| roof::peak_gflops(level)).fold(so_far, f64::max)
}

/// Per cent of peak for N = 4H: packed weights, then matrixmultiply.
fn products(level: Level, mut peak: f64) {
    const ROWS: [usize; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 256];
    println!(
        "\nproducts, per cent of peak, best (median): own / matrixmultiply; one row also in GB/s of weights"
    );
    for h in [32, 64, 128, 256, 512] {
        for k in [h, 2 * h] {
            let n = 4 * h;
            peak = best_peak(level, peak);
            let weights = noise(n * k);
            let packed = PackedWeights::new(level, &[&weights], k);
            for m in ROWS {
                let x = noise(m * k);
                let (mut own, mut other) = (noise(m * n), noise(m * n));
                let times = contest(&mut [
                    &mut || {
                        let rows = Rows::Span { data: &x, stride: k };
                        product(
                            &packed,
                            0..packed.panels(),
                            rows,
                            Start::Nothing,
                            RowsMut::contiguous(&mut own, n),
                        );
                    },
                    // SAFETY: x is (m, k), the weight (n, k) read as (k, n), the result (m, n), all in whole vectors.
                    &mut || unsafe {
                        let (x, w) = (x.as_ptr(), weights.as_ptr());
                        let (rk, rn) = (k as isize, n as isize);
                        matrixmultiply::sgemm(
                            m,
                            k,
                            n,
                            1.0,
                            x,
                            rk,
                            1,
                            w,
                            1,
                            rk,
                            0.0,
                            other.as_mut_ptr(),
                            rn,
                            1,
                        );
                    },
                ]);
                let percent = |seconds: f64| 100.0 * (2 * m * n * k) as f64 / seconds / 1e9 / peak;
                let [own, other] =
                    [times[0], times[1]].map(|(best, median)| [percent(best), percent(median)]);
                print!(
                    "H {h:3} K {k:4} rows {m:3}: {:5.1} ({:5.1}) / {:5.1} ({:5.1})",
                    own[0], own[1], other[0], other[1]
                );
                match m {
                    1 => println!("   {:.1} GB/s", packed.bytes() as f64 / times[0].0 / 1e9),
                    _ => println!(),
                }
            }
        }
    }
}

/// Nanoseconds an element, in L1.
fn elements(level: Level) {
    println!("\nfunctions, ns an element, best (median)");
    let mut x = noise(2048);
    x.iter_mut().for_each(|x| *x *= 4.0);
    for function in [Function::Sigma, Function::Tanh, Function::Exp, Function::Ln, Function::Relu] {
        let mut y = noise(2048);
        let times = contest(&mut [&mut || map(level, function, black_box(&x), &mut y)]);
        let [best, median] = [times[0].0, times[0].1].map(|seconds| seconds * 1e9 / x.len() as f64);
        println!("{function:?}: {best:.3} ({median:.3})");
    }
}

/// The LSTM cell after its product, nanoseconds a hidden element.
fn cell(level: Level) {
    println!("\nLSTM cell after the product, ns a hidden element, best (median)");
    let program = Elementwise::new(&lstm());
    for h in [32, 64, 100, 128, 256, 512] {
        for rows in [1, 8, 64] {
            let (gates, c, bias) = (noise(rows * 4 * h), noise(rows * h), noise(4 * h));
            let (mut hidden, mut next) = (noise(rows * h), noise(rows * h));
            let times = contest(&mut [&mut || {
                let gate =
                    |g: usize| Input::Rows(Rows::Span { data: &gates[g * h..], stride: 4 * h });
                let bias = |g: usize| Input::Same(&bias[g * h..(g + 1) * h]);
                let c = Input::Rows(Rows::Span { data: &c, stride: h });
                let inputs =
                    [gate(0), gate(1), gate(2), gate(3), c, bias(0), bias(1), bias(2), bias(3)];
                let mut outputs =
                    [RowsMut::contiguous(&mut hidden, h), RowsMut::contiguous(&mut next, h)];
                program.run(level, h, &inputs, &mut outputs);
            }]);
            let [best, median] =
                [times[0].0, times[0].1].map(|seconds| seconds * 1e9 / (rows * h) as f64);
            println!("H {h:3}, {rows:2} rows: {best:.3} ({median:.3})");
        }
    }
}

/// The products of MV-RNN, GFLOP/s for a batch of 64 matrices.
fn batched(level: Level, peak: f64) {
    println!("\nbatched products, GFLOP/s and per cent of peak");
    for (rows, depth, columns) in
        [(32, 32, 32), (64, 64, 64), (64, 64, 1), (128, 128, 1), (64, 128, 64)]
    {
        let shape = Shape { rows, depth, columns };
        let (left, right) = (noise(64 * rows * depth), noise(64 * depth * columns));
        let mut out = noise(64 * rows * columns);
        let times = contest(&mut [&mut || {
            let left = Left::Each(Rows::Span { data: &left, stride: rows * depth });
            let right = Rows::Span { data: &right, stride: depth * columns };
            batched_product(
                level,
                shape,
                left,
                right,
                RowsMut::contiguous(&mut out, rows * columns),
            );
        }]);
        let gflops = (2 * 64 * rows * depth * columns) as f64 / times[0].0 / 1e9;
        println!(
            "64 × ({rows} × {depth}) · ({depth} × {columns}): {gflops:.1}, {:.1} %",
            100.0 * gflops / peak
        );
    }
}

fn lstm() -> Program {
    let mut cell = Program::new();
    let [i, f, o, g, c, bi, bf, bo, bg] = cell.inputs();
    let mut gate = |x, bias, function| {
        let sum = cell.add(x, bias);
        cell.apply(function, sum)
    };
    let (i, f) = (gate(i, bi, Function::Sigma), gate(f, bf, Function::Sigma));
    let (o, g) = (gate(o, bo, Function::Sigma), gate(g, bg, Function::Tanh));
    let (kept, added) = (cell.multiply(f, c), cell.multiply(i, g));
    let c = cell.add(kept, added);
    let t = cell.apply(Function::Tanh, c);
    let h = cell.multiply(o, t);
    cell.output(h);
    cell.output(c);
    cell
}

/// Best and median seconds of each contestant, which take turns: short ones, so that some meet a quiet moment.
fn contest(contestants: &mut [&mut dyn FnMut()]) -> Vec<(f64, f64)> {
    const TURNS: usize = 301;
    const TURN_SECONDS: f64 = 0.000_2;
    let repeats: Vec<usize> = contestants
        .iter_mut()
        .map(|work| {
            work();
            let started = Instant::now();
            work();
            (TURN_SECONDS / started.elapsed().as_secs_f64()).ceil() as usize
        })
        .collect();
    let mut seconds = vec![vec![]; contestants.len()];
    for _ in 0..TURNS {
        for ((work, &repeats), seconds) in contestants.iter_mut().zip(&repeats).zip(&mut seconds) {
            let started = Instant::now();
            (0..repeats).for_each(|_| work());
            seconds.push(started.elapsed().as_secs_f64() / repeats as f64);
        }
    }
    let summary = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        (seconds[0], seconds[TURNS / 2])
    };
    seconds.into_iter().map(summary).collect()
}

/// Floats in -1..1, on cache lines of their own.
fn noise(len: usize) -> Aligned {
    let mut state = 1u32;
    let mut aligned = Aligned { floats: vec![0.0; len + 16], start: 0 };
    aligned.start = aligned.floats.as_ptr().align_offset(64);
    for x in &mut aligned.floats {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        *x = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
    }
    aligned.floats.truncate(aligned.start + len);
    aligned
}

/// A vector whose contents start on a cache line, as those of an arena do.
struct Aligned {
    floats: Vec<f32>,
    start: usize,
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.floats[self.start..]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.floats[self.start..]
    }
}
