//! Runs the fuzz target of sessions briefly, without a fuzzer.

#[path = "../../edbatch/fuzz/bodies/c_sessions.rs"]
mod c_sessions;
#[path = "../../edbatch/fuzz/seeds.rs"]
mod seeds;

#[test]
fn scripts_of_calls_from_c() {
    seeds::run("c_sessions", c_sessions::run, edbatch_testing::cases(256));
}
