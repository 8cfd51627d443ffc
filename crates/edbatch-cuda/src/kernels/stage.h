// The state of a step of training in device memory, which its launches share.
//
// The launches of a step run in order. Each checks that the launch before it ended well, so
// the host need not look between them.
#pragma once
#include "block.h"

// The index of no input and of no parameter.
enum : u32 { FINE = 0xffffffffu };

struct Stage {
    // The number of the last launch that ended well, and of the blocks or teams of the next one
    // that have ended.
    u32 done, ended;
    // The first input whose loss is not finite, and the first parameter whose gradient is not.
    u32 bad_input, bad_parameter;
    // The loss of the mini-batch so far, and the sum of the squares of all gradients.
    double loss, squared_norm;

    DEVICE bool is_before(u64 launch) const { return done + 1 == (u32)launch; }
    // Ends a launch, by its last block.
    DEVICE void end(u64 launch) {
        ended = 0;
        if (bad_input == FINE && bad_parameter == FINE) done = (u32)launch;
    }

#ifdef __CUDACC_RTC__
    // Counts a block or team after all of its writes. The last one sees the writes of all others.
    DEVICE u32 arrive() {
        u32 before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                     : "=r"(before) : "l"(&ended) : "memory");
        return before;
    }
    DEVICE void set_bad_input(u32 index) { atomicMin(&bad_input, index); }
    DEVICE void set_bad_parameter(u32 index) { atomicMin(&bad_parameter, index); }
#else
    u32 arrive() { return ended++; }
    void set_bad_input(u32 index) {
        if (index < bad_input) bad_input = index;
    }
    void set_bad_parameter(u32 index) {
        if (index < bad_parameter) bad_parameter = index;
    }
#endif
};

// What the host learns of a step, in its memory.
struct Result {
    // The last launch of the step; it is written last.
    u32 launch;
    // The rest as in `Stage`.
    u32 done, bad_input, bad_parameter;
    double loss, squared_norm;

    DEVICE void tell(const Stage& stage, u64 launch) {
        done = stage.done, bad_input = stage.bad_input, bad_parameter = stage.bad_parameter;
        loss = stage.loss, squared_norm = stage.squared_norm;
        publish();
        *(volatile u32*)&this->launch = (u32)launch;
    }

#ifdef __CUDACC_RTC__
    DEVICE static void publish() { __threadfence_system(); }
#else
    static void publish() {}
#endif
};

// A gradient or a moment that an earlier block or launch has written.
DEVICE bool is_finite(float x) { return (bits(x) & 0x7f800000u) != 0x7f800000u; }
