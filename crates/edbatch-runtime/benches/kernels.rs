//! Kernels beside the roof of the core.

use edbatch_runtime::kernels::{Level, PackedWeights, Rows, RowsMut, Start, product, roof};
use std::time::Instant;

fn seconds(budget: f64, mut f: impl FnMut()) -> f64 {
    f();
    let mut best = f64::INFINITY;
    let t0 = Instant::now();
    while t0.elapsed().as_secs_f64() < budget {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    let level = Level::detect();
    let peak = roof::peak_gflops(level);
    println!("{level}: peak {peak:.1} GFLOP/s");
    for bytes in [16 << 10, 256 << 10, 512 << 10, 2 << 20, 8 << 20, 64 << 20] {
        println!(
            "read {:6} KiB: {:.1} GB/s  copy {:.1}",
            bytes >> 10,
            roof::read_bandwidth(level, bytes),
            roof::copy_bandwidth(bytes)
        );
    }
    for (h, kf) in [
        (32, 1),
        (32, 2),
        (64, 1),
        (64, 2),
        (128, 1),
        (128, 2),
        (256, 1),
        (256, 2),
        (512, 1),
        (512, 2),
    ] {
        let (n, k) = (4 * h, kf * h);
        let w = vec![0.01; n * k];
        let packed = PackedWeights::new(level, &[&w], k);
        print!("H {h:4} K {k:5}");
        for m in [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 256] {
            let x = vec![0.5; m * k];
            let mut out = vec![0.0; m * n];
            let reps = (2_000_000 / (m * n * k)).max(1);
            let s = seconds(0.05, || {
                for _ in 0..reps {
                    product(
                        &packed,
                        0..packed.panels(),
                        Rows::Span { data: &x, stride: k },
                        Start::Nothing,
                        RowsMut::contiguous(&mut out, n),
                    );
                }
            }) / reps as f64;
            print!(" {m}:{:5.1}", 100.0 * 2.0 * (m * n * k) as f64 / s / 1e9 / peak);
        }
        println!();
    }
}
