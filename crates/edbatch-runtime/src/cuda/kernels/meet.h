// How the blocks of a team wait for each other: each says that it has arrived, and waits until all
// have. What a block wrote before, every block reads afterwards.
//
// The count only rises, from launch to launch: who launches knows how far it will have come. A
// block that waits for too long says so, and all leave: the launch ends, and has failed.
#pragma once
#include "block.h"

#ifdef __CUDACC_RTC__

struct Meeting {
    u64 count;
    u32 late;

    // Adds one, behind all that the block has written; returns what was there.
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
    DEVICE bool is_late() {
        u32 now;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(&late) : "memory");
        return now != 0;
    }
    DEVICE void set_late() {
        asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" : : "l"(&late) : "memory");
    }
};

DEVICE u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

DEVICE void look_again() {}

#else

#include <atomic>
#include <chrono>
#include <thread>

struct Meeting {
    std::atomic<u64> count;
    std::atomic<u32> late;

    u64 arrive() { return count.fetch_add(1, std::memory_order_acq_rel); }
    u64 arrived() { return count.load(std::memory_order_acquire); }
    bool is_late() { return late.load(std::memory_order_relaxed) != 0; }
    void set_late() { late.store(1, std::memory_order_relaxed); }
};
static_assert(sizeof(Meeting) == 16, "as on a device");

DEVICE u64 nanoseconds() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Threads may be more than processors.
DEVICE void look_again() { std::this_thread::yield(); }

#endif

// One thread of a block says that the block has arrived, and waits until `all` have been counted;
// `patience` is in nanoseconds. False if it or another has waited for too long: then leave.
DEVICE bool meet(Meeting& meeting, u64 all, u64 patience) {
    meeting.arrive();
    u64 began = nanoseconds();
    while (meeting.arrived() < all) {
        if (meeting.is_late()) return false;
        if (nanoseconds() - began > patience) {
            meeting.set_late();
            return false;
        }
        look_again();
    }
    return true;
}
