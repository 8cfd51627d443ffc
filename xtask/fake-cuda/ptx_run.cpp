// SPDX-License-Identifier: MIT OR Apache-2.0
// The interpreter of PTX.
#include "ptx.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <set>
#include <unordered_map>

namespace ptx {
namespace {
constexpr u64 SHARED_WINDOW = 0x0100000000000000, PARAM_WINDOW = 0x0200000000000000,
              LOCAL_WINDOW = 0x0400000000000000;

struct Random {
    u64 state;
    u32 below(u32 limit) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (u32)((state >> 33) * limit >> 31);
    }
};

// By thread of a block: the first of its epochs that is not known of.
using Epochs = std::vector<u32>;

// What a block, or a thread, knows of another block: what its threads did in epochs before `epoch`,
// of `thread` up to `own` too, and of each what `threads` says.
struct Known {
    u32 epoch = 0;
    u32 own = 0;
    u16 thread = 0xffff;
    std::shared_ptr<const Epochs> threads;
    bool covers(u32 of, u32 when) const {
        return when < epoch || (thread == of && when <= own) ||
               (threads && of < threads->size() && when < (*threads)[of]);
    }
};
using Clock = std::vector<Known>;

void join(std::shared_ptr<const Epochs>& into, const std::shared_ptr<const Epochs>& other) {
    if (!other || into == other) return;
    if (!into) {
        into = other;
        return;
    }
    auto both = std::make_shared<Epochs>(*into);
    if (both->size() < other->size()) both->resize(other->size());
    for (size_t i = 0; i < other->size(); ++i) (*both)[i] = std::max((*both)[i], (*other)[i]);
    into = both;
}

void join(Known& into, const Known& other) {
    if (other.epoch < into.epoch) return;
    if (other.epoch > into.epoch) {
        into = other;
        return;
    }
    join(into.threads, other.threads);
    if (other.thread == 0xffff) return;
    if (into.thread == 0xffff || into.thread == other.thread) {
        into.own = into.thread == other.thread ? std::max(into.own, other.own) : other.own;
        into.thread = other.thread;
        return;
    }
    if (into.covers(other.thread, other.own)) return;
    auto both = std::make_shared<Epochs>();
    if (into.threads) *both = *into.threads;
    if (both->size() <= other.thread) both->resize(other.thread + 1u);
    (*both)[other.thread] = std::max((*both)[other.thread], other.own + 1);
    into.threads = both;
}

void join(Clock& into, const Clock& other) {
    if (into.size() < other.size()) into.resize(other.size());
    for (size_t i = 0; i < other.size(); ++i) join(into[i], other[i]);
}

void join(std::shared_ptr<const Clock>& into, const std::shared_ptr<const Clock>& other) {
    if (!other || into == other) return;
    if (!into) {
        into = other;
        return;
    }
    auto both = std::make_shared<Clock>(*into);
    join(*both, *other);
    into = both;
}

struct SharedShadow {
    u32 write_epoch = 0, read_epoch = 0, other_epoch = 0;
    u16 write_thread = 0, read_thread = 0, other_thread = 0;
    u16 copying = 0;  // asynchronous copies to it that nobody has waited for
    u8 written = 0, undefined = 0;
    u8 write_strong = 0, read_strong = 0, other_strong = 0;
    u8 write_bytes = 0, read_bytes = 0, other_bytes = 0;
};

enum State : u8 { READY, AT_BARRIER, AT_WARP, ENDED };
// Of a byte of local memory.
enum LocalState : u8 { NOBODYS, UNWRITTEN, WRITTEN, UNDEFINED };

// Cycles until a result can be used, as they are measured on an H100 by others, rounded; an
// instruction is issued a cycle. There is no bandwidth and no other warp in this model: what it
// says a launch takes, it takes at least.
enum : u32 {
    ARITHMETIC = 4, DIVISION = 40, SHARED_LOAD = 29, L1_HIT = 33, L2_HIT = 260, OF_HOST = 1400,
    ATOMIC = 350, BARRIER = 20, CONSTANT = 8
};

struct Thread {
    u64 time = 0;
    u32 pc = 0;
    State state = READY;
    u32 epoch = 1;
    std::vector<std::pair<u32, u32>> stack;     // calls: which, and where it goes on
    std::shared_ptr<const Epochs> known;        // of the own block since its last barrier of all
    std::shared_ptr<const Clock> acquired;      // of other blocks, likewise
    std::shared_ptr<const Clock> fenced;        // what it knew at its last fence
    std::shared_ptr<const Clock> seen;          // what a fence would make known: of words read relaxed
    u32 group = 0;                              // of asynchronous copies: the one that is open
    u64 run = 0;                                // instructions since it last waited
    u32 looks[32] = {}, look = 0;               // what its last strong loads found
};

struct Barrier {
    u32 expected = 0;
    struct Arrival {
        u16 thread;
        bool waits;
        u32 pc;
        std::shared_ptr<const Epochs> known;
        std::shared_ptr<const Clock> acquired;
        u32 epoch;
    };
    std::vector<Arrival> arrivals;
    u32 free = 0;  // of them, those that do not wait
};

// An asynchronous copy that its thread has not waited for; or an arrival at an mbarrier behind them.
struct Copy {
    u16 thread;
    u32 group;
    u32 to;
    Allocation* from;
    u64 offset;
    u32 bytes, size;
    u8 before[16];
    bool done, arrival;
    const Instruction* in;
};

struct Mbarrier {
    u32 count = 0, pending = 0;
    u64 phase = 0;
    std::shared_ptr<const Epochs> known, known_before;
    std::shared_ptr<const Clock> acquired, acquired_before;
};

struct Block {
    u32 index;
    std::vector<u64> registers;
    std::vector<u8> undefined;  // by register: made of what was never written
    std::vector<u64> ready;     // by register: when it can be used
    std::set<u64> cached;       // lines of the processor's own cache
    std::vector<Thread> threads;
    std::vector<u8> shared;
    std::vector<SharedShadow> shared_shadow;
    u32 base = 1;         // the epoch in which the last barrier of all threads left them
    u32 counter = 1;      // the last epoch
    Clock clock;          // of all threads
    Barrier barriers[16];
    std::vector<Copy> copies;
    std::map<u32, Mbarrier> mbarriers;
    std::vector<u8> local, local_state;
    bool moved = false;   // threads were let go
    bool met = false;     // all at a barrier
    u64 meeting = 0;      // the address of the last atomic
    bool spun = false;
    u64 waits_since = 0;
    bool fenced = false;  // for the system, since the last atomic
};

struct Machine {
    const Launch& launch;
    void (*report)(const std::string&);
    const Function& f;
    Random random;
    Counts counts;
    std::unordered_map<u64, std::shared_ptr<const Clock>> published;
    // What strong stores have replaced lately: others may still see it.
    struct Version {
        u32 before;
        u32 block, thread, epoch;
        u64 turn;
        struct Reader {
            u32 block, thread, epoch;
        } readers[4];
        u32 read = 0;
    };
    std::unordered_map<u64, std::vector<Version>> versions;
    std::deque<std::pair<u64, u64>> replaced;  // turn, address
    u64 turn = 0;
    std::map<u64, u64> arrived;  // when, by meeting
    u64 now = 1000000;
    std::vector<std::pair<Allocation*, u64>> host_writes;
    std::vector<u32> fences;  // by block: the last epoch behind a fence for the system
    std::vector<u64> meetings;

    Machine(const Launch& l, void (*r)(const std::string&))
        : launch(l), report(r), f(*l.function), random{l.seed * 0x9E3779B97F4A7C15u + 1},
          fences(l.blocks, 0), meetings(l.blocks, 0) {}

    std::string where(const Instruction& in, const Block& b, u32 t) const {
        std::string text = in.line - 1 < launch.module->lines.size()
                               ? launch.module->lines[in.line - 1] : "";
        size_t at = text.find_first_not_of(" \t");
        return f.name + " launch " + std::to_string(launch.number) + " block " +
               std::to_string(b.index) + "/" + std::to_string(launch.blocks) + " thread " +
               std::to_string(t) + " line " + std::to_string(in.line) + " `" +
               (at == std::string::npos ? "" : text.substr(at)) + "`";
    }

    void complain(const char* what, const Instruction& in, const Block& b, u32 t,
                  const std::string& more = "") {
        if (in.reported++ < 3) report(std::string(what) + ": " + where(in, b, t) + more);
    }
    [[noreturn]] void stop(const char* what, const Instruction& in, const Block& b, u32 t,
                           const std::string& more = "") {
        throw Error(std::string(what) + ": " + where(in, b, t) + more);
    }

    // ---- memory

    Allocation* find(u64 address, const Instruction& in) {
        if (Allocation* a = in.last)
            if (address >= a->address && address < a->address + a->bytes) return a;
        const Memory& memory = *launch.memory;
        auto after = std::upper_bound(memory.begin(), memory.end(), address,
                                      [](u64 x, Allocation* a) { return x < a->address; });
        if (after == memory.begin()) return nullptr;
        Allocation* a = *--after;
        if (address >= a->address + a->bytes) return nullptr;
        return in.last = a;
    }

    bool ordered(u32 block, u32 epoch, u32 thread, const Block& b, u32 t) const {
        const Thread& me = b.threads[t];
        if (block == b.index)
            return thread == t || epoch < b.base ||
                   (me.known && thread < me.known->size() && epoch < (*me.known)[thread]) ||
                   // By way of another block.
                   (me.acquired && block < me.acquired->size() && (*me.acquired)[block].covers(thread, epoch));
        if (block < b.clock.size() && b.clock[block].covers(thread, epoch)) return true;
        return me.acquired && block < me.acquired->size() && (*me.acquired)[block].covers(thread, epoch);
    }
    bool concurrent(u32 other) const {
        for (u32 c : launch.concurrent)
            if (c == other) return true;
        return false;
    }
    static std::string who(u32 block, u32 thread, u32 epoch) {
        return " with block " + std::to_string(block) + " thread " + std::to_string(thread) +
               " (epoch " + std::to_string(epoch) + ")";
    }

