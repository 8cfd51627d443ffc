// The barrier of a team: each block arrives, and waits until all blocks have arrived. Writes of a
// block before the barrier are visible to all blocks after it.
//
// The last block of a launch resets the count of arrivals. A block that waits longer than the
// timeout, here or for a row, sets a flag, and so all others stop waiting: the launch ends without
// a result.
#pragma once
#include "block.h"

#ifdef __CUDACC_RTC__

struct Barrier {
    u64 count;
    u32 timed_out;

    // Adds one after all writes of the block.
    DEVICE void arrive() {
        asm volatile("red.release.gpu.global.add.u64 [%0], 1;" : : "l"(&count) : "memory");
    }
    // The same, after all writes of the blocks that arrived before. Returns the previous count.
    DEVICE u64 arrive_at_end() {
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

// The cycle of this SM.
DEVICE u64 cycles() {
    u64 now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
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

    void arrive() { count.fetch_add(1, std::memory_order_release); }
    u64 arrive_at_end() { return count.fetch_add(1, std::memory_order_acq_rel); }
    u64 arrived() { return count.load(std::memory_order_acquire); }
    bool has_timed_out() { return timed_out.load(std::memory_order_relaxed) != 0; }
    void set_timed_out() { timed_out.store(1, std::memory_order_relaxed); }
};
static_assert(sizeof(Barrier) == 16, "the layout of the device");

DEVICE u64 nanoseconds() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// As if an SM had a clock of 1 GHz.
DEVICE u64 cycles() { return nanoseconds(); }

// There may be more threads than CPU cores.
DEVICE void yield_thread() { std::this_thread::yield(); }

#endif

// True if a block has timed out, maybe the caller. `began` is 0 at first, then the time since which
// the caller waits.
DEVICE bool Limit::is_over(u64& began) const {
    if (barrier->has_timed_out()) return true;
    u64 now = nanoseconds();
    if (began == 0) began = now;
    if (now - began <= timeout) return false;
    barrier->set_timed_out();
    return true;
}

// Called by one thread of a block: arrives, and waits until the count is `all`. Returns false if a
// block has timed out; the caller must then return.
DEVICE bool arrive_and_wait(Barrier& barrier, u64 all, Limit limit) {
    barrier.arrive();
    u64 began = 0;
    while (barrier.arrived() < all) {
        if (limit.is_over(began)) return false;
        yield_thread();
    }
    return true;
}

// The wait of a thread for what it reads. After the limit it goes on with what it has: the launch
// has failed.
struct Wait {
    const Limit& limit;
    u32 tries;
    u64 began;
    DEVICE Wait(const Limit& limit) : limit(limit), tries(0), began(0) {}
    // Looks at the limit once in 4,096 times. Returns false after it.
    DEVICE bool goes_on() { return ++tries % 4096 != 0 || !limit.is_over(began); }
};

// Loads a float of a row as soon as it is written.
DEVICE float awaited(const Limit& limit, const float* from) {
    Wait wait(limit);
    float x = seen(from);
#pragma unroll 1
    while (!is_written(x) && wait.goes_on()) x = seen(from);
    return x;
}
