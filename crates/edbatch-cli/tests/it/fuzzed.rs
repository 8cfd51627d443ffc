//! Runs the fuzz target of the marks of shards briefly, without a fuzzer.

use edbatch_testing::cases;

#[path = "../../../edbatch/fuzz/bodies/marks.rs"]
mod marks;
#[path = "../../../edbatch/fuzz/seeds.rs"]
mod seeds;

#[test]
fn marks() {
    seeds::run("marks", marks::run, cases(256));
}
