//! Instances with known answers, from the folder `pqtree` in `EDBATCH_SHARED`. Skipped without it.

use crate::families::{Family, generate};
use flate2::read::GzDecoder;
use pqtree::PqTree;
use std::fs::File;
use std::io::Read;

#[test]
fn all_small_instances() {
    let Some(folder) = edbatch_testing::shared("pqtree") else { return };
    let read = |name: &str| {
        let mut text = String::new();
        let file = File::open(folder.join(name)).unwrap();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        text
    };
    let (instances, answers) = (read("small7.c1p.gz"), read("small7.answers.gz"));
    let mut lines = instances.lines().filter(|line| !line.starts_with('c'));
    let numbers =
        |line: &str| line.split(' ').filter_map(|field| field.parse().ok()).collect::<Vec<u32>>();
    let mut count = 0;
    for answer in answers.lines() {
        let header = numbers(lines.next().unwrap());
        let mut tree = PqTree::new(header[0]);
        let mut decide = |_| {
            if tree.reduce(&numbers(lines.next().unwrap())[1..]).is_ok() { '1' } else { '0' }
        };
        let decisions: String = (0..header[1]).map(&mut decide).collect();
        assert_eq!(format!("{decisions} {}", tree.orders_count().unwrap()), answer);
        count += 1;
    }
    assert_eq!((count, lines.next()), (20_000, None));
}

#[test]
fn generated_instances_of_up_to_ten_thousand_leaves() {
    generated(10_000);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes without optimisation: run with --release")]
fn generated_instances_of_up_to_a_million_leaves() {
    generated(1_000_000);
}

fn generated(largest: usize) {
    let Some(folder) = edbatch_testing::shared("pqtree") else { return };
    let golden = std::fs::read_to_string(folder.join("golden.tsv")).unwrap();
    for line in golden.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let arguments: Vec<&str> = fields[1].split(' ').collect();
        let number =
            |place: usize| arguments.get(place).map_or(0, |text| text.parse::<usize>().unwrap());
        let family = match arguments[0] {
            "fix" => Family::Fixed(number(4)),
            "uni" => Family::Uniform(number(4)),
            "log" => Family::Logarithmic,
            "mat" => Family::Matrix,
            "neg" => Family::Corrupted,
            "tree" => Family::Tree,
            other => panic!("{other}"),
        };
        let leaves = number(1);
        if leaves > largest {
            continue;
        }
        let sets = generate(family, leaves, number(2), number(3) as u64);
        let mut tree = PqTree::new(leaves as u32);
        let accepted = tree.reduce_greedy(&sets).unwrap();
        let hash = accepted.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &accepted| {
            (hash ^ if accepted { 1 } else { 2 }).wrapping_mul(0x0100_0000_01b3)
        });
        let (p_nodes, q_nodes) = tree.count_nodes();
        let found = [
            sets.len().to_string(),
            sets.iter().map(Vec::len).sum::<usize>().to_string(),
            accepted.iter().filter(|&&accepted| accepted).count().to_string(),
            format!("{hash:016x}"),
            p_nodes.to_string(),
            q_nodes.to_string(),
        ];
        assert_eq!(found.as_slice(), &fields[2..8], "{}", fields[0]);
        assert!(tree.bytes() <= 24_000_000, "{} bytes: {}", fields[0], tree.bytes());
        let log2: f64 = fields[8].parse().unwrap();
        assert!((tree.orders_log2() - log2).abs() <= 0.001, "{}", fields[0]);
    }
}
