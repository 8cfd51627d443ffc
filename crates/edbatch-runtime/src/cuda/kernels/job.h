// What a tape says: `edbatch_layout::Tape`, where the form of its numbers is explained.
#pragma once
#include "block.h"

// A tile of the calls of a step, and a slice of its units.
struct Job {
    // Calls, where output begins, where scratch begins; then three numbers an operand.
    const u32* step;
    u32 first, count;
    u32 slice, slices;

    DEVICE u32 calls() const { return step[0]; }
    DEVICE u32 out() const { return step[1]; }
    DEVICE u32 scratch() const { return step[2]; }
    DEVICE const u32* operand(u32 index) const { return step + 3 + 3 * index; }
};

// The units of a slice: [first, first + count) of all.
struct Units {
    u32 first, count;
    DEVICE Units(u32 all, const Job& job)
        : first((u32)((unsigned long long)all * job.slice / job.slices)),
          count((u32)((unsigned long long)all * (job.slice + 1) / job.slices) - first) {}
};

// Where a call finds an operand: at equal distances, or in a list.
DEVICE u32 row(const u32* tape, const u32* operand, u32 call) {
    return operand[0] == 1 ? operand[1] + call * operand[2] : tape[operand[1] + call];
}

// Where the rows of what a table's prologue makes lie: those of a folded table, or of this plan.
DEVICE const float* hoisted(const Arguments& a, const u32* operand) {
    return operand[0] == 4 ? a.folded : a.arena;
}

// The values of a call at a port that takes any number of them.
struct Values {
    const u32* rows;
    u32 count;
    DEVICE Values(const u32* tape, const u32* operand, u32 call) {
        const u32* ends = tape + operand[1];
        u32 first = call == 0 ? 0 : ends[call - 1];
        rows = tape + operand[2] + first;
        count = ends[call] - first;
    }
};