    void watch(Allocation* a, u64 address, u32 bytes, bool write, const Instruction& in, Block& b,
               u32 t) {
        const u32 me = launch.number;
        const bool strong = in.sem != WEAK || in.op == ATOM;
        const u32 epoch = b.threads[t].epoch;
        u64 first = (address - a->address) / 4, last = (address + bytes - 1 - a->address) / 4;
        for (u64 w = first; w <= last; ++w) {
            Shadow& s = a->shadow[w];
            auto offset = [&] {
                return " at +" + std::to_string(w * 4) + " of allocation " +
                       std::to_string(a->number) + " of " + std::to_string(a->bytes) + " bytes";
            };
            if ((!write || in.op == ATOM) && !s.written && a->kind != Kind::Host)
                complain("READ OF WHAT WAS NEVER WRITTEN", in, b, t, offset());
            // Two strong accesses never race.
            const bool with_write = !(strong && s.write_strong);
            auto kind = [&](const char* what, bool other_strong) {
                return std::string(what) + (strong ? ", strong and weak" : other_strong ? ", weak and strong" : "");
            };
            if (write) {
                if (s.write_launch == me) {
                    if (with_write && !ordered(s.write_block, s.write_epoch, s.write_thread, b, t))
                        complain(kind("RACE write-write", s.write_strong).c_str(), in, b, t,
                                 who(s.write_block, s.write_thread, s.write_epoch) + offset());
                } else if (s.write_launch && with_write && concurrent(s.write_launch))
                    complain("RACE write-write between launches", in, b, t, offset());
                if (s.read_launch == me) {
                    if (!(strong && s.read_strong) && !ordered(s.read_block, s.read_epoch, s.read_thread, b, t))
                        complain(kind("RACE read-write", s.read_strong).c_str(), in, b, t,
                                 who(s.read_block, s.read_thread, s.read_epoch) + offset());
                    else if (s.other && !(strong && s.other_strong) &&
                             !ordered(s.other_block, s.other_epoch, s.other_thread, b, t))
                        complain(kind("RACE read-write", s.other_strong).c_str(), in, b, t,
                                 who(s.other_block, s.other_thread, s.other_epoch) + offset());
                } else if (s.read_launch && !(strong && s.read_strong) && concurrent(s.read_launch))
                    complain("RACE read-write between launches", in, b, t, offset());
                if (s.nc_launch == me)
                    complain("WRITE OF WHAT THE READ-ONLY CACHE HOLDS", in, b, t, offset());
                s.write_launch = me, s.write_block = (u16)b.index, s.write_thread = (u16)t;
                s.write_epoch = epoch, s.written = 1, s.write_strong = strong;
                if (a->kind == Kind::Host && !strong) host_writes.emplace_back(a, w);
            } else {
                if (s.write_launch == me) {
                    if (with_write && !ordered(s.write_block, s.write_epoch, s.write_thread, b, t))
                        complain(kind("RACE write-read", s.write_strong).c_str(), in, b, t,
                                 who(s.write_block, s.write_thread, s.write_epoch) + offset());
                    if (in.nc)
                        complain("STALE: read-only cache reads what this launch wrote", in, b, t,
                                 offset());
                } else if (s.write_launch && with_write && concurrent(s.write_launch))
                    complain("RACE write-read between launches", in, b, t, offset());
                if (in.nc) s.nc_launch = me;
                if (s.read_launch != me) {
                    s.read_launch = me, s.other = 0;
                } else if (s.read_block != b.index || s.read_thread != t) {
                    // Of two, the one that is not known of is kept; a weak one rather than a strong one.
                    if (!s.other || (s.read_strong <= s.other_strong &&
                                     !ordered(s.read_block, s.read_epoch, s.read_thread, b, t)) ||
                        ordered(s.other_block, s.other_epoch, s.other_thread, b, t)) {
                        s.other = 1, s.other_block = s.read_block, s.other_thread = s.read_thread;
                        s.other_epoch = s.read_epoch, s.other_strong = s.read_strong;
                    }
                }
                s.read_block = (u16)b.index, s.read_thread = (u16)t, s.read_epoch = epoch;
                s.read_strong = strong;
            }
        }
    }

    void watch_shared(u64 at, u32 bytes, bool write, const Instruction& in, Block& b, u32 t) {
        const bool strong = in.sem != WEAK || in.op == ATOM || (in.op == MBAR && in.sub != M_INIT && in.sub != M_INVAL);
        const Thread& me = b.threads[t];
        auto unordered = [&](u16 thread, u32 epoch) {
            return epoch >= b.base && thread != t &&
                   !(me.known && thread < me.known->size() && epoch < (*me.known)[thread]);
        };
        for (u64 w = at / 4; w <= (at + bytes - 1) / 4; ++w) {
            SharedShadow& s = b.shared_shadow[w];
            u64 begin = std::max(at, w * 4) - w * 4, end = std::min(at + bytes, w * 4 + 4) - w * 4;
            const u8 touched = (u8)((1u << end) - (1u << begin));
            auto offset = [&] { return " at shared +" + std::to_string(w * 4); };
            if (s.copying && in.op != COPY)
                complain(write ? "SHARED MEMORY IS WRITTEN WHILE A COPY TO IT IS UNDER WAY"
                               : "SHARED MEMORY IS READ WHILE A COPY TO IT IS UNDER WAY", in, b, t, offset());
            if ((s.write_bytes & touched) && !(strong && s.write_strong) && unordered(s.write_thread, s.write_epoch))
                complain(write ? "RACE in shared memory, write-write" : "RACE in shared memory, write-read",
                         in, b, t, who(b.index, s.write_thread, s.write_epoch) + offset());
            if (write) {
                if ((s.read_bytes & touched) && !(strong && s.read_strong) && unordered(s.read_thread, s.read_epoch))
                    complain("RACE in shared memory, read-write", in, b, t,
                             who(b.index, s.read_thread, s.read_epoch) + offset());
                else if ((s.other_bytes & touched) && !(strong && s.other_strong) &&
                         unordered(s.other_thread, s.other_epoch))
                    complain("RACE in shared memory, read-write", in, b, t,
                             who(b.index, s.other_thread, s.other_epoch) + offset());
                s.write_epoch = me.epoch, s.write_thread = (u16)t, s.written = 1;
                s.write_strong = strong, s.write_bytes = touched;
            } else {
                if (s.read_thread != t && (unordered(s.read_thread, s.read_epoch) || !unordered(s.other_thread, s.other_epoch))) {
                    s.other_thread = s.read_thread, s.other_epoch = s.read_epoch;
                    s.other_strong = s.read_strong, s.other_bytes = s.read_bytes;
                }
                s.read_thread = (u16)t, s.read_epoch = me.epoch;
                s.read_strong = strong, s.read_bytes = touched;
            }
        }
    }

    // Where an access goes; it has been watched.
    u8* access(u64 address, u32 bytes, bool write, const Instruction& in, Block& b, u32 t) {
        if (address % bytes) stop("MISALIGNED", in, b, t, " address " + hex(address));
        switch (where_is(in.space, address)) {
        case LOCAL: {
            if (address + bytes > f.frame_bytes)
                stop("OUT OF LOCAL MEMORY", in, b, t,
                     " address " + hex(address) + " of " + std::to_string(f.frame_bytes));
            size_t at = (size_t)t * f.frame_bytes + address;
            for (u32 i = 0; i < bytes; ++i)
                if (b.local_state[at + i] == NOBODYS)
                    stop("LOCAL MEMORY OF NO VARIABLE, OR OF A FUNCTION THAT HAS RETURNED", in, b, t,
                         " address " + hex(address));
            return b.local.data() + at;
        }
        case SHARED:
            if (address + bytes > b.shared.size())
                stop("OUT OF SHARED MEMORY", in, b, t,
                     " address " + hex(address) + " of " + std::to_string(b.shared.size()));
            ++counts.shared_accesses;
            watch_shared(address, bytes, write, in, b, t);
            return b.shared.data() + address;
        case PARAM:
            if (write || address + bytes > launch.parameters.size())
                stop("OUT OF PARAMETERS", in, b, t, " offset " + std::to_string(address));
            return const_cast<u8*>(launch.parameters.data()) + address;
        default: {
            Allocation* a = find(address, in);
            if (!a || address + bytes > a->address + a->bytes)
                stop("OUT OF MEMORY'S BOUNDS", in, b, t, " address " + hex(address));
            if (a->freed) stop("USE OF FREED MEMORY", in, b, t, " address " + hex(address));
            if (write && a->kind == Kind::Constant) stop("WRITE TO A CONSTANT", in, b, t);
            watch(a, address, bytes, write, in, b, t);
            return a->data + (address - a->address);
        }
        }
    }
    static Space where_is(Space space, u64& address) {
        if (space != GENERIC) return space;
        u64 window = address & 0xff00000000000000ULL;
        if (window == SHARED_WINDOW || window == PARAM_WINDOW || window == LOCAL_WINDOW) {
            address -= window;
            return window == SHARED_WINDOW ? SHARED : window == PARAM_WINDOW ? PARAM : LOCAL;
        }
        return GLOBAL;
    }
    static std::string hex(u64 x) {
        char text[32];
        snprintf(text, sizeof text, "%#llx", (unsigned long long)x);
        return text;
    }

    // ---- numbers

    static u32 width(Type t) {
        switch (t) {
        case PRED: case B8: case U8: case S8: return 1;
        case B16: case U16: case S16: return 2;
        case B32: case U32: case S32: case F32: return 4;
        default: return 8;
        }
    }
    static bool is_signed(Type t) { return t == S8 || t == S16 || t == S32 || t == S64; }
    static u64 cut(u64 x, Type t) {
        switch (t) {
        case PRED: return x & 1;
        case B8: case U8: return x & 0xff;
        case S8: return (u64)(i64)(int8_t)x;
        case B16: case U16: return x & 0xffff;
        case S16: return (u64)(i64)(int16_t)x;
        case B32: case U32: case F32: return x & 0xffffffffu;
        case S32: return (u64)(i64)(i32)x;
        default: return x;
        }
    }
    static float as_float(u64 x) {
        u32 bits = (u32)x;
        float y;
        memcpy(&y, &bits, 4);
        return y;
    }
    static u64 of_float(float x) {
        u32 bits;
        memcpy(&bits, &x, 4);
        // What a device makes of every NaN.
        if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fffffffu;
        return bits;
    }

    static double as_double(u64 x) {
        double y;
        memcpy(&y, &x, 8);
        return y;
    }
    static u64 of_double(double x) {
        u64 bits;
        memcpy(&bits, &x, 8);
        if ((bits & ~(1ull << 63)) > 0x7ff0000000000000u) bits = 0x7fffffffffffffffu;
        return bits;
    }
    // To the nearest; ties to even.
    static u64 to_bf16(u64 x) {
        u32 bits = (u32)x;
        if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
        return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    }

