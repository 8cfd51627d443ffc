// Reads command lists. `command_list.rs` describes their format.
#pragma once
#include "block.h"

enum : u32 {
    // The maximum number of calls of a tile of small products, and of a unit tile (`tile.h`) whose
    // starts of rows of `NEAR` operands are in shared memory.
    TILE = 16,
    UNIT_TILE = 128,
    // The most operands of a job that is loaded ahead.
    NEAR = 4,
    // The number of starts of rows that are loaded ahead.
    FOUND = 128,
};

// Replace the distance of rows of an operand whose starts are in a list.
enum : u32 { LIST = 0xffffffffu, FOLDED = 0xfffffffeu };

// A block's share of a wave: `count` calls of a job from call `first` on, and a slice of its units.
// `shape` is 0, or the number of the shape of a unit tile. `most` is the maximum of `count`.
struct Share {
    u32 job, first, count, slice, slices, shape, most;
};
enum : u32 { NONE = 0xffffffffu };

// A tile of a job, and a slice of its units.
struct Job {
    const Arguments& a;
    float* arena;
    // The words of the job, in shared memory if it was loaded ahead.
    const u32* words;
    u32 first, count;
    u32 slice, slices;
    // The starts of the tile's rows: at the start of `Block::ahead` if they were not loaded ahead.
    // For each of the first operands there are `most`.
    u32* starts;
    u32 most;

    DEVICE Job(const Arguments& a, const u32* words, Share own, u32* starts)
        : a(a), arena(a.arena), words(words), first(own.first),
          count(own.count), slice(own.slice), slices(own.slices), starts(starts), most(own.most) {}
    // The number of operands whose starts are found.
    DEVICE u32 found() const {
        return most <= TILE ? FOUND / TILE : most <= UNIT_TILE ? (u32)NEAR : NEAR / 2;
    }
    DEVICE u32 phase() const { return words[0]; }
    DEVICE u32 calls() const { return words[1]; }
    DEVICE u32 out() const { return words[2]; }
    DEVICE u32 scratch() const { return words[3]; }
    DEVICE u32 operands() const { return words[5]; }
    // The number of operands whose starts may be loaded ahead: 0 if starts are looked up while the
    // plan runs, else all.
    DEVICE u32 ahead() const { return words[7]; }
    // The two words of an operand.
    DEVICE const u32* operand(u32 index) const { return words + 8 + 2 * index; }

    // The same calls with all units.
    DEVICE Job whole() const {
        Job job = *this;
        job.slice = 0, job.slices = 1;
        return job;
    }
};

// The units of a slice: [first, first + count). The first slices may have one more than the others.
struct Units {
    u32 first, count;
    DEVICE Units(u32 all, u32 slice, u32 slices) {
        u32 each = all / slices, more = all % slices;
        first = each * slice + (slice < more ? slice : more);
        count = each + (slice < more);
    }
    DEVICE Units(u32 all, const Job& job) : Units(all, job.slice, job.slices) {}
};

// The start of a call's row of an operand: at equal distances, or from a list.
DEVICE u32 row(const Job& j, u32 operand, u32 call) {
    const u32* form = j.operand(operand);
    return form[1] < FOLDED ? form[0] + call * form[1] : j.a.commands[form[0] + call];
}

// Finds the starts of the rows of a tile, unless they have been loaded ahead, for the first
// operands that have a bit in `operands`. So the command list is read once for each row, not for
// each element.
CALLED void find_rows(Block block, Job j, u32 operands) {
    if (j.starts != block.ahead() && j.ahead() == j.operands()) return;
    block.superstep([&](u32 t) {
#pragma unroll 1
        for (u32 i = t; i < j.found() * j.most; i += THREADS) {
            u32 operand = i / j.most, r = i % j.most;
            if (operands >> operand & 1 && r < j.count)
                j.starts[i] = row(j, operand, j.first + r);
        }
    });
}

// The start of the row of call j.first + r of an operand, after `find_rows`.
DEVICE u32 start(const Job& j, u32 operand, u32 r) {
    if (operand >= j.found()) return row(j, operand, j.first + r);
    return j.starts[operand * j.most + r];
}

// The memory of a prologue's rows: folded tables, or the arena.
DEVICE const float* hoisted(const Job& j, u32 operand) {
    return j.operand(operand)[1] == FOLDED ? j.a.folded : j.arena;
}

// The rows of a job's calls that a step writes, in scratch, in the output or in shared memory:
// row r starts at base + r * stride.
struct Own {
    float* base;
    u32 stride;
    DEVICE float* row(u32 r) const { return base + r * stride; }
    DEVICE const float* row(const Job&, u32 r) const { return row(r); }
};

// The rows in a region of scratch with `width` elements a call, after `before` elements a call.
DEVICE Own scratch(const Job& j, u32 before, u32 width, u32 column) {
    return {j.arena + (j.scratch() + before * j.calls() + j.first * width + column), width};
}
DEVICE Own output(const Job& j, u32 stride, u32 column) {
    return {j.arena + (j.out() + j.first * stride + column), stride};
}

// The rows of a job's calls that a step reads. A row of an operand starts at base + its start.
enum : u32 { NO_OPERAND = 0xffffffffu };
struct Rows {
    const float* base;
    u32 operand, stride;

    DEVICE Rows(const float* base, u32 operand) : base(base), operand(operand), stride(0) {}
    DEVICE Rows(Own own) : base(own.base), operand(NO_OPERAND), stride(own.stride) {}
    DEVICE const float* row(const Job& j, u32 r) const {
        return base + (operand == NO_OPERAND ? r * stride : start(j, operand, r));
    }
};

// No rows.
DEVICE Rows no_rows() { return {nullptr, NO_OPERAND}; }

// The values of a call at a variadic port.
struct Values {
    const u32* rows;
    u32 count;
    DEVICE Values(const Job& j, u32 operand, u32 call) {
        const u32* form = j.operand(operand);
        const u32* ends = j.a.commands + form[0];
        u32 first = call == 0 ? 0 : ends[call - 1];
        rows = j.a.commands + form[1] + first;
        count = ends[call] - first;
    }
};

// Calls f(from, count) for the columns from `column` on of each value of call j.first + r at a
// port.
template <class F>
DEVICE void each_value(const Job& j, u32 operand, u32 r, u32 column, u32 count, F f) {
    Values values(j, operand, j.first + r);
    for (u32 v = 0; v < values.count; ++v) f(j.arena + values.rows[v] + column, count);
}

// Runs f(r, u) on all threads of a block, for each call j.first + r and each of the slice's units.
template <class F> DEVICE void each_unit(const Block& block, const Job& j, u32 all, F f) {
    Units units(all, j);
    block.superstep([&](u32 t) {
        u32 items = j.count * units.count;
#pragma unroll 1
        for (u32 item = t; item < items; item += THREADS)
            f(item / units.count, units.first + item % units.count);
    });
}
