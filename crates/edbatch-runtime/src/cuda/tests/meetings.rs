//! Where blocks meet, with a thread for each block. `cargo xtask ci --long` runs it under the
//! thread sanitizer, which sees whether one reads what another may still be writing.

use std::process::Command;

use super::super::CudaError;
use super::super::cpp::{Folder, compile};

/// 16 threads write a number each, meet, and read all numbers; `absent` does not come to the last
/// of the meetings. Prints how many threads left it in time, and how many too late.
const MEETINGS: &str = "#include \"meet.h\"
#include <cstdio>
#include <vector>

enum : u32 { BLOCKS = 16 };

int main(int count, char**) {
    static Meeting meeting{{7}, {0}};
    static u32 arena[2][BLOCKS];
    std::atomic<u32> in_time{0}, late{0}, wrong{0};
    bool absent = count > 1;
    u32 waves = absent ? 20 : 500;
    u64 second = 1000000000, patience = absent ? second : 100 * second;
    auto block = [&](u32 index) {
        u64 all = 7;
        for (u32 wave = 0; wave < waves; ++wave) {
            if (absent && index == 5 && wave + 1 == waves) return;
            arena[wave % 2][index] = wave * BLOCKS + index;
            all += BLOCKS;
            if (!meet(meeting, all, patience)) {
                late += 1;
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
    std::printf(\"%u in time, %u late, %u wrong\", in_time.load(), late.load(), wrong.load());
}
";

/// What it prints with arguments; `None` where there is no compiler.
fn meetings(arguments: &[&str]) -> Option<String> {
    let folder = Folder::new().unwrap();
    let options = ["-std=c++17", "-O1", "-pthread"];
    let program = match compile(&folder.path, MEETINGS, &options, "meetings") {
        Err(error @ CudaError::NoCompiler { .. }) => {
            edbatch_testing::skip(&error.to_string());
            return None;
        }
        compiled => compiled.unwrap(),
    };
    let output = Command::new(program).args(arguments).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    Some(said.into_owned())
}

#[test]
fn all_blocks_see_what_all_have_written() {
    let Some(said) = meetings(&[]) else { return };
    assert_eq!(said, "16 in time, 0 late, 0 wrong");
}

/// Who waits in vain leaves, and so do all others.
#[test]
fn a_block_that_never_arrives_is_not_waited_for_forever() {
    let Some(said) = meetings(&["absent"]) else { return };
    assert_eq!(said, "0 in time, 15 late, 0 wrong");
}