    u64 special(u32 which, const Block& b, u32 t) {
        switch (which) {
        case 0: return t;
        case 3: return b.index;
        case 6: return launch.threads;
        case 7: return launch.blocks;
        case 8: return t % 32;
        case 9: return t / 32;
        case 10: case 11: return now + counts.instructions / 64;
        case 12: case 13: case 14: case 15: return 1;
        case 16: return 1u << t % 32;
        case 17: return (1u << t % 32) - 1;
        case 18: return (2ull << t % 32) - 1;
        case 19: return 0xffffffffu & ~((2ull << t % 32) - 1);
        case 20: return 0xffffffffu & ~((1ull << t % 32) - 1);
        case 21: return (now + counts.instructions / 64) & 0xffffffffu;
        default: return 0;
        }
    }

    static bool compare(Cmp cmp, Type type, u64 x, u64 y) {
        if (type == F32 || type == F64) {
            double a = type == F64 ? as_double(x) : as_float(x), b = type == F64 ? as_double(y) : as_float(y);
            bool nan = std::isnan(a) || std::isnan(b);
            switch (cmp) {
            case EQ: return a == b;
            case NE: return !nan && a != b;
            case LT: return a < b;
            case LE: return a <= b;
            case GT: return a > b;
            case GE: return a >= b;
            case EQU: return nan || a == b;
            case NEU: return nan || a != b;
            case LTU: return nan || a < b;
            case LEU: return nan || a <= b;
            case GTU: return nan || a > b;
            case GEU: return nan || a >= b;
            case NUM: return !nan;
            case NAN_: return nan;
            }
        }
        bool less = is_signed(type) ? (i64)x < (i64)y : x < y;
        switch (cmp) {
        case EQ: case EQU: return x == y;
        case NE: case NEU: return x != y;
        case LT: case LTU: return less;
        case LE: case LEU: return less || x == y;
        case GT: case GTU: return !less && x != y;
        default: return !less;
        }
    }

    // ---- threads

    static u8 of(const u8* undefined, const Operand& o) {
        return o.kind == Operand::REG ? undefined[o.reg] : 0;
    }
    static bool r_bit(const u64* r, const Operand& o) {
        return (o.kind == Operand::REG ? r[o.reg] : o.imm) & 1;
    }

