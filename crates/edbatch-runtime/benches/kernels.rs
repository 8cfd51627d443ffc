//! Speed of the kernels against the roofline of the core, and time per element.
//!
//! `cargo bench -p edbatch-runtime --bench kernels --features probe -- [products] [bf16] [elements]
//! [rows] [attention] [batched]` runs the named parts, or all of them. `edbatch cells` times whole
//! cells. The argument `matrixmultiply` also measures the products of that crate. The measured
//! functions take many short turns. The best and the median turn are printed, since other load on
//! the machine can only slow them down. The environment variable `EDBATCH_CPU` chooses the
//! instruction level.

use std::{
    env,
    hint::black_box,
    ops::{Deref, DerefMut},
    time::Instant,
};

use edbatch_graph::{Function, Op, Reduction};
use edbatch_layout::{Elementwise, Register};
use edbatch_runtime::Precision;
use edbatch_runtime::kernels::{
    GemmShape, Input, Left, Level, PackedWeights, Pass, Piece, RoundedRows, RowsMut, RowsRef,
    Scored, Start, arg_max, attention, batched_gemm, dot, elementwise, math, product, product_bf16,
    reduce, roofline,
};

fn main() {
    let level = Level::detect();
    let peak = best_peak(level, 0.0);
    println!("{level}: {peak:.1} GFLOP/s");
    for kib in [16, 256, 512, 2048, 8192, 65536] {
        let (read, copy) =
            (roofline::read_bandwidth(level, kib << 10), roofline::copy_bandwidth(kib << 10));
        println!("{kib:6} KiB: read {read:.1}, copy {copy:.1} GB/s");
    }
    let chosen: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| chosen.is_empty() || chosen.iter().any(|arg| arg == name);
    if wants("products") || wants("matrixmultiply") {
        products(level, peak, chosen.iter().any(|arg| arg == "matrixmultiply"));
    }
    if wants("bf16") {
        in_bf16(level);
    }
    if wants("elements") {
        elements(level);
    }
    if wants("rows") {
        rows(level);
    }
    if wants("attention") {
        attentions(level);
    }
    if wants("batched") {
        batched(level, peak);
    }
}

/// Measures the peak again, in GFLOP/s, and returns the highest so far: the best times need the
/// best peak.
fn best_peak(level: Level, so_far: f64) -> f64 {
    (0..10).map(|_| roofline::peak_gflops(level)).fold(so_far, f64::max)
}

/// Prints the speed of products with a weight of 4H outputs, in per cent of peak, for several
/// numbers of rows. `beside_matrixmultiply` adds the crate `matrixmultiply`. The same weight is
/// used repeatedly, so it is in the innermost cache that can hold it.
fn products(level: Level, mut peak: f64, beside_matrixmultiply: bool) {
    const ROWS: [usize; 9] = [1, 2, 3, 4, 6, 8, 16, 32, 64];
    println!("\nproducts, per cent of peak by rows: best, then (median)");
    print!("{:28}", "");
    ROWS.iter().for_each(|m| print!("{m:14}"));
    println!();
    for h in [64, 128, 256, 512] {
        for k in [h, 2 * h] {
            let n = 4 * h;
            peak = best_peak(level, peak);
            let weights = noise(n * k);
            let packed = PackedWeights::new(level, &[&weights], k).unwrap();
            let (mut own, mut other, mut bandwidth) = (String::new(), String::new(), 0.0);
            for m in ROWS {
                let x = noise(m * k);
                let (mut y, mut z) = (noise(m * n), noise(m * n));
                let mut packed_product = || {
                    let (x, y) = (RowsRef::Span { data: &x, stride: k }, &mut y[..]);
                    let out = RowsMut::contiguous(y, n);
                    product(&packed, 0..packed.panels(), Pass::Forwards, &x, &Start::Nothing, out);
                };
                let mut yardstick = || matrixmultiply(&x, &weights, &mut z, [m, k, n]);
                let mut contestants: Vec<&mut dyn FnMut()> = vec![&mut packed_product];
                if beside_matrixmultiply {
                    contestants.push(&mut yardstick);
                }
                let times = contest(&mut contestants);
                for ((best, median), line) in times.iter().zip([&mut own, &mut other]) {
                    let percent = |seconds| 100.0 * (2 * m * n * k) as f64 / seconds / 1e9 / peak;
                    *line += &format!("{:6.1} ({:5.1})", percent(best), percent(median));
                }
                if m == 1 {
                    bandwidth = packed.bytes() as f64 / times[0].0 / 1e9;
                }
            }
            println!("H {h:3} K {k:4} {bandwidth:9.1} GB/s {own}");
            if beside_matrixmultiply {
                println!("{:>27} {other}", "matrixmultiply");
            }
        }
    }
}

