//! Runs the inputs that the fuzzer kept. `fuzz/README.md` explains where they come from.

use crate::trace;

const CORPUS: &str = include_str!("../../fuzz/corpus.txt");

fn bytes(line: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal");
    (0..line.len()).step_by(2).map(byte).collect()
}

#[test]
fn kept_inputs_agree_with_the_models() {
    let mut operations = 0;
    for line in CORPUS.lines() {
        operations += trace::run(&bytes(line)).values().sum::<u64>();
    }
    println!("{} inputs, {operations} operations", CORPUS.lines().count());
    assert!(CORPUS.lines().count() > 500 && operations > 2000);
}