    // A thread, until it waits or ends.
    void run_thread(Block& b, u32 t) {
        Thread& thread = b.threads[t];
        u64* r = b.registers.data() + (size_t)t * f.registers;
        u8* undefined = b.undefined.data() + (size_t)t * f.registers;
        u64* ready = b.ready.data() + (size_t)t * f.registers;
        const Instruction* code = f.code.data();
        u32 pc = thread.pc;
        u64 steps = 0;
        auto get = [&](const Operand& o) -> u64 {
            switch (o.kind) {
            case Operand::REG: return r[o.reg];
            case Operand::IMM: return o.imm;
            default: return special(o.reg, b, t);
            }
        };
        for (;;) {
            const Instruction& in = code[pc];
            in.executed = true;
            ++steps;
            u64 issued = thread.time + 1;
            if (in.guard >= 0) {
                issued = std::max(issued, ready[in.guard]);
                thread.time = issued;
                if (undefined[in.guard])
                    complain("A CONDITION THAT NOBODY WROTE", in, b, t);
                if ((bool)(r[in.guard] & 1) == in.negate) {
                    ++pc;
                    continue;
                }
            }
            // As in memcheck: what is made of what was never written may be carried about, but
            // nothing may depend on it.
            u8 unknown = 0;
            for (const Operand& o : in.from_operands)
                if (o.kind == Operand::REG) {
                    unknown |= undefined[o.reg];
                    issued = std::max(issued, ready[o.reg]);
                }
            if (in.base.kind == Operand::REG) issued = std::max(issued, ready[in.base.reg]);
            in.stalled += issued - thread.time;
            thread.time = issued;
            u32 takes = in.op == MOV || in.op == CVTA ? 0u : in.op == DIV || in.op == REM ? u32(DIVISION) : u32(ARITHMETIC);
            if (in.op != LD)
                for (u32 to : in.to) ready[to] = issued + takes;
            if (in.op == SELP)
                unknown = in.from_operands[2].kind == Operand::REG && undefined[in.from_operands[2].reg]
                              ? 1 : of(undefined, in.from_operands[r_bit(r, in.from_operands[2]) ? 0 : 1]);
            if (in.op != LD && in.op != BAR_RED && in.op != WARP)
                for (u32 to : in.to) undefined[to] = unknown;
            if ((in.op == LD || in.op == ST || in.op == ATOM || in.op == COPY || in.op == MBAR || in.op == COPY_ARRIVE ||
                 (in.op == WARP && in.sub == W_LDMATRIX)) &&
                (of(undefined, in.base) || of(undefined, in.base2)))
                complain("AN ADDRESS THAT NOBODY WROTE", in, b, t);
            auto a = [&](size_t i) { return cut(get(in.from_operands[i]), in.type); };
            auto set = [&](u64 x) { r[in.to[0]] = x; };
            switch (in.op) {
            case NOP: break;
            case TRAP: stop("TRAP", in, b, t);
            case BREV: {
                u64 x = a(0), y = 0;
                for (u32 i = 0; i < 8 * width(in.type); ++i) y = y << 1 | (x >> i & 1);
                set(y);
                break;
            }
            case MOV: set(cut(get(in.from_operands[0]), in.type)); break;
            case ADD:
                if (in.type == F32) set(of_float(as_float(a(0)) + as_float(a(1))));
                else if (in.type == F64) set(of_double(as_double(a(0)) + as_double(a(1))));
                else set(cut(a(0) + a(1), in.type));
                break;
            case SUB:
                if (in.type == F32) set(of_float(as_float(a(0)) - as_float(a(1))));
                else if (in.type == F64) set(of_double(as_double(a(0)) - as_double(a(1))));
                else set(cut(a(0) - a(1), in.type));
                break;
            case MUL_F:
                if (in.type == F64) set(of_double(as_double(a(0)) * as_double(a(1))));
                else set(of_float(flush(in, flush(in, as_float(a(0))) * flush(in, as_float(a(1))))));
                break;
            case SQRT:
                if (in.type == F64) set(of_double(std::sqrt(as_double(a(0)))));
                else set(of_float(std::sqrt(as_float(a(0)))));
                break;
            case RCP:
                if (in.type == F64) set(of_double(1 / as_double(a(0))));
                else set(of_float(flush(in, 1 / flush(in, as_float(a(0))))));
                break;
            case EX2: set(of_float(flush(in, std::exp2(flush(in, as_float(a(0))))))); break;
            case TANH: set(of_float(flush(in, std::tanh(flush(in, as_float(a(0))))))); break;
            case MUL_LO: set(cut(a(0) * a(1), in.type)); break;
            case MUL_HI:
                if (width(in.type) == 8)
                    set(is_signed(in.type) ? (u64)(((__int128)(i64)a(0) * (i64)a(1)) >> 64)
                                           : (u64)(((unsigned __int128)a(0) * a(1)) >> 64));
                else set(cut((u64)((i64)(a(0) * a(1)) >> (8 * width(in.type))), in.type));
                break;
            case MUL_WIDE: set(a(0) * a(1)); break;
            case MAD_LO: set(cut(a(0) * a(1) + a(2), in.type)); break;
            case MAD_WIDE: set(a(0) * a(1) + get(in.from_operands[2])); break;
            case DIV:
                if (in.type == F32) set(of_float(as_float(a(0)) / as_float(a(1))));
                else if (in.type == F64) set(of_double(as_double(a(0)) / as_double(a(1))));
                else {
                    if (a(1) == 0) stop("DIVISION BY ZERO", in, b, t);
                    set(is_signed(in.type) ? cut((u64)((i64)a(0) / (i64)a(1)), in.type)
                                           : a(0) / a(1));
                }
                break;
            case REM:
                if (a(1) == 0) stop("DIVISION BY ZERO", in, b, t);
                set(is_signed(in.type) ? cut((u64)((i64)a(0) % (i64)a(1)), in.type) : a(0) % a(1));
                break;
            case FMA:
                if (in.type == F64) set(of_double(std::fma(as_double(a(0)), as_double(a(1)), as_double(a(2)))));
                else set(of_float(std::fma(as_float(a(0)), as_float(a(1)), as_float(a(2)))));
                break;
            case AND: set(a(0) & a(1)); break;
            case OR: set(a(0) | a(1)); break;
            case XOR: set(a(0) ^ a(1)); break;
            case NOT: set(cut(~a(0), in.type)); break;
            case SHL: {
                u64 by = get(in.from_operands[1]) & 0xffffffffu;
                set(by >= 8 * width(in.type) ? 0 : cut(a(0) << by, in.type));
                break;
            }
            case SHR: {
                u64 by = get(in.from_operands[1]) & 0xffffffffu, bits = 8 * width(in.type);
                if (is_signed(in.type)) set(cut((u64)((i64)a(0) >> std::min(by, bits - 1)), in.type));
                else set(by >= bits ? 0 : a(0) >> by);
                break;
            }
            case NEG:
                if (in.type == F32) set(a(0) ^ 0x80000000u);
                else if (in.type == F64) set(a(0) ^ (1ull << 63));
                else set(cut(0 - a(0), in.type));
                break;
            case ABS:
                if (in.type == F32) set(a(0) & 0x7fffffffu);
                else if (in.type == F64) set(a(0) & ~(1ull << 63));
                else set(cut((i64)a(0) < 0 ? 0 - a(0) : a(0), in.type));
                break;
            case MIN: case MAX: {
                bool min = in.op == MIN;
                if (in.type == F32) {
                    float x = as_float(a(0)), y = as_float(a(1));
                    set(of_float(std::isnan(x) ? y : std::isnan(y) ? x : min ? std::fmin(x, y) : std::fmax(x, y)));
                } else if (in.type == F64) {
                    double x = as_double(a(0)), y = as_double(a(1));
                    set(of_double(std::isnan(x) ? y : std::isnan(y) ? x : min ? std::fmin(x, y) : std::fmax(x, y)));
                } else {
                    bool less = is_signed(in.type) ? (i64)a(0) < (i64)a(1) : a(0) < a(1);
                    set(less == min ? a(0) : a(1));
                }
                break;
            }
            case SETP: {
                bool is = compare(in.cmp, in.type, a(0), a(1));
                if (in.combine != NONE) {
                    bool other = (get(in.from_operands[2]) & 1) != in.combine_negated;
                    is = in.combine == C_AND ? is && other : in.combine == C_OR ? is || other : is != other;
                }
                set(is);
                break;
            }
            case SELP: set(get(in.from_operands[2]) & 1 ? a(0) : a(1)); break;
            case CVT: {
                u64 x = cut(get(in.from_operands[0]), in.from);
                if (in.type == F32 && in.from == F64) set(of_float((float)as_double(x)));
                else if (in.type == F64 && in.from == F32) set(of_double(as_float(x)));
                else if (in.type == F32) set(of_float(is_signed(in.from) ? (float)(i64)x : (float)x));
                else if (in.type == F64) set(of_double(is_signed(in.from) ? (double)(i64)x : (double)x));
                else if (in.from == F32 || in.from == F64) {
                    double y = std::trunc(in.from == F32 ? as_float(x) : as_double(x));
                    if (std::isnan(y)) {
                        set(in.from == F64 || width(in.type) == 8 ? cut(1ull << (8 * width(in.type) - 1), in.type) : 0);
                        break;
                    }
                    // As on a device: to the nearest that the type has.
                    u32 bits = 8 * width(in.type) - is_signed(in.type);
                    double top = std::ldexp(1.0, (int)bits);
                    u64 most = bits == 64 ? ~0ull : (1ull << bits) - 1;
                    if (is_signed(in.type)) set(cut(y >= top ? most : y < -top ? ~most : (u64)(i64)y, in.type));
                    else set(y >= top ? most : y < 0 ? 0 : (u64)y);
                } else set(cut(x, in.type));
                break;
            }
            case CVT_TF32: {
                u32 x = (u32)get(in.from_operands[0]);
                if ((x & 0x7f800000u) != 0x7f800000u) x = (x + 0x1000u) & ~0x1fffu;
                set(x);
                break;
            }
            case CVT_BF16: set(to_bf16(get(in.from_operands[0]))); break;
            case CVT_BF16X2:
                set(to_bf16(get(in.from_operands[0])) << 16 | to_bf16(get(in.from_operands[1])));
                break;
            case CVTA: {
                u64 x = get(in.from_operands[0]);
                u64 window = in.space == SHARED ? SHARED_WINDOW : in.space == PARAM ? PARAM_WINDOW
                             : in.space == LOCAL ? LOCAL_WINDOW : 0;
                set(in.cg ? x - window : x + window);
                break;
            }
            case PACK: {
                u64 x = 0;
                u32 part = 8 * width(in.type) / (u32)in.from_operands.size();
                for (size_t i = in.from_operands.size(); i-- > 0;)
                    x = x << part | (get(in.from_operands[i]) & ((u64)-1 >> (64 - part)));
                set(x);
                break;
            }
            case UNPACK: {
                u64 x = get(in.from_operands[0]);
                u32 part = 8 * width(in.type) / (u32)in.to.size();
                for (u32 to : in.to) {
                    r[to] = x & ((u64)-1 >> (64 - part));
                    x >>= part;
                }
                break;
            }
            case PRMT: {
                u64 x = (get(in.from_operands[0]) & 0xffffffffu) | get(in.from_operands[1]) << 32;
                u64 selector = get(in.from_operands[2]), y = 0;
                for (u32 i = 0; i < 4; ++i) {
                    u32 s = selector >> (4 * i) & 15;
                    u64 byte = x >> (8 * (s & 7)) & 0xff;
                    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
                    y |= byte << (8 * i);
                }
                set(y);
                break;
            }
            case POPC: set((u64)__builtin_popcountll(a(0))); break;
            case CLZ: {
                u32 bits = 8 * width(in.type);
                set(a(0) ? (u64)__builtin_clzll(a(0)) - (64 - bits) : bits);
                break;
            }
            case BFI: {
                u64 from = a(0), into = a(1), bits = 8 * width(in.type);
                u64 at = get(in.from_operands[2]) & 0xff, count = get(in.from_operands[3]) & 0xff;
                for (u64 i = 0; i < count && at + i < bits; ++i)
                    into = (into & ~(1ull << (at + i))) | ((from >> i & 1) << (at + i));
                set(into);
                break;
            }
            case BFE: {
                u64 x = a(0), bits = 8 * width(in.type);
                u64 at = get(in.from_operands[1]) & 0xff, count = get(in.from_operands[2]) & 0xff, y = 0;
                u64 sign = is_signed(in.type) && count
                               ? x >> std::min(at + count - 1, bits - 1) & 1 : 0;
                for (u64 i = 0; i < bits; ++i)
                    y |= (i < count && at + i < bits ? x >> (at + i) & 1 : sign) << i;
                set(cut(y, in.type));
                break;
            }
            case SHF: {
                u64 low = get(in.from_operands[0]) & 0xffffffffu, high = get(in.from_operands[1]) & 0xffffffffu;
                u64 by = get(in.from_operands[2]) & 0xffffffffu, both = high << 32 | low;
                by = in.nc ? by & 31 : std::min<u64>(by, 32);
                set((in.cg ? (both << by) >> 32 : both >> by) & 0xffffffffu);
                break;
            }
            case LD: {
                u32 one = width(in.type);
                u64 address = get(in.base) + (u64)in.offset;
                ++counts.loads;
                const u8* from = access(address, one * in.vector, false, in, b, t);
                Space space = where_is(in.space, address);
                if (space == LOCAL) {
                    const u8* state = b.local_state.data() + (from - b.local.data());
                    for (u32 i = 0; i < in.vector; ++i) {
                        u64 x = 0;
                        memcpy(&x, from + i * one, one);
                        r[in.to[i]] = cut(x, in.type);
                        u8 nobody = 0;
                        for (u32 k = 0; k < one; ++k) nobody |= state[i * one + k] != WRITTEN;
                        undefined[in.to[i]] = nobody;
                        ready[in.to[i]] = issued + L1_HIT;
                    }
                    break;
                }
                u8 seen[32];
                bool stale = false;
                if (space == GLOBAL && (in.sem == RELAXED || in.sem == VOLATILE)) {
                    memcpy(seen, from, one * in.vector);
                    stale = older(address, one * in.vector, seen, b, t);
                }
                bool of_block = from >= b.shared.data() && from < b.shared.data() + b.shared.size();
                for (u32 i = 0; i < in.vector; ++i) {
                    u64 x = 0;
                    memcpy(&x, (stale ? seen : from) + i * one, one);
                    r[in.to[i]] = cut(x, in.type);
                    undefined[in.to[i]] = 0;
                    if (!of_block) continue;
                    const SharedShadow& s = b.shared_shadow[(from + i * one - b.shared.data()) / 4];
                    undefined[in.to[i]] = !s.written || s.undefined;
                    counts.unwritten += undefined[in.to[i]];
                }
                u64 line = address / 128;
                takes = of_block ? SHARED_LOAD : in.space == PARAM ? CONSTANT
                        : in.last && in.last->kind == Kind::Host ? OF_HOST
                        : in.cg || in.sem != WEAK || b.cached.insert(line).second ? L2_HIT : L1_HIT;
                for (u32 to : in.to) ready[to] = issued + takes;
                if (in.sem != WEAK && space == GLOBAL) {
                    if (in.sem == ACQUIRE) {
                        acquire(address, b, t);
                        // However often it looked: when it first did, or when the last block came.
                        if (b.waits_since == 0) b.waits_since = thread.time;
                        thread.time = std::max(b.waits_since, arrived[address]) + L2_HIT;
                        b.cached.clear();
                    } else if (!stale && !published.empty())
                        for (u32 i = 0; i < one * in.vector; i += 4)
                            if (auto found = published.find(address + i); found != published.end())
                                join(thread.seen, found->second);
                    // Let others go on, if it waits for them: it looks at what it has seen already.
                    u64 h = (address * 31 + pc) * 0x9E3779B97F4A7C15u;
                    for (u32 to : in.to) h = (h ^ r[to]) * 0xBF58476D1CE4E5B9u;
                    u32 look = (u32)(h >> 32);
                    bool again = std::find(thread.looks, thread.looks + 32, look) != thread.looks + 32;
                    if (!again) thread.looks[thread.look++ % 32] = look, ++counts.fresh;
                    ++counts.spins;
                    if (again || in.sem != RELAXED || random.below(4) == 0) {
                        b.spun = true;
                        thread.pc = pc + 1;
                        counts.instructions += steps;
                        return;
                    }
                }
                break;
            }
            case ST: {
                u32 one = width(in.type);
                u64 address = get(in.base) + (u64)in.offset;
                ++counts.stores;
                if (in.system && in.sem != WEAK) flag(in, b, t);
                u8* to = access(address, one * in.vector, true, in, b, t);
                Space space = where_is(in.space, address);
                if (space == LOCAL) {
                    u8* state = b.local_state.data() + (to - b.local.data());
                    for (u32 i = 0; i < in.vector; ++i) {
                        u64 x = get(in.from_operands[i]);
                        memcpy(to + i * one, &x, one);
                        memset(state + i * one, of(undefined, in.from_operands[i]) ? UNDEFINED : WRITTEN, one);
                    }
                    break;
                }
                if (in.sem != WEAK && space == GLOBAL) {
                    ++counts.strong_stores;
                    keep(address, one * in.vector, to, b, t);
                    if (in.sem == RELEASE) release(address, one * in.vector, false, b, t);
                    else relaxed(address, one * in.vector, false, b, t);
                }
                bool of_block = to >= b.shared.data() && to < b.shared.data() + b.shared.size();
                for (u32 i = 0; i < in.vector; ++i) {
                    u64 x = get(in.from_operands[i]);
                    memcpy(to + i * one, &x, one);
                    u8 nobody = of(undefined, in.from_operands[i]);
                    if (of_block) b.shared_shadow[(to + i * one - b.shared.data()) / 4].undefined = nobody;
                    else if (nobody) complain("A VALUE THAT NOBODY WROTE IS STORED", in, b, t);
                }
                break;
            }
            case ATOM: {
                u64 address = get(in.base) + (u64)in.offset;
                const u32 one = width(in.type);
                ++counts.atomics;
                u8* to = access(address, one, true, in, b, t);
                Space space = where_is(in.space, address);
                if (space != GLOBAL && space != SHARED) stop("AN ATOMIC OF WHAT IS NOT SHARED", in, b, t);
                if (space == GLOBAL) {
                    keep(address, one, to, b, t);
                    if (in.sem == ACQ_REL || in.sem == ACQUIRE) acquire(address, b, t);
                    else if (auto found = published.find(address); found != published.end())
                        join(thread.seen, found->second);
                    if (in.sem == ACQ_REL || in.sem == RELEASE) release(address, one, true, b, t);
                    else relaxed(address, one, true, b, t);
                    b.meeting = meetings[b.index] = address;
                    b.fenced = false;
                    thread.time += ATOMIC;
                    arrived[address] = std::max(arrived[address], thread.time);
                }
                u64 x = 0;
                memcpy(&x, to, one);
                x = cut(x, in.type);
                u64 v = a(0), y = x;
                bool less = is_signed(in.type) ? (i64)v < (i64)x : v < x;
                switch (in.sub) {
                case A_ADD: y = in.type == F32 ? of_float(as_float(x) + as_float(v)) : x + v; break;
                case A_MIN: y = less ? v : x; break;
                case A_MAX: y = less ? x : v; break;
                case A_AND: y = x & v; break;
                case A_OR: y = x | v; break;
                case A_XOR: y = x ^ v; break;
                case A_EXCH: y = v; break;
                default: y = x == v ? a(1) : x;
                }
                memcpy(to, &y, one);
                u8 nobody = 0;
                for (auto& o : in.from_operands) nobody |= of(undefined, o);
                if (space == SHARED) {
                    SharedShadow& s = b.shared_shadow[address / 4];
                    nobody |= s.undefined;
                    if (nobody) s.undefined = 1;
                } else if (nobody) complain("A VALUE THAT NOBODY WROTE IS STORED", in, b, t);
                for (u32 into : in.to) r[into] = x, undefined[into] = nobody;
                break;
            }
            case FENCE:
                if (in.system) b.fenced = true, fences[b.index] = b.base;
                if (!in.cg) {
                    join(thread.acquired, thread.seen);
                    thread.fenced = snapshot(b, t);
                    thread.epoch = ++b.counter;
                }
                break;
            case BRA: pc = (u32)in.target; continue;
            case BRX: {
                u64 which = get(in.from_operands[0]) & 0xffffffffu;
                if (unknown) complain("A CONDITION THAT NOBODY WROTE", in, b, t);
                if (which >= in.table.size()) stop("A JUMP BEHIND ITS TABLE", in, b, t, " " + std::to_string(which));
                pc = (u32)in.table[which];
                continue;
            }
            case CALL: {
                const CallSite& call = f.calls[(size_t)in.target];
                ++counts.calls;
                std::fill(undefined + call.first_register, undefined + call.first_register + call.registers, 1);
                u8* frame = b.local.data() + (size_t)t * f.frame_bytes;
                u8* state = b.local_state.data() + (size_t)t * f.frame_bytes;
                for (size_t i = 0; i < call.covered->size(); ++i)
                    state[call.frame + i] = (*call.covered)[i] ? UNWRITTEN : NOBODYS;
                memset(frame + call.frame, 0xff, call.frame_bytes);
                for (auto& p : call.in) {
                    memcpy(frame + p.callee, frame + p.caller, p.bytes);
                    memcpy(state + p.callee, state + p.caller, p.bytes);
                }
                thread.stack.emplace_back((u32)in.target, pc + 1);
                pc = call.target;
                continue;
            }
            case BAR: case BAR_RED:
                thread.state = AT_BARRIER;
                thread.pc = pc, thread.run = 0;
                if (unknown && in.op == BAR) complain("A BARRIER'S NUMBER THAT NOBODY WROTE", in, b, t);
                if (arrive(in, b, t, unknown)) {
                    ++pc;
                    continue;
                }
                counts.instructions += steps;
                return;
            case WARP:
                thread.state = AT_WARP;
                thread.pc = pc, thread.run = 0;
                counts.instructions += steps;
                return;
            case COPY: {
                u64 to = get(in.base) + (u64)in.offset, from = get(in.base2) + (u64)in.offset2;
                u32 size = in.from_operands.empty() ? in.bytes
                           : (u32)std::min<u64>(get(in.from_operands[0]) & 0xffffffffu, in.bytes);
                if (unknown) complain("A SIZE THAT NOBODY WROTE", in, b, t);
                copy(in, b, t, to, from, size);
                break;
            }
            case COPY_COMMIT: ++thread.group; break;
            case COPY_WAIT:
                wait_for_copies(b, t, in.cg ? ~0u : thread.group > in.bytes ? thread.group - in.bytes : 0);
                thread.time = std::max(thread.time, issued) + ARITHMETIC;
                break;
            case COPY_ARRIVE: {
                u64 address = get(in.base) + (u64)in.offset;
                if (where_is(in.space, address) != SHARED) stop("AN MBARRIER THAT IS NOT IN SHARED MEMORY", in, b, t);
                b.copies.push_back(Copy{(u16)t, thread.group, (u32)address, nullptr, 0, 0, 0, {}, false, true, &in});
                settle(b, t);
                break;
            }
            case MBAR: {
                u64 address = get(in.base) + (u64)in.offset;
                if (where_is(in.space, address) != SHARED) stop("AN MBARRIER THAT IS NOT IN SHARED MEMORY", in, b, t);
                access(address + (in.space == GENERIC ? SHARED_WINDOW : 0), 8, in.sub == M_INIT || in.sub == M_INVAL || in.sub == M_ARRIVE, in, b, t);
                u64 given = in.from_operands.empty() ? 1 : get(in.from_operands[0]);
                u64 got = mbarrier(in, b, t, (u32)address, given);
                if (!in.to.empty()) set(got), undefined[in.to[0]] = 0;
                if (in.sub >= M_WAIT && !got) {
                    // Others must go on for it to become true.
                    b.spun = true;
                    ++counts.spins;
                    thread.pc = pc + 1;
                    counts.instructions += steps;
                    return;
                }
                break;
            }
            case RET:
                if (!thread.stack.empty()) {
                    auto [which, back] = thread.stack.back();
                    thread.stack.pop_back();
                    const CallSite& call = f.calls[which];
                    u8* frame = b.local.data() + (size_t)t * f.frame_bytes;
                    u8* state = b.local_state.data() + (size_t)t * f.frame_bytes;
                    for (auto& p : call.out) {
                        memcpy(frame + p.caller, frame + p.callee, p.bytes);
                        memcpy(state + p.caller, state + p.callee, p.bytes);
                    }
                    memset(state + call.frame, NOBODYS, call.frame_bytes);
                    pc = back;
                    continue;
                }
                [[fallthrough]];
            case EXIT:
                thread.state = ENDED;
                thread.pc = pc;
                counts.instructions += steps;
                return;
            }
            ++pc;
            // Others go on now and then, should it wait for them without saying so.
            if (steps > 200000) {
                if ((thread.run += steps) > 400000000) stop("ENDLESS", in, b, t);
                b.spun = true;
                ++counts.fresh;
                thread.pc = pc;
                counts.instructions += steps;
                return;
            }
        }
    }

