// Reads command lists. `command_list.rs` describes their format.
#pragma once
#include "product.h"

// A job: `count` <= TILE calls of a step from call `first` on, and a slice of its units.
struct Job {
    // Three numbers for each operand.
    const u32* operands;
    // Of the step: its number of calls, and the starts of its output and scratch.
    u32 calls, out, scratch;
    u32 first, count;
    u32 slice, slices;

    DEVICE Job(const u32* commands, const u32* job, u32 slice, u32 slices)
        : operands(commands + job[1] + 3), calls(commands[job[1]]), out(commands[job[1] + 1]),
          scratch(commands[job[1] + 2]), first(job[2]), count(job[3]), slice(slice),
          slices(slices) {}
    DEVICE const u32* operand(u32 index) const { return operands + 3 * index; }
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

// Stores the starts of the rows of all calls of a job in shared memory, for the first operands that
// have a bit in `operands`. So the command list is read once for each row, not for each element.
DEVICE void find_rows(Block& block, const Arguments& a, const Job& j, u32 operands) {
    block.superstep([&](u32 t) {
        u32 operand = t / TILE, r = t % TILE;
        if (t < STARTS && operands >> operand & 1 && r < j.count)
            block.shared[ROWS + t] = from_bits(row(a.commands, j.operand(operand), j.first + r));
    });
}

// The start of a call's row of an operand, after `find_rows`.
DEVICE u32 start(const Block& block, const Arguments& a, const Job& j, u32 operand, u32 call) {
    if (operand >= STARTS / TILE) return row(a.commands, j.operand(operand), call);
    return bits(block.shared[ROWS + operand * TILE + call - j.first]);
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
