// One gradient for each parameter, from its sums in the order of the CPU, and the sum of the squares
// of all elements. A block has 1,024 elements of a parameter.
#include "stage.h"

// The kinds of sources of a gradient.
enum : u32 {
    // All elements: the first source is copied, later ones are added.
    WHOLE = 0,
    // Some rows of a table, which are added: pairs of a row and the place of its elements, by row.
    NAMED,
    // The rows of a gradient that has only these: for each row the end of its places, then all
    // places. The first place of a row is copied, later ones are added.
    OF_ROWS,
};
struct Source {
    u32 kind;
    // The place of the elements in the sums; or of the pairs or ends in the list.
    u32 from;
    // The number of rows, and the elements of a row.
    u32 count, width;
};

// A gradient: its place, its number of elements, its sources, and its parameter.
struct Total {
    u32 to, elements, first_source, end_source, parameter, padding;
};

// The elements of a block: elements of a total, from `first` on.
struct Chunk {
    u32 total, first;
};

struct Work {
    Stage* stage;
    u64 launch;
    Result* result;
    const Total* totals;
    const Source* sources;
    const Chunk* chunks;
    u64 count;
    const u32* list;
    // The sums over calls, and the sums of rows and what row adjoints made of them.
    const float* sums;
    const float* rows;
    float* gradients;
    // The sum of the squares of each block's elements.
    double* squares;
};

enum : u32 { ELEMENTS = 1024, PARTIAL = 16, AT_ONCE = THREADS / PARTIAL };

DEVICE float element(const Work& work, const Total& total, u32 e) {
    float sum = 0.0f;
#pragma unroll 1
    for (u32 s = total.first_source; s < total.end_source; ++s) {
        Source source = work.sources[s];
        const u32* list = work.list + source.from;
        u32 row = source.kind == WHOLE ? 0 : e / source.width;
        if (source.kind == WHOLE) {
            float x = fresh(work.sums + source.from + e);
            sum = s == total.first_source ? x : add(sum, x);
        } else if (source.kind == NAMED) {
            u32 first = 0, end = source.count;
#pragma unroll 1
            while (first < end) {
                u32 middle = (first + end) / 2;
                if (list[2 * middle] < row) first = middle + 1;
                else end = middle;
            }
            if (first < source.count && list[2 * first] == row)
                sum = add(sum, fresh(work.rows + list[2 * first + 1] + e % source.width));
        } else {
            u32 first = row == 0 ? 0 : list[row - 1];
#pragma unroll 1
            for (u32 i = first; i < list[row]; ++i) {
                float x = fresh(work.rows + list[source.count + i] + e % source.width);
                sum = i == first ? x : add(sum, x);
            }
        }
    }
    return sum;
}

// Adds up the partial sums of 16 threads, in order.
DEVICE double added_up(const double* partial) {
    double sum = 0.0;
    for (u32 i = 0; i < PARTIAL; ++i) sum += partial[i];
    return sum;
}

DEVICE void run_block(const Block& block, const Work& work, u32 index) {
    if (index >= work.count) return;
    Chunk chunk = work.chunks[index];
    Total total = work.totals[chunk.total];
    u32 left = total.elements - chunk.first, count = left < ELEMENTS ? left : (u32)ELEMENTS;
    float* own = block.shared();
    double* partial = (double*)(own + ELEMENTS);
    block.superstep([&](u32 t) {
        bool finite = true;
#pragma unroll 1
        for (u32 i = t; i < count; i += THREADS) {
            float x = element(work, total, chunk.first + i);
            work.gradients[total.to + chunk.first + i] = own[i] = x;
            finite = finite && is_finite(x);
        }
        if (!finite) work.stage->set_bad_parameter(total.parameter);
    });
    block.superstep([&](u32 t) {
        if (t >= PARTIAL) return;
        double sum = 0.0;
        for (u32 i = t; i < count; i += PARTIAL) sum += (double)own[i] * (double)own[i];
        partial[t] = sum;
    });
    block.unordered([&](u32 t) {
        if (t == 0) work.squares[index] = added_up(partial);
    });
}

// Adds up 1,024 sums at a time, until one is left.
DEVICE void end_work(const Block& block, const Work& work) {
    double* partial = (double*)block.shared();
#pragma unroll 1
    for (u32 count = (u32)work.count; count > 1; count = (count + ELEMENTS - 1) / ELEMENTS)
#pragma unroll 1
        for (u32 first = 0; first * ELEMENTS < count; first += AT_ONCE) {
            // Each 16 threads have 1,024 sums.
            block.superstep([&](u32 t) {
                u32 from = (first + t / PARTIAL) * ELEMENTS, to = from + ELEMENTS;
                double sum = 0.0;
                for (u32 i = from + t % PARTIAL; i < to && i < count; i += PARTIAL)
                    sum += work.squares[i];
                partial[t] = sum;
            });
            // The place of a result has been read before.
            block.superstep([&](u32 t) {
                u32 own = first + t;
                if (t < AT_ONCE && own * ELEMENTS < count)
                    work.squares[own] = added_up(partial + t * PARTIAL);
            });
        }
    block.unordered([&](u32 t) {
        if (t == 0) work.stage->squared_norm = work.count == 0 ? 0.0 : work.squares[0];
    });
}

#include "grid.h"