    static float flush(const Instruction& in, float x) {
        return in.cg && std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
    }

    void acquire(u64 address, Block& b, u32 t) {
        auto found = published.find(address);
        if (found != published.end()) join(b.threads[t].acquired, found->second);
    }
    // What a thread knows now.
    std::shared_ptr<const Clock> snapshot(Block& b, u32 t) {
        const Thread& thread = b.threads[t];
        auto own = std::make_shared<Clock>(b.clock);
        if (thread.acquired) join(*own, *thread.acquired);
        if (own->size() < launch.blocks) own->resize(launch.blocks);
        (*own)[b.index] = Known{b.base, thread.epoch, (u16)t, thread.known};
        return own;
    }
    void release(u64 address, u32 bytes, bool goes_on, Block& b, u32 t) {
        auto now_known = snapshot(b, t);
        for (u32 i = 0; i < bytes; i += 4) {
            auto& word = published[address + i];
            if (!goes_on) word.reset();
            join(word, now_known);
        }
        b.threads[t].epoch = ++b.counter;
    }
    // A strong store orders what is before a fence of its thread's; by itself nothing.
    void relaxed(u64 address, u32 bytes, bool goes_on, Block& b, u32 t) {
        const Thread& thread = b.threads[t];
        if (!thread.fenced && (goes_on || published.empty())) return;
        for (u32 i = 0; i < bytes; i += 4) {
            if (!goes_on) published.erase(address + i);
            if (thread.fenced) join(published[address + i], thread.fenced);
        }
    }

    // ---- values that strong stores have replaced

    void keep(u64 address, u32 bytes, const u8* at, Block& b, u32 t) {
        for (u32 i = 0; i + 4 <= bytes; i += 4) {
            Version v{};
            memcpy(&v.before, at + i, 4);
            v.block = b.index, v.thread = t, v.epoch = b.threads[t].epoch, v.turn = turn;
            auto& list = versions[address + i];
            if (list.size() >= 4) list.erase(list.begin());
            list.push_back(v);
            replaced.emplace_back(turn, address + i);
        }
    }
    void forget() {
        while (!replaced.empty() && replaced.front().first + 64 < turn) {
            auto found = versions.find(replaced.front().second);
            if (found != versions.end()) {
                auto& list = found->second;
                while (!list.empty() && list.front().turn + 64 < turn) list.erase(list.begin());
                if (list.empty()) versions.erase(found);
            }
            replaced.pop_front();
        }
    }
    // A store becomes visible to a block at a random time, word by word; at once to whom it is ordered
    // before, or whom a load is ordered before that has seen it.
    bool older(u64 address, u32 bytes, u8* values, Block& b, u32 t) {
        if (versions.empty()) return false;
        bool any = false;
        for (u32 i = 0; i + 4 <= bytes; i += 4) {
            auto found = versions.find(address + i);
            if (found == versions.end()) continue;
            auto& list = found->second;
            for (size_t n = list.size(); n-- > 0;) {
                Version& v = list[n];
                u64 h = ((address + i) * 0x9E3779B97F4A7C15u) ^ (v.turn * 0xD1B54A32D192ED03u) ^
                        ((u64)b.index * 0x94D049BB133111EBu) ^ launch.seed;
                h ^= h >> 29, h *= 0xBF58476D1CE4E5B9u, h ^= h >> 32;
                u64 delay = h % 3 == 0 ? 0 : (h >> 8) % 24;
                bool visible = turn >= v.turn + delay || ordered(v.block, v.epoch, v.thread, b, t);
                for (u32 k = 0; k < v.read && !visible; ++k)
                    visible = ordered(v.readers[k].block, v.readers[k].epoch, v.readers[k].thread, b, t);
                if (visible) {
                    if (v.read < 4) v.readers[v.read++] = {b.index, t, b.threads[t].epoch};
                    break;
                }
                memcpy(values + i, &v.before, 4);
                any = true;
            }
        }
        counts.stale += any;
        return any;
    }

