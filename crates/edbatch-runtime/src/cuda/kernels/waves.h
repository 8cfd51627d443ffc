// A wave by the blocks of a launch of its own. It follows a source that defines
//
//     DEVICE void carry_out(Block& block, const Arguments& a, const u32* job,
//                           u32 slice, u32 slices)
//
// which carries a job out, of a phase that slice of its units.
#pragma once
#include "block.h"

DEVICE void wave(Block& block, const Arguments& a) {
    u32 end = a.tape[a.wave + 2];
    for (u32 at = a.tape[a.wave + 1] + 6 * block.index; at < end; at += 6 * block.blocks)
        carry_out(block, a, a.tape + at, a.tape[at + 4], a.tape[at + 5]);
}
