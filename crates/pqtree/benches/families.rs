//! Reductions on the families of instances, in elements of the sets per second, and operations that
//! take linear time.

#[path = "../dev/families.rs"]
mod families;
#[path = "../dev/instances.rs"]
mod instances;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use families::{Family, generate};
use instances::{LARGE, SMALL};
use pqtree::PqTree;
use std::hint::black_box;

fn reductions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reduce");
    group.sample_size(10);
    for (name, leaves, make) in SMALL.into_iter().chain(LARGE) {
        let instance = make(name, leaves);
        let start = instance.start();
        group.throughput(Throughput::Elements(instance.elements() as u64));
        group.bench_function(format!("{}-{leaves}", instance.name), |bencher| {
            bencher.iter_batched(
                || start.clone(),
                |start| instance.run(black_box(start)),
                BatchSize::LargeInput,
            );
        });
    }
}

fn around(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tree-1e5");
    let leaves = 100_000;
    let sets = generate(Family::Tree, leaves, 0, 3);
    let mut tree = PqTree::new(leaves as u32);
    tree.reduce_all(&sets).expect("the hidden order keeps the sets together");
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