    // ---- asynchronous copies

    void copy(const Instruction& in, Block& b, u32 t, u64 to, u64 from, u32 size) {
        ++counts.copies;
        if (to % in.bytes || from % in.bytes)
            stop("MISALIGNED", in, b, t, " addresses " + hex(to) + ", " + hex(from));
        if (to + in.bytes > b.shared.size())
            stop("OUT OF SHARED MEMORY", in, b, t, " address " + hex(to) + " of " + std::to_string(b.shared.size()));
        Allocation* a = nullptr;
        if (size) {
            a = find(from, in);
            if (!a || from + size > a->address + a->bytes)
                stop("OUT OF MEMORY'S BOUNDS", in, b, t, " address " + hex(from));
            if (a->freed) stop("USE OF FREED MEMORY", in, b, t, " address " + hex(from));
            watch(a, from, size, false, in, b, t);
        }
        watch_shared(to, in.bytes, true, in, b, t);
        for (u64 w = to / 4; w < (to + in.bytes) / 4; ++w) {
            SharedShadow& s = b.shared_shadow[w];
            if (s.copying)
                complain("TWO COPIES TO THE SAME PLACE ARE UNDER WAY", in, b, t, " at shared +" + std::to_string(w * 4));
            ++s.copying;
            s.undefined = 0;
        }
        Copy c{(u16)t, b.threads[t].group, (u32)to, a, a ? from - a->address : 0, in.bytes, size, {}, false, false, &in};
        if (a) memcpy(c.before, a->data + c.offset, size);
        // Until it is carried out there is anything.
        memset(b.shared.data() + to, 0xff, in.bytes);
        if (random.below(3) == 0) carry_out(b, c);
        b.copies.push_back(c);
    }
    void carry_out(Block& b, Copy& c) {
        if (c.done || c.arrival) return;
        c.done = true;
        u8* to = b.shared.data() + c.to;
        if (c.from) {
            if (c.from->freed) stop("USE OF FREED MEMORY", *c.in, b, c.thread, " by a copy under way");
            memcpy(to, c.from->data + c.offset, c.size);
        }
        memset(to + c.size, 0, c.bytes - c.size);
    }
    // A copy that has been waited for: its thread has written now.
    void finish(Block& b, Copy& c) {
        carry_out(b, c);
        const Thread& thread = b.threads[c.thread];
        if (c.from && memcmp(c.before, c.from->data + c.offset, c.size))
            complain("THE SOURCE OF A COPY CHANGES WHILE IT IS UNDER WAY", *c.in, b, c.thread);
        for (u32 w = c.to / 4; w < (c.to + c.bytes) / 4; ++w) {
            SharedShadow& s = b.shared_shadow[w];
            if (s.copying) --s.copying;
            s.write_epoch = thread.epoch, s.write_thread = c.thread, s.write_strong = 0, s.write_bytes = 15;
            s.written = 1;
        }
    }
    void wait_for_copies(Block& b, u32 t, u32 before) {
        size_t kept = 0;
        for (size_t i = 0; i < b.copies.size(); ++i) {
            Copy& c = b.copies[i];
            if (c.thread == t && !c.arrival && (before == ~0u || c.group < before)) finish(b, c);
            else {
                if (kept != i) b.copies[kept] = c;
                ++kept;
            }
        }
        b.copies.resize(kept);
        settle(b, t);
    }
    // Arrivals of a thread's behind its copies, once these are done.
    void settle(Block& b, u32 t) {
        for (size_t i = 0; i < b.copies.size();) {
            Copy& c = b.copies[i];
            if (c.thread != t) {
                ++i;
                continue;
            }
            if (!c.arrival) {
                bool behind = false;
                for (size_t k = i + 1; k < b.copies.size(); ++k) behind |= b.copies[k].thread == t && b.copies[k].arrival;
                if (!behind || !c.done) return;
                finish(b, c);
                b.copies.erase(b.copies.begin() + (long)i);
                continue;
            }
            const Instruction& in = *c.in;
            u32 at = c.to;
            b.copies.erase(b.copies.begin() + (long)i);
            arrive_at(in, b, t, at, 1);
        }
    }
    // Copies go on at random times.
    void let_copies_go_on(Block& b) {
        if (b.copies.empty()) return;
        std::set<u16> waiting;
        for (auto& c : b.copies) {
            if (c.arrival) waiting.insert(c.thread);
            else if (random.below(4) == 0) carry_out(b, c);
        }
        for (u16 t : waiting) settle(b, t);
    }

    // ---- barriers in shared memory

    void arrive_at(const Instruction& in, Block& b, u32 t, u32 address, u32 count) {
        auto found = b.mbarriers.find(address);
        if (found == b.mbarriers.end()) stop("AN MBARRIER THAT WAS NOT INITIALISED", in, b, t, " at shared +" + std::to_string(address));
        Mbarrier& m = found->second;
        if (count == 0 || count > m.pending)
            stop("MORE ARRIVALS AT AN MBARRIER THAN IT AWAITS", in, b, t, " at shared +" + std::to_string(address));
        join(m.known, knows(b, t));
        join(m.acquired, b.threads[t].acquired);
        b.threads[t].epoch = ++b.counter;
        ++counts.barriers;
        if (m.pending -= count) return;
        ++m.phase;
        m.pending = m.count;
        m.known_before = m.known, m.acquired_before = m.acquired;
        m.known.reset(), m.acquired.reset();
    }
    u64 mbarrier(const Instruction& in, Block& b, u32 t, u32 address, u64 given) {
        if (in.sub == M_INIT) {
            if (given == 0 || given >= 1u << 20) stop("AN MBARRIER OF NO THREADS", in, b, t);
            Mbarrier m;
            m.count = m.pending = (u32)given;
            b.mbarriers[address] = m;
            return 0;
        }
        auto found = b.mbarriers.find(address);
        if (found == b.mbarriers.end()) stop("AN MBARRIER THAT WAS NOT INITIALISED", in, b, t, " at shared +" + std::to_string(address));
        Mbarrier& m = found->second;
        if (in.sub == M_INVAL) {
            b.mbarriers.erase(found);
            return 0;
        }
        if (in.sub == M_ARRIVE) {
            u64 phase = m.phase;
            arrive_at(in, b, t, address, (u32)given);
            return phase;
        }
        bool done = in.sub == M_WAIT ? m.phase != given : (m.phase & 1) != (given & 1);
        if (!done) return 0;
        join(b.threads[t].known, m.known_before);
        join(b.threads[t].acquired, m.acquired_before);
        return 1;
    }

    // A word that the host looks at: what blocks of the team wrote for the host must be there.
    void flag(const Instruction& in, Block& b, u32 t) {
        if (!b.fenced && !host_writes.empty())
            complain("A FLAG FOR THE HOST HAS NO FENCE BEHIND WHAT WAS ACQUIRED", in, b, t);
        for (auto& [a, w] : host_writes) {
            const Shadow& s = a->shadow[w];
            if (s.write_launch != launch.number || meetings[s.write_block] != b.meeting) continue;
            u32 epoch = s.write_epoch;
            if (!ordered(s.write_block, epoch, s.write_thread, b, t))
                complain("THE HOST IS TOLD BEFORE A BLOCK IS DONE", in, b, t,
                         who(s.write_block, s.write_thread, epoch));
            else if (fences[s.write_block] <= epoch && s.write_thread != t)
                complain("THE HOST IS TOLD WITHOUT A FENCE FOR THE SYSTEM", in, b, t,
                         who(s.write_block, s.write_thread, epoch));
        }
    }

    // ---- warps and blocks

    u64 value(const Operand& o, const Block& b, u32 t) {
        return o.kind == Operand::REG ? b.registers[(size_t)t * f.registers + o.reg]
               : o.kind == Operand::IMM ? o.imm : special(o.reg, b, t);
    }
    u8 nobodys(const Operand& o, const Block& b, u32 t) const {
        return of(b.undefined.data() + (size_t)t * f.registers, o);
    }

    void mma(const Instruction& in, Block& b, u32 warp) {
        const bool bf16 = in.sub == W_BF16;
        const u32 K = bf16 ? 16 : 8;
        float A[16][16], B[16][8], C[16][8];
        // Elements of a row of A, of a column of B, and of C may be what nobody wrote.
        u8 row[16] = {}, column[8] = {}, own[16][8] = {};
        for (u32 lane = 0; lane < 32; ++lane) {
            u32 t = warp * 32 + lane, g = lane / 4, i = lane % 4;
            auto U = [&](size_t n) { return nobodys(in.from_operands[n], b, t); };
            auto R = [&](size_t n) { return as_float(value(in.from_operands[n], b, t)); };
            auto half = [&](size_t n, u32 which) {
                return as_float((value(in.from_operands[n], b, t) >> (16 * which) & 0xffff) << 16);
            };
            if (bf16)
                for (u32 h = 0; h < 2; ++h) {
                    A[g][2 * i + h] = half(0, h), A[g + 8][2 * i + h] = half(1, h);
                    A[g][2 * i + 8 + h] = half(2, h), A[g + 8][2 * i + 8 + h] = half(3, h);
                    B[2 * i + h][g] = half(4, h), B[2 * i + 8 + h][g] = half(5, h);
                }
            else {
                A[g][i] = R(0), A[g + 8][i] = R(1);
                A[g][i + 4] = R(2), A[g + 8][i + 4] = R(3);
                B[i][g] = R(4), B[i + 4][g] = R(5);
            }
            C[g][2 * i] = R(6), C[g][2 * i + 1] = R(7);
            C[g + 8][2 * i] = R(8), C[g + 8][2 * i + 1] = R(9);
            row[g] |= U(0) | U(2), row[g + 8] |= U(1) | U(3);
            column[g] |= U(4) | U(5);
            own[g][2 * i] = U(6), own[g][2 * i + 1] = U(7);
            own[g + 8][2 * i] = U(8), own[g + 8][2 * i + 1] = U(9);
            for (size_t n = 0; n < 6 && !bf16; ++n) {
                u32 bits = (u32)value(in.from_operands[n], b, t);
                // The low bits are not looked at by a device: they had better be none.
                if (bits & 0x1fff && (bits & 0x7f800000u) != 0x7f800000u)
                    complain("AN OPERAND OF TENSOR CORES IS NOT ROUNDED", in, b, t);
            }
        }
        for (u32 i = 0; i < 16; ++i)
            for (u32 j = 0; j < 8; ++j)
                for (u32 k = 0; k < K; ++k) C[i][j] = std::fma(A[i][k], B[k][j], C[i][j]);
        for (u32 lane = 0; lane < 32; ++lane) {
            u32 g = lane / 4, i = lane % 4;
            u64* r = b.registers.data() + (size_t)(warp * 32 + lane) * f.registers;
            r[in.to[0]] = of_float(C[g][2 * i]), r[in.to[1]] = of_float(C[g][2 * i + 1]);
            r[in.to[2]] = of_float(C[g + 8][2 * i]), r[in.to[3]] = of_float(C[g + 8][2 * i + 1]);
            u8* u = b.undefined.data() + (size_t)(warp * 32 + lane) * f.registers;
            for (u32 n = 0; n < 4; ++n) {
                u32 y = g + n / 2 * 8, x = 2 * i + n % 2;
                u[in.to[n]] = own[y][x] | row[y] | column[x];
            }
        }
        ++counts.mmas;
    }