/// Prints the speed of products in bf16, rounding of the rows included, over products in `f32`, for
/// the weights of [`products`] and several numbers of rows.
fn in_bf16(level: Level) {
    const ROWS: [usize; 9] = [1, 2, 4, 8, 12, 16, 24, 32, 64];
    let of_core = roofline::pair_rate(level).map_or("none".into(), |rate| format!("{rate:.2}"));
    println!("\nproducts in bf16, speed over f32 by rows; multiply-adds in registers: {of_core}");
    print!("{:12}", "");
    ROWS.iter().for_each(|m| print!("{m:7}"));
    println!();
    for h in [64, 128, 256, 512] {
        for k in [h, 2 * h] {
            let n = 4 * h;
            let weights = noise(n * k);
            let exact = PackedWeights::new(level, &[&weights], k).unwrap();
            let rounded =
                PackedWeights::with_precision(level, Precision::Bf16, &[&weights], k).unwrap();
            print!("H {h:3} K {k:4}");
            for m in ROWS {
                let x = noise(m * k);
                let x = RowsRef::Span { data: &x, stride: k };
                let (mut y, mut z) = (noise(m * n), noise(m * n));
                let mut rows = RoundedRows::default();
                rows.reserve(level, m, k).unwrap();
                let mut f32 = || {
                    let out = RowsMut::contiguous(&mut y, n);
                    product(&exact, 0..exact.panels(), Pass::Forwards, &x, &Start::Nothing, out);
                };
                let mut bf16 = || {
                    rows.round(level, &x, k);
                    let (out, panels) = (RowsMut::contiguous(&mut z, n), 0..rounded.panels());
                    product_bf16(&rounded, panels, Pass::Forwards, &rows, &Start::Nothing, out);
                };
                let times = contest(&mut [&mut f32, &mut bf16]);
                print!("{:7.2}", times[0].1 / times[1].1);
            }
            println!();
        }
    }
}

/// `z = x · wᵀ` for x (m, k), w (n, k), z (m, n).
fn matrixmultiply(x: &[f32], w: &[f32], z: &mut [f32], [m, k, n]: [usize; 3]) {
    assert_eq!((x.len(), w.len(), z.len()), (m * k, n * k, m * n));
    let (x, w, z) = (x.as_ptr(), w.as_ptr(), z.as_mut_ptr());
    let (rk, rn) = (k as isize, n as isize);
    // SAFETY: by the assertion, x is (m, k), w is (n, k), read as (k, n), and z is (m, n).
    unsafe { matrixmultiply::sgemm(m, k, n, 1.0, x, rk, 1, w, 1, rk, 0.0, z, rn, 1) }
}

/// Prints the time of each function in ns per element, with the elements in the L1 cache.
fn elements(level: Level) {
    println!("\nfunctions, ns per element, best (median)");
    let mut x = noise(2048);
    x.iter_mut().for_each(|x| *x *= 4.0);
    for function in [
        Op::Apply(Function::Sigmoid),
        Op::Apply(Function::Tanh),
        Op::Apply(Function::Exp),
        Op::Apply(Function::Log),
        Op::Apply(Function::Relu),
        Op::Apply(Function::Sqrt),
        Op::Apply(Function::Erf),
    ] {
        let mut y = noise(2048);
        let program = Elementwise::new(1, &[(function, vec![Register(0)])], &[Register(1)]);
        let times = contest(&mut [&mut || {
            let inputs = [Input::Same(black_box(&x))];
            elementwise(level, &program, 2048, &inputs, &mut [RowsMut::contiguous(&mut y, 2048)]);
        }]);
        let [best, median] = [times[0].0, times[0].1].map(|seconds| seconds * 1e9 / x.len() as f64);
        println!("{function:?}: {best:.3} ({median:.3})");
    }
    let logits = noise(8192);
    let times = contest(&mut [&mut || {
        black_box(arg_max(level, black_box(&logits)));
    }]);
    let [best, median] = [times[0].0, times[0].1].map(|seconds| seconds * 1e9 / 8192.0);
    println!("arg-max: {best:.3} ({median:.3})");
}

