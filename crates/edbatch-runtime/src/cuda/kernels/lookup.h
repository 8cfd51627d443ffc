// The row of a table that the greatest of some scores names.
#pragma once
#include "outputs.h"

// write(i, table(index * width + i)) for i in 0..width, where scores(index) is the greatest of
// scores(0..rows), as `arg_max` has it. `write` writes nothing that `table` or `scores` reads. Takes
// shared memory; all threads must call it, with the same numbers.
template <class Scores, class Table, class Write>
DEVICE void lookup_arg_max(Block& block, u32 rows, u32 width, Scores scores, Table table,
                           Write write) {
    // Behind what `arg_max` takes.
    float* greatest = block.shared + 2 * THREADS;
    static_assert(2 * THREADS < SHARED, "an index more");
    arg_max(block, scores, rows, [&](u32 index) { greatest[0] = from_bits(index); });
    copy(block, width, [&](u32 i) { return table(bits(greatest[0]) * width + i); }, write);
}
