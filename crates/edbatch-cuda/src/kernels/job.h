// Reads command lists. `command_list.rs` describes their format.
#pragma once
#include "block.h"

// A job: `count` calls of a step from call `first` on, and a slice of its units.
struct Job {
    // Calls, start of the output, start of scratch; then three numbers for each operand.
    const u32* step;
    u32 first, count;
    u32 slice, slices;

    DEVICE u32 calls() const { return step[0]; }
    DEVICE u32 out() const { return step[1]; }
    DEVICE u32 scratch() const { return step[2]; }
    DEVICE const u32* operand(u32 index) const { return step + 3 + 3 * index; }
};

// The units of a slice: [first, first + count).
struct Units {
    u32 first, count;
    DEVICE Units(u32 all, const Job& job)
        : first((u32)((unsigned long long)all * job.slice / job.slices)),
          count((u32)((unsigned long long)all * (job.slice + 1) / job.slices) - first) {}
};

// The start of a call's row of an operand: at equal distances, or from a list.
DEVICE u32 row(const u32* commands, const u32* operand, u32 call) {
    return operand[0] == 1 ? operand[1] + call * operand[2] : commands[operand[1] + call];
}

// The memory of a prologue's rows: folded tables, or the arena.
DEVICE const float* hoisted(const Arguments& a, const u32* operand) {
    return operand[0] == 4 ? a.folded : a.arena;
}

// The values of a call at a variadic port.
struct Values {
    const u32* rows;
    u32 count;
    DEVICE Values(const u32* commands, const u32* operand, u32 call) {
        const u32* ends = commands + operand[1];
        u32 first = call == 0 ? 0 : ends[call - 1];
        rows = commands + operand[2] + first;
        count = ends[call] - first;
    }
};