/// Prints the time of functions of a row of 256 elements, and of the log-sum-exp of 20 such rows.
fn rows(level: Level) {
    const WIDTH: usize = 256;
    println!("\nfunctions of a row of {WIDTH}, ns per element, best (median)");
    let x = noise(20 * WIDTH);
    let [mut a, mut b, mut c, mut d] = [(); 4].map(|()| x[..WIDTH].to_vec());
    let (mut product, mut lse) = ([0.0], vec![0.0; WIDTH]);
    let times = contest(&mut [
        &mut || math::softmax(level, black_box(&mut a)),
        &mut || math::log_softmax(level, black_box(&mut b)),
        &mut || math::layer_norm(level, black_box(&mut c), 1e-5),
        &mut || math::rms_norm(level, black_box(&mut d), 1e-5),
        &mut || dot(level, black_box(&x[..WIDTH]), &x[WIDTH..2 * WIDTH], &mut product),
        &mut || {
            let values = RowsRef::Span { data: black_box(&x), stride: WIDTH };
            let out = RowsMut::contiguous(&mut lse, WIDTH);
            reduce(level, Reduction::LogSumExp, values, &[20], out);
        },
    ]);
    let names =
        ["softmax", "log-softmax", "layer norm", "RMS norm", "inner product", "log-sum-exp of 20"];
    for (name, (best, median)) in names.into_iter().zip(times) {
        let elements = if name.starts_with("log-sum") { x.len() } else { WIDTH };
        let [best, median] = [best, median].map(|seconds| seconds * 1e9 / elements as f64);
        println!("{name:18} {best:.3} ({median:.3})");
    }
}

/// Prints the time of attention in ns for each pair of a query and a value.
fn attentions(level: Level) {
    println!("\nattention, ns per (query, value) pair: best (median)");
    for (width, heads, count) in
        [(64, 1, 20), (64, 4, 20), (256, 1, 5), (256, 1, 20), (256, 4, 20), (256, 1, 200)]
    {
        const QUERIES: usize = 16;
        let (queries, values) = (noise(QUERIES * width), noise(count * width));
        // All queries attend to the same values, in a shuffled order.
        let offsets: Vec<u32> = (0..QUERIES)
            .flat_map(|q| (0..count).map(move |j| ((q * 7 + j * 3) % count * width) as u32))
            .collect();
        let ends: Vec<u32> = (1..=QUERIES as u32).map(|end| end * count as u32).collect();
        let (mut out, mut scores) = (noise(QUERIES * width), noise(count));
        let times = contest(&mut [&mut || {
            let rows = RowsRef::List { data: black_box(&values), offsets: &offsets };
            let queries = RowsRef::Span { data: &queries, stride: width };
            let scored = Scored::Keys { queries, keys: rows, width };
            let out = RowsMut::contiguous(&mut out, width);
            attention(level, heads, scored, rows, &ends, &mut scores, out);
        }]);
        let pairs = (QUERIES * count) as f64;
        let [best, median] = [times[0].0, times[0].1].map(|seconds| seconds * 1e9 / pairs);
        println!("width {width:3}, {heads} heads, {count:3} values: {best:6.1} ({median:6.1})");
    }
}

/// Prints the speed of the products of MV-RNN, for one instance and for a batch of 32.
fn batched(level: Level, peak: f64) {
    println!("\nbatched products: GFLOP/s and per cent of peak for a batch of 1, and of 32");
    for (rows, depth, columns) in [
        (32, 32, 32),
        (64, 64, 64),
        (128, 128, 128),
        (64, 128, 64),
        (128, 256, 128),
        (64, 64, 1),
        (128, 128, 1),
    ] {
        print!("({rows:3} × {depth:3}) · ({depth:3} × {columns:3}):");
        for batch in [1, 32] {
            let shape = GemmShape { rows, depth, columns };
            let (left, right) = (noise(batch * rows * depth), noise(batch * depth * columns));
            let mut out = noise(batch * rows * columns);
            let times = contest(&mut [&mut || {
                let left = Left::Each(RowsRef::Span { data: &left, stride: rows * depth });
                let values = RowsRef::Span { data: &right, stride: depth * columns };
                let right = [Piece { depth, values }];
                let out = RowsMut::contiguous(&mut out, rows * columns);
                batched_gemm(level, shape, left, &right, None, out);
            }]);
            let gflops = (2 * batch * rows * depth * columns) as f64 / times[0].0 / 1e9;
            print!("  {gflops:6.1}, {:5.1} %", 100.0 * gflops / peak);
        }
        println!();
    }
}

/// Returns the best and the median time of each contestant in seconds. The contestants alternate
/// in short turns, so that other load on the machine disturbs only some of the turns.
fn contest(contestants: &mut [&mut dyn FnMut()]) -> Vec<(f64, f64)> {
    const TURNS: usize = 101;
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

/// Pseudo-random floats in -1..1, aligned to a cache line.
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

/// A vector of floats that begins at a cache line, like an arena.
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