    void ldmatrix(const Instruction& in, Block& b, u32 warp) {
        for (u32 m = 0; m < in.vector; ++m) {
            u16 rows[8][8];
            u8 nobody[8][8];
            for (u32 row = 0; row < 8; ++row) {
                u32 t = warp * 32 + m * 8 + row;
                if (nobodys(in.base, b, t)) complain("AN ADDRESS THAT NOBODY WROTE", in, b, t);
                u64 address = value(in.base, b, t) + (u64)in.offset;
                const u8* from = access(address, 16, false, in, b, t);
                memcpy(rows[row], from, 16);
                for (u32 k = 0; k < 8; ++k) {
                    const SharedShadow& s = b.shared_shadow[(address + 2 * k) / 4];
                    nobody[row][k] = !s.written || s.undefined;
                }
            }
            for (u32 lane = 0; lane < 32; ++lane) {
                u32 g = lane / 4, i = lane % 4;
                size_t at = (size_t)(warp * 32 + lane) * f.registers + in.to[m];
                u32 low = in.cg ? rows[2 * i][g] : rows[g][2 * i], high = in.cg ? rows[2 * i + 1][g] : rows[g][2 * i + 1];
                b.registers[at] = low | high << 16;
                b.undefined[at] = in.cg ? nobody[2 * i][g] | nobody[2 * i + 1][g] : nobody[g][2 * i] | nobody[g][2 * i + 1];
            }
        }
    }

    // What lanes of a warp, those of `mask`, do together.
    void together(const Instruction& in, Block& b, u32 warp, u32 mask) {
        auto each = [&](auto&& what) {
            for (u32 lane = 0; lane < 32; ++lane)
                if (mask >> lane & 1) what(lane, warp * 32 + lane);
        };
        auto put = [&](u32 t, size_t which, u64 x, u8 nobody) {
            b.registers[(size_t)t * f.registers + in.to[which]] = x;
            b.undefined[(size_t)t * f.registers + in.to[which]] = nobody;
        };
        switch (in.sub) {
        case W_TF32: case W_BF16: mma(in, b, warp); break;
        case W_LDMATRIX: ldmatrix(in, b, warp); break;
        case W_ACTIVE: each([&](u32, u32 t) { put(t, 0, mask, 0); }); break;
        case W_SYNC: {
            std::shared_ptr<const Epochs> known;
            std::shared_ptr<const Clock> acquired;
            auto own = std::make_shared<Epochs>(launch.threads);
            each([&](u32, u32 t) {
                join(known, b.threads[t].known);
                join(acquired, b.threads[t].acquired);
                (*own)[t] = b.threads[t].epoch + 1;
            });
            join(known, own);
            ++b.counter;
            each([&](u32, u32 t) {
                b.threads[t].known = known, b.threads[t].acquired = acquired;
                b.threads[t].epoch = b.counter;
            });
            break;
        }
        case W_BALLOT: case W_ALL: case W_ANY: case W_UNI: {
            u32 bits = 0;
            u8 nobody = 0;
            each([&](u32 lane, u32 t) {
                bits |= (u32)((value(in.from_operands[0], b, t) & 1) != in.combine_negated) << lane;
                nobody |= nobodys(in.from_operands[0], b, t);
            });
            u32 all = bits == mask, any = bits != 0;
            u32 result = in.sub == W_BALLOT ? bits : in.sub == W_ALL ? all : in.sub == W_ANY ? any : all || !any;
            each([&](u32, u32 t) { put(t, 0, result, nobody); });
            break;
        }
        default: {
            u32 got[32], is[32];
            u8 nobody[32];
            each([&](u32 lane, u32 t) {
                u32 by = (u32)value(in.from_operands[1], b, t) & 31, c = (u32)value(in.from_operands[2], b, t);
                u32 segment = c >> 8 & 31, most = (lane & segment) | (c & 31 & ~segment), least = lane & segment;
                i32 from = in.sub == W_UP ? (i32)lane - (i32)by : in.sub == W_DOWN ? (i32)(lane + by)
                           : in.sub == W_BFLY ? (i32)(lane ^ by) : (i32)(least | (by & ~segment));
                is[lane] = in.sub == W_UP ? from >= (i32)most : from <= (i32)most;
                if (!is[lane]) from = (i32)lane;
                if (!(mask >> from & 1)) complain("A VALUE OF A LANE THAT TAKES NO PART", in, b, t);
                u32 source = warp * 32 + (u32)from;
                got[lane] = (u32)value(in.from_operands[0], b, source);
                nobody[lane] = nobodys(in.from_operands[0], b, source) | nobodys(in.from_operands[1], b, t);
                if (!(mask >> from & 1)) nobody[lane] = 1;
            });
            each([&](u32 lane, u32 t) {
                put(t, 0, got[lane], nobody[lane]);
                if (in.to.size() > 1) put(t, 1, is[lane], 0);
            });
        }
        }
    }

    // Which lanes an instruction of a warp wants.
    u32 wanted(const Instruction& in, Block& b, u32 t) {
        switch (in.sub) {
        case W_TF32: case W_BF16: case W_LDMATRIX: return 0xffffffffu;
        case W_ACTIVE: return 0;
        case W_SYNC: return (u32)value(in.from_operands[0], b, t);
        default: return (u32)value(in.from_operands.back(), b, t);
        }
    }

    // True if a warp went on.
    bool warps(Block& b) {
        bool any = false;
        for (u32 warp = 0; warp * 32 < launch.threads; ++warp) {
            u32 lanes = std::min(32u, launch.threads - warp * 32), waiting = 0, ready = 0;
            for (u32 lane = 0; lane < lanes; ++lane) {
                waiting |= (u32)(b.threads[warp * 32 + lane].state == AT_WARP) << lane;
                ready |= (u32)(b.threads[warp * 32 + lane].state == READY) << lane;
            }
            for (u32 left = waiting; left;) {
                u32 first = (u32)__builtin_ctz(left), pc = b.threads[warp * 32 + first].pc, same = 0;
                for (u32 lane = 0; lane < lanes; ++lane)
                    same |= (u32)(left >> lane & 1 && b.threads[warp * 32 + lane].pc == pc) << lane;
                const Instruction& in = f.code[pc];
                u32 mask = wanted(in, b, warp * 32 + first);
                if (in.sub == W_ACTIVE) {
                    if (ready) break;
                    mask = same;
                } else {
                    if (!(mask >> first & 1)) stop("A LANE THAT ITS MASK DOES NOT NAME", in, b, warp * 32 + first);
                    bool all = (mask & same) == mask || (lanes < 32 && in.op == WARP && in.sub <= W_SYNC &&
                                                         (mask & same) == (mask & ((1u << lanes) - 1)));
                    for (u32 lane = 0; lane < lanes && all; ++lane)
                        if (mask >> lane & 1 && wanted(in, b, warp * 32 + lane) != mask)
                            stop("LANES OF A WARP NAME DIFFERENT MASKS", in, b, warp * 32 + lane);
                    left &= ~same;
                    if (!all) continue;
                    if (lanes < 32) mask &= (1u << lanes) - 1;
                }
                left &= ~mask;
                u64 last = 0;
                for (u32 lane = 0; lane < lanes; ++lane)
                    if (mask >> lane & 1) last = std::max(last, b.threads[warp * 32 + lane].time);
                together(in, b, warp, mask);
                for (u32 lane = 0; lane < lanes; ++lane)
                    if (mask >> lane & 1) {
                        Thread& thread = b.threads[warp * 32 + lane];
                        ++thread.pc;
                        thread.state = READY;
                        if (in.sub < W_TF32) thread.time = last;
                    }
                any = true;
            }
        }
        return any;
    }

    // Lets a block go on: to its next barrier, or until it waits for other blocks. True if it ended.
    bool go(Block& b) {
        std::vector<u16> order;
        for (;;) {
            order.clear();
            for (u32 t = 0; t < launch.threads; ++t)
                if (b.threads[t].state == READY) order.push_back((u16)t);
            for (size_t i = order.size(); i > 1; --i)
                std::swap(order[i - 1], order[random.below((u32)i)]);
            b.spun = b.moved = b.met = false;
            let_copies_go_on(b);
            for (u16 t : order) run_thread(b, t);
            bool again = warps(b) || b.moved;
            if (b.spun || b.met) return false;
            if (again) continue;
            u32 ended = 0;
            for (auto& thread : b.threads) ended += thread.state == ENDED;
            if (ended == launch.threads) return true;
            stuck(b);
        }
    }

