// The barrier of a team: each block arrives, and waits until all blocks have arrived. Writes of a
// block before the barrier are visible to all blocks after it.
//
// The count of arrivals is not reset between launches, so the host passes its value at the start
// of a launch. A block that waits longer than the timeout sets a flag and returns, and so do all
// others: the launch ends without a result.
#pragma once
#include "block.h"

#ifdef __CUDACC_RTC__

struct Barrier {
    u64 count;
    u32 timed_out;

    // Adds one after all writes of the block, and returns the previous count.
    DEVICE u64 arrive() {
        u64 before;
        asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], 1;"
                     : "=l"(before) : "l"(&count) : "memory");
        return before;
    }
    DEVICE u64 arrived() {
        u64 now;
        asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(&count) : "memory");
        return now;
    }
    DEVICE bool has_timed_out() {
        u32 now;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                     : "=r"(now) : "l"(&timed_out) : "memory");
        return now != 0;
    }
    DEVICE void set_timed_out() {
        asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" : : "l"(&timed_out) : "memory");
    }
};

DEVICE u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

DEVICE void yield_thread() {}

#else

#include <atomic>
#include <chrono>
#include <thread>

struct Barrier {
    std::atomic<u64> count;
    std::atomic<u32> timed_out;

    u64 arrive() { return count.fetch_add(1, std::memory_order_acq_rel); }
    u64 arrived() { return count.load(std::memory_order_acquire); }
    bool has_timed_out() { return timed_out.load(std::memory_order_relaxed) != 0; }
    void set_timed_out() { timed_out.store(1, std::memory_order_relaxed); }
};
static_assert(sizeof(Barrier) == 16, "the layout of the device");

DEVICE u64 nanoseconds() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// There may be more threads than CPU cores.
DEVICE void yield_thread() { std::this_thread::yield(); }

#endif

// Called by one thread of a block: arrives, and waits until the count is `all`. `timeout` is in
// nanoseconds. Returns false if a block has timed out; the caller must then return.
DEVICE bool arrive_and_wait(Barrier& barrier, u64 all, u64 timeout) {
    barrier.arrive();
    u64 began = nanoseconds();
    while (barrier.arrived() < all) {
        if (barrier.has_timed_out()) return false;
        if (nanoseconds() - began > timeout) {
            barrier.set_timed_out();
            return false;
        }
        yield_thread();
    }
    return true;
}
