//! The barrier of a team, with a thread for each block. `cargo xtask ci --long` runs it under the
//! thread sanitizer, which finds data races.

use std::process::Command;

use super::compiled_or_skip;
use crate::cpp::{Folder, compile};

/// Each of 16 threads writes a number, waits at a barrier, and reads all numbers. With an argument
/// one of them never arrives at the last barrier. Prints the numbers of threads that passed the
/// last barrier and that timed out.
const BARRIERS: &str = "#include \"barrier.h\"
#include <cstdio>
#include <vector>

enum : u32 { BLOCKS = 16 };

int main(int count, char**) {
    static Barrier barrier{{0}, {0}};
    static u32 arena[2][BLOCKS];
    std::atomic<u32> in_time{0}, timed_out{0}, wrong{0};
    bool absent = count > 1;
    u32 waves = absent ? 20 : 500;
    u64 second = 1000000000, timeout = absent ? second : 100 * second;
    auto block = [&](u32 index) {
        u64 all = 0;
        for (u32 wave = 0; wave < waves; ++wave) {
            if (absent && index == 5 && wave + 1 == waves) return;
            arena[wave % 2][index] = wave * BLOCKS + index;
            all += BLOCKS;
            if (!arrive_and_wait(barrier, all, Limit{&barrier, timeout})) {
                timed_out += 1;
                return;
            }
            for (u32 other = 0; other < BLOCKS; ++other)
                if (arena[wave % 2][other] != wave * BLOCKS + other) wrong += 1;
        }
        in_time += 1;
    };
    std::vector<std::thread> threads;
    for (u32 index = 0; index < BLOCKS; ++index) threads.emplace_back(block, index);
    for (auto& thread : threads) thread.join();
    std::printf(\"%u in time, %u timed out, %u wrong\", in_time.load(), timed_out.load(),
                wrong.load());
}
";

/// Runs the program with arguments. Returns its output, or `None` without a C++ compiler.
fn barriers(arguments: &[&str]) -> Option<String> {
    let folder = Folder::new().unwrap();
    let options = ["-std=c++17", "-O1", "-pthread"];
    let program = compiled_or_skip(compile(&folder.path, BARRIERS, &options, "barriers"))?;
    let output = Command::new(program).args(arguments).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    Some(said.into_owned())
}

#[test]
fn writes_before_a_barrier_are_visible_after_it() {
    let Some(said) = barriers(&[]) else { return };
    assert_eq!(said, "16 in time, 0 timed out, 0 wrong");
}

/// All other threads time out.
#[test]
fn a_missing_block_causes_a_timeout() {
    let Some(said) = barriers(&["absent"]) else { return };
    assert_eq!(said, "0 in time, 15 timed out, 0 wrong");
}
