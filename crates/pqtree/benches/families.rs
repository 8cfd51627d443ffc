//! Reductions on the families of instances, in elements of the sets a second; and what else is done in linear time.

#[path = "../dev/families.rs"]
mod families;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use families::{Family, generate};
use pqtree::PqTree;
use std::hint::black_box;

/// The instances that the crate's speed is stated on, by name.
const INSTANCES: [(&str, Family, usize, usize, u64); 9] = [
    ("fix2-1e5", Family::Fixed(2), 100_000, 400_000, 1),
    ("fix64-1e5", Family::Fixed(64), 100_000, 400_000, 1),
    ("log-1e5", Family::Logarithmic, 100_000, 800_000, 2),
    ("uni32-1e5", Family::Uniform(32), 100_000, 400_000, 4),
    ("neg-1e5", Family::Corrupted, 100_000, 800_000, 5),
    ("mat-1e4", Family::Matrix, 10_000, 2_000_000, 6),
    ("tree-1e5", Family::Tree, 100_000, 0, 3),
    ("fix64-1e6", Family::Fixed(64), 1_000_000, 4_000_000, 1),
    ("tree-1e6", Family::Tree, 1_000_000, 0, 3),
];

fn reductions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reduce");
    group.sample_size(10);
    for (name, family, leaves, budget, seed) in INSTANCES {
        let sets = generate(family, leaves, budget, seed);
        group.throughput(Throughput::Elements(sets.iter().map(|set| set.len() as u64).sum()));
        group.bench_function(name, |bencher| {
            bencher.iter_with_large_drop(|| {
                let mut tree = PqTree::new(leaves as u32);
                for set in &sets {
                    black_box(tree.reduce(set).is_ok());
                }
                tree
            });
        });
    }
}

fn around(criterion: &mut Criterion) {
    criterion.bench_function("new-1e6", |bencher| {
        bencher.iter_with_large_drop(|| PqTree::new(black_box(1_000_000)))
    });
    let mut group = criterion.benchmark_group("tree-1e5");
    let leaves = 100_000;
    let sets = generate(Family::Tree, leaves, 0, 3);
    let mut tree = PqTree::new(leaves as u32);
    tree.reduce_all(&sets).expect("made to fit");
    let mut frontier = vec![0; leaves];
    group.bench_function("new", |bencher| {
        bencher.iter_with_large_drop(|| PqTree::new(black_box(leaves as u32)))
    });
    group.bench_function("clone", |bencher| bencher.iter_with_large_drop(|| tree.clone()));
    group.bench_function("write_frontier", |bencher| {
        bencher.iter(|| tree.write_frontier(black_box(&mut frontier)))
    });
    group.bench_function("equal", |bencher| bencher.iter(|| tree == black_box(&tree).clone()));
    group.bench_function("contains_order", |bencher| {
        bencher.iter(|| tree.contains_order(black_box(&frontier)))
    });
    group.bench_function("orders_log2", |bencher| bencher.iter(|| tree.orders_log2()));
    group.bench_function("reduce all again", |bencher| {
        bencher.iter(|| sets.iter().all(|set| tree.reduce(set).is_ok()));
    });
    group.bench_function("reduce all under a checkpoint, roll back", |bencher| {
        let fresh = || PqTree::new(leaves as u32);
        bencher.iter_batched_ref(
            fresh,
            |tree| {
                let start = tree.checkpoint();
                assert!(sets.iter().all(|set| tree.reduce(set).is_ok()));
                tree.rollback(start);
            },
            BatchSize::LargeInput,
        );
    });
}

criterion_group!(benches, reductions, around);
criterion_main!(benches);
