// Runs a wave that has a launch of its own. The source before this header defines
//
//     DEVICE void run_job(Block& block, const Arguments& a, const u32* job,
//                           u32 slice, u32 slices)
//
// which runs a job: a copy, or a phase for a slice of its units.
#pragma once
#include "block.h"

DEVICE void wave(Block& block, const Arguments& a) {
    u32 end = a.commands[a.wave + 2];
    for (u32 at = a.commands[a.wave + 1] + 6 * block.index; at < end; at += 6 * block.blocks)
        run_job(block, a, a.commands + at, a.commands[at + 4], a.commands[at + 5]);
}
