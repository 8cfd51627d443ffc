// Adds the rows of calls that belong together: all that name a row of a table, or that read a given
// row or an initial value. A warp owns 32 columns of a sum and walks over its calls in the order of
// inputs.
#include "stage.h"

// A sum of rows: of the calls from list place `first` to `end`, for some fields.
struct Row {
    u32 first, end;
    // The place of the sum, in floats, and its fields.
    u32 to, first_field, end_field;
    // 1 if the sum begins with zero.
    u32 from_zero;
};

// A field: its place in the row of a call and in the sum, and its width.
struct Field {
    u32 from, to, width;
};

struct Work {
    Stage* stage;
    u64 launch;
    Result* result;
    const Row* rows;
    u64 count;
    // The warps of a row: the widest one has up to 32 times as many columns.
    u64 slices;
    const Field* fields;
    // The starts of the rows of calls in the arena.
    const u32* list;
    const float* arena;
    float* sums;
    // The losses of inputs, part by part: for each part the place in the arena and the number of
    // inputs. The first one is added to a loss.
    const u32* losses;
    u64 parts;
    double loss;
    // Lists of later launches in host memory, which this one copies to the device, as they are read
    // more than once.
    struct {
        const u32* from;
        u32* to;
        u64 words;
    } copies[3];
};

// The rows that a thread loads at a time, and the words that a block copies.
enum : u32 { AT_ONCE = 8, WARPS = THREADS / 32, COPIED = 4096 };

// Copies a share of the lists, by block `index` of those that copy.
DEVICE void copy_lists(const Block& block, const Work& work, u64 index) {
    for (u32 c = 0; c < 3; ++c) {
        u64 blocks = (work.copies[c].words + COPIED - 1) / COPIED, first = index * COPIED;
        if (index >= blocks) {
            index -= blocks;
            continue;
        }
        const float* from = (const float*)work.copies[c].from;
        float* to = (float*)work.copies[c].to;
        u64 left = work.copies[c].words - first, count = left < COPIED ? left : (u64)COPIED;
        block.unordered([&](u32 t) {
#pragma unroll
            for (u32 i = 4 * t; i < COPIED; i += 4 * THREADS)
                if (i < count) store4(to + first + i, load4(from + first + i));
        });
        return;
    }
}

// Adds an element of all calls.
DEVICE float sum_of(const Work& work, const Row& row, u32 place, float sum) {
#pragma unroll 1
    for (u32 first = row.first; first < row.end; first += AT_ONCE) {
        u32 count = row.end - first < AT_ONCE ? row.end - first : (u32)AT_ONCE;
        float x[AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i)
            x[i] = i < count ? fresh(work.arena + work.list[first + i] + place) : 0.0f;
        end_of_loads();
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i)
            if (i < count) sum = add(sum, x[i]);
    }
    return sum;
}

DEVICE void run_block(const Block& block, const Work& work, u32 index) {
    u64 blocks = (work.count * work.slices + WARPS - 1) / WARPS;
    if (index >= blocks) return copy_lists(block, work, index - blocks);
    block.unordered([&](u32 t) {
        u64 number = (u64)index * WARPS + t / 32;
        if (number >= work.count * work.slices) return;
        Row row = work.rows[number / work.slices];
        // The column, counted over all fields.
        u32 column = (u32)(number % work.slices) * 32 + t % 32;
#pragma unroll 1
        for (u32 f = row.first_field; f < row.end_field; ++f) {
            Field field = work.fields[f];
            if (column < field.width) {
                float* to = work.sums + row.to + field.to + column;
                *to = sum_of(work, row, field.from + column, row.from_zero ? 0.0f : fresh(to));
                return;
            }
            column -= field.width;
        }
    });
}

// Adds up the losses of a mini-batch, in the order of inputs.
DEVICE void end_work(const Block& block, const Work& work) {
    block.unordered([&](u32 t) {
        if (t > 0 || work.parts == 0) return;
        double loss = work.loss;
#pragma unroll 1
        for (u64 part = 0; part < work.parts; ++part) {
            const double* of_part = (const double*)(work.arena + work.losses[2 * part]);
            u32 inputs = work.losses[2 * part + 1];
#pragma unroll 8
            for (u32 i = 0; i < inputs; ++i) loss += of_part[i];
        }
        work.stage->loss = loss;
    });
}

#include "grid.h"