    // No thread of a block can go on.
    [[noreturn]] void stuck(Block& b) {
        u32 ended = 0, waiting = 0, first = launch.threads;
        std::map<u32, u32> places;
        bool plain = true;
        for (u32 t = launch.threads; t-- > 0;) {
            const Thread& thread = b.threads[t];
            ended += thread.state == ENDED;
            if (thread.state == ENDED) continue;
            const Instruction& in = f.code[thread.pc];
            if (thread.state == AT_WARP)
                stop(in.sub == W_TF32 || in.sub == W_BF16 ? "A WARP COMES APART AT TENSOR CORES" : "A WARP COMES APART",
                     in, b, t);
            first = t;
            ++waiting;
            ++places[thread.pc];
            plain = plain && (in.op == BAR_RED || (in.from_operands.size() == 1 && value(in.from_operands[0], b, t) == 0));
        }
        std::string more = " " + std::to_string(waiting) + " wait, " + std::to_string(ended) + " have ended";
        if (!plain || places.size() > 1)
            for (auto& [pc, count] : places)
                more += "; " + std::to_string(count) + " at line " + std::to_string(f.code[pc].line) + " " +
                        text_of(f.code[pc]);
        for (u32 id = 0; id < 16; ++id)
            if (!plain && !b.barriers[id].arrivals.empty())
                more += "; barrier " + std::to_string(id) + " has " + std::to_string(b.barriers[id].arrivals.size()) +
                        " of " + std::to_string(b.barriers[id].expected);
        stop(plain ? "A BARRIER THAT NOT ALL THREADS REACH" : "DEADLOCK: NO THREAD CAN GO ON", f.code[b.threads[first].pc],
             b, first, more);
    }
    std::string text_of(const Instruction& in) const {
        std::string text = in.line - 1 < launch.module->lines.size() ? launch.module->lines[in.line - 1] : "";
        size_t at = text.find_first_not_of(" \t");
        return "`" + (at == std::string::npos ? "" : text.substr(at)) + "`";
    }

    // What a thread of the own block knows, itself included.
    std::shared_ptr<const Epochs> knows(const Block& b, u32 t) const {
        auto own = std::make_shared<Epochs>(launch.threads);
        if (b.threads[t].known) *own = *b.threads[t].known;
        own->resize(launch.threads);
        (*own)[t] = b.threads[t].epoch + 1;
        return own;
    }

    // A thread comes to a barrier. True if it does not wait there.
    bool arrive(const Instruction& in, Block& b, u32 t, u8 unknown) {
        Thread& thread = b.threads[t];
        u64 id = 0;
        u32 count = launch.threads;
        if (in.op == BAR_RED) {
            if (unknown) complain("A CONDITION THAT NOBODY WROTE", in, b, t);
        } else {
            id = value(in.from_operands[0], b, t) & 0xffffffffu;
            if (id >= 16) stop("A BARRIER ABOVE 15", in, b, t, " " + std::to_string(id));
            if (in.from_operands.size() > 1) {
                count = (u32)value(in.from_operands[1], b, t);
                if (count == 0 || count % 32) stop("A BARRIER OF PARTS OF WARPS", in, b, t, " " + std::to_string(count) + " threads");
                u32 most = (launch.threads + 31) / 32 * 32;
                if (count > most) stop("A BARRIER OF MORE THREADS THAN THERE ARE", in, b, t, " " + std::to_string(count));
                if (count == most) count = launch.threads;
            }
        }
        const bool waits = in.op == BAR_RED || in.sub != B_ARRIVE;
        Barrier& bar = b.barriers[id];
        if (bar.arrivals.empty()) bar.expected = count, bar.free = 0;
        else if (bar.expected != count)
            stop("A BARRIER WITH TWO COUNTS", in, b, t,
                 " barrier " + std::to_string(id) + ": " + std::to_string(count) + ", and before " + std::to_string(bar.expected));
        if (bar.free)
            for (auto& a : bar.arrivals)
                if (a.thread == t) stop("A THREAD COMES TWICE TO A BARRIER", in, b, t, " barrier " + std::to_string(id));
        bar.free += !waits;
        bar.arrivals.push_back({(u16)t, waits, thread.pc, thread.known, thread.acquired, thread.epoch});
        if (!waits) {
            thread.state = READY;
            thread.epoch = ++b.counter;
        }
        if (bar.arrivals.size() == bar.expected) {
            if (bar.expected == launch.threads && !bar.free) {
                bar.arrivals.clear();
                barrier(b);
            } else part_of_block(b, bar);
        }
        return !waits;
    }

    // A barrier of some threads, or one at which not all wait.
    void part_of_block(Block& b, Barrier& bar) {
        ++counts.barriers;
        b.moved = true;
        auto arrivals = std::move(bar.arrivals);
        bar.arrivals.clear();
        std::shared_ptr<const Epochs> known;
        std::shared_ptr<const Clock> acquired;
        auto own = std::make_shared<Epochs>(launch.threads);
        std::map<u32, std::pair<u32, u32>> places;  // by warp: the place, and how many lanes
        u64 last = 0;
        for (auto& a : arrivals) {
            join(known, a.known);
            join(acquired, a.acquired);
            (*own)[a.thread] = a.epoch + 1;
            last = std::max(last, b.threads[a.thread].time);
            auto [place, fresh] = places.try_emplace(a.thread / 32, a.pc, 0);
            ++place->second.second;
            if (place->second.first != a.pc) complain("BARRIERS AT DIFFERENT PLACES", f.code[a.pc], b, a.thread);
        }
        for (auto& a : arrivals)
            if (places[a.thread / 32].second != std::min(32u, launch.threads - a.thread / 32 * 32))
                complain("A WARP COMES APART AT A BARRIER", f.code[a.pc], b, a.thread);
        join(known, own);
        ++b.counter;
        for (auto& a : arrivals) {
            if (!a.waits) continue;
            Thread& thread = b.threads[a.thread];
            thread.known = known, thread.acquired = acquired;
            thread.epoch = b.counter;
            ++thread.pc;
            thread.state = READY;
            thread.time = last + BARRIER;
        }
    }

    void barrier(Block& b) {
        ++counts.barriers;
        b.met = true;
        u32 pc = b.threads[0].pc;
        u32 those = 0;
        for (u32 t = 0; t < launch.threads; ++t) {
            Thread& thread = b.threads[t];
            const Instruction& in = f.code[thread.pc];
            // A barrier with a count may be met at another place by each warp.
            bool counted = in.op == BAR && in.from_operands.size() > 1;
            if (thread.pc != (counted ? b.threads[t / 32 * 32].pc : pc) && (!counted || t % 32))
                complain("BARRIERS AT DIFFERENT PLACES", in, b, t);
            if (in.op != f.code[pc].op || (in.op == BAR_RED && in.sub != f.code[pc].sub))
                stop("BARRIERS OF DIFFERENT KINDS", in, b, t);
            if (in.op == BAR_RED) those += (value(in.from_operands[0], b, t) & 1) != in.combine_negated;
        }
        for (u32 t = 0; t < launch.threads; ++t) {
            Thread& thread = b.threads[t];
            const Instruction& in = f.code[thread.pc];
            if (in.op == BAR_RED) {
                b.registers[(size_t)t * f.registers + in.to[0]] =
                    in.sub == R_POPC ? those : in.sub == R_OR ? those > 0 : those == launch.threads;
                b.undefined[(size_t)t * f.registers + in.to[0]] = 0;
            }
            ++thread.pc;
            thread.state = READY;
        }
        u64 last = 0;
        b.waits_since = 0;
        for (auto& thread : b.threads) last = std::max(last, thread.time);
        b.base = ++b.counter;
        std::shared_ptr<const Clock> before;
        for (auto& thread : b.threads) {
            f.code[thread.pc].stalled += last + BARRIER - thread.time;
            thread.time = last + BARRIER;
            if (thread.acquired && thread.acquired != before) join(b.clock, *thread.acquired);
            if (thread.acquired) before = thread.acquired;
            thread.acquired.reset(), thread.known.reset();
            thread.epoch = b.base;
        }
        counts.cycles = std::max(counts.cycles, last);
    }

    std::unique_ptr<Block> begin(u32 index) {
        auto b = std::make_unique<Block>();
        b->index = index;
        // What a register holds before it is written is anything.
        b->registers.assign((size_t)f.registers * launch.threads, 0x7fc0dead7fc0dead);
        b->ready.assign((size_t)f.registers * launch.threads, 0);
        b->undefined.assign((size_t)f.registers * launch.threads, 1);
        b->threads.resize(launch.threads);
        b->shared.assign(f.static_shared + launch.dynamic_shared, 0xff);
        b->shared_shadow.resize(b->shared.size() / 4 + 1);
        b->local.assign((size_t)f.frame_bytes * launch.threads, 0xff);
        b->local_state.assign((size_t)f.frame_bytes * launch.threads, NOBODYS);
        for (u32 t = 0; t < launch.threads; ++t)
            for (size_t i = 0; i < f.covered.size(); ++i)
                if (f.covered[i]) b->local_state[(size_t)t * f.frame_bytes + i] = UNWRITTEN;
        return b;
    }

    Counts all() {
        for (auto& in : f.code) in.last = nullptr, in.reported = 0;
        std::vector<u32> waiting(launch.blocks);
        for (u32 i = 0; i < launch.blocks; ++i) waiting[i] = i;
        if (launch.absent >= 0 && launch.absent < launch.blocks)
            waiting.erase(waiting.begin() + launch.absent);
        for (size_t i = waiting.size(); i > 1; --i)
            std::swap(waiting[i - 1], waiting[random.below((u32)i)]);
        std::vector<std::unique_ptr<Block>> resident;
        size_t most = launch.cooperative ? launch.blocks : 8;
        u64 idle = 0;
        while (!resident.empty() || !waiting.empty()) {
            while (resident.size() < most && !waiting.empty()) {
                resident.push_back(begin(waiting.back()));
                waiting.pop_back();
            }
            u32 i = random.below((u32)resident.size());
            ++turn;
            forget();
            auto done = [&] { return counts.atomics + counts.barriers + counts.strong_stores + counts.fresh; };
            u64 before = done();
            u32 times = 1 + random.below(8);
            bool ended = false;
            while (times-- > 0 && !ended) {
                ended = go(*resident[i]);
                if (resident[i]->spun) break;
            }
            if (ended) {
                resident.erase(resident.begin() + i);
                idle = 0;
            } else if (done() == before) {
                // All wait: time passes.
                if (++idle > 64 * resident.size()) now += 10000000;
                if (idle > 64 * resident.size() + 40000) {
                    std::string places;
                    for (auto& b : resident) {
                        std::set<u32> lines;
                        for (auto& thread : b->threads)
                            if (thread.state != ENDED) lines.insert(f.code[thread.pc].line);
                        places += "; block " + std::to_string(b->index) + " at line";
                        for (u32 line : lines) places += " " + std::to_string(line);
                        if (places.size() > 600) break;
                    }
                    throw Error("DEADLOCK: ALL BLOCKS WAIT FOR WHAT NEVER COMES: " + f.name + " launch " +
                                std::to_string(launch.number) + places);
                }
            } else idle = 0;
        }
        return counts;
    }
};
}  // namespace

Counts run(const Launch& launch, void (*report)(const std::string&)) {
    return Machine(launch, report).all();
}
}  // namespace ptx
