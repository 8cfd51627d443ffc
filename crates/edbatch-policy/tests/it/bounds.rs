//! Inputs for which `Critical` always reaches the lower bound, so that its schedule is optimal.

use std::io::Read;

use edbatch_graph::{Kind, NodeId, PlainDag};
use edbatch_policy::{Critical, lower_bound, schedule};

use crate::support;

/// Characters form a chain, and words depend on it.
#[test]
fn critical_is_optimal_on_single_lattices() {
    for seed in 0..2000 {
        let dag = support::lattices(seed, 1);
        assert_eq!(schedule(&dag, &mut Critical::new()).len(), lower_bound(&dag), "seed {seed}");
    }
}

#[test]
fn critical_is_optimal_on_mini_batches_of_trees() {
    for seed in 0..50 {
        let dag = support::trees(seed, 30);
        assert_eq!(schedule(&dag, &mut Critical::new()).len(), lower_bound(&dag), "seed {seed}");
    }
}

#[test]
fn critical_is_optimal_on_every_lattice_of_newswire() {
    let Some(path) = edbatch_testing::shared("datasets/newswire/test.arcs.txt.gz") else { return };
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let lattices = arc_file(&text);
    for (n, dag) in lattices.iter().enumerate() {
        let schedule = schedule(dag, &mut Critical::new());
        assert_eq!(schedule.check(dag), Ok(()));
        assert_eq!(schedule.len(), lower_bound(dag), "lattice {n}");
    }
    assert_eq!(lattices.len(), 316);
}

/// Reads the number of lattices; then for each lattice its number of states, a label for each
/// state, and the arcs into each state as `k (from id)×k`. An arc from the previous state is a
/// character, other arcs are words.
fn arc_file(text: &str) -> Vec<PlainDag> {
    let numbers = text.split_ascii_whitespace();
    let mut numbers = numbers.map(|number| number.parse::<usize>().unwrap());
    let mut next = || numbers.next().unwrap();
    let count = next();
    let mut lattice = |_| {
        let mut dag = PlainDag::new(["char", "word", "output"]);
        let states = next();
        (0..states).for_each(|_| _ = next());
        let mut into: Vec<Vec<NodeId>> = Vec::new();
        for state in 0..states {
            let mut arcs = Vec::new();
            for _ in 0..next() {
                let (from, _label) = (next(), next());
                let kind = Kind(u16::from(from + 1 != state));
                arcs.push(dag.push(kind, &into[from]).unwrap());
            }
            if state > 0 {
                dag.push(Kind(2), &arcs).unwrap();
            }
            into.push(arcs);
        }
        dag
    };
    (0..count).map(&mut lattice).collect()
}
