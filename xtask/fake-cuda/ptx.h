// SPDX-License-Identifier: MIT OR Apache-2.0
// A reader and an interpreter of PTX, NVIDIA's assembler, as far as NVRTC uses it for edbatch's
// kernels. What it does not know it refuses when a module is loaded.
//
// Threads run one by one, in an order that is shuffled anew after each barrier; blocks take turns at
// random. Beside the results it watches: every access lies inside of a live allocation, is aligned,
// and reads what was written; no two threads touch a word without a barrier, or a release and an
// acquire, between them (by vector clocks), unless both accesses are strong; barriers are reached by
// all threads that they wait for, at the same place; copies under way are waited for.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptx {
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

// Who wrote a word last, and who read it.
struct Shadow {
    u32 write_launch = 0, write_epoch = 0;
    u32 read_launch = 0, read_epoch = 0, other_epoch = 0;
    u32 nc_launch = 0;
    u16 write_block = 0, write_thread = 0;
    u16 read_block = 0, read_thread = 0;
    u16 other_block = 0, other_thread = 0;
    u8 written = 0, other = 0;
    u8 write_strong = 0, read_strong = 0, other_strong = 0;
};

enum class Kind { Device, Host, Constant };

struct Allocation {
    u64 address = 0;
    size_t bytes = 0;
    Kind kind = Kind::Device;
    u8* data = nullptr;
    std::unique_ptr<Shadow[]> shadow;
    std::atomic<bool> freed{false};
    u32 number = 0;
};

using Memory = std::vector<Allocation*>;  // by address

enum Op : u8 {
    MOV, ADD, SUB, MUL_LO, MUL_HI, MUL_WIDE, MUL_F, MAD_LO, MAD_WIDE, DIV, REM, FMA, AND, OR, XOR, NOT, SHL, SHR,
    NEG, ABS, MIN, MAX, SETP, SELP, CVT, CVT_TF32, CVT_BF16X2, CVT_BF16, LD, ST, ATOM, BRA, BRX, CALL, BAR, BAR_RED,
    FENCE, RET, EXIT, WARP, CVTA, PACK, UNPACK, PRMT, POPC, CLZ, BFI, BFE, SHF, SQRT, RCP, EX2, TANH,
    COPY, COPY_COMMIT, COPY_WAIT, COPY_ARRIVE, MBAR, TRAP, BREV, NOP
};
// What threads of a warp do together; what an atomic does; what is done to an mbarrier.
enum Sub : u8 {
    W_IDX, W_UP, W_DOWN, W_BFLY, W_BALLOT, W_ALL, W_ANY, W_UNI, W_ACTIVE, W_SYNC, W_LDMATRIX, W_TF32, W_BF16,
    A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCH, A_CAS,
    R_AND, R_OR, R_POPC, B_SYNC, B_ARRIVE,
    M_INIT, M_INVAL, M_ARRIVE, M_WAIT, M_WAIT_PARITY
};
enum Type : u8 { PRED, B8, U8, S8, B16, U16, S16, B32, U32, S32, F32, B64, U64, S64, F64 };
enum Space : u8 { GENERIC, GLOBAL, SHARED, PARAM, LOCAL };
enum Cmp : u8 { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_ };
enum Sem : u8 { WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL, VOLATILE };
enum Combine : u8 { NONE, C_AND, C_OR, C_XOR };

struct Operand {
    enum K : u8 { REG, IMM, SPECIAL } kind = IMM;
    u32 reg = 0;  // or which special
    u64 imm = 0;
    // What is added when a kernel is put together: where its dynamic shared memory begins, or where
    // the function's frame does.
    bool dynamic = false, frame = false;
};

// A copy between a caller's parameters and a function's, in the thread's frame.
struct Passed {
    u32 caller, callee, bytes;
};
struct CallSite {
    std::string name;
    u32 target = 0;                        // the first instruction
    u32 first_register = 0, registers = 0;
    u32 frame = 0, frame_bytes = 0;
    const std::vector<u8>* covered = nullptr;
    std::vector<Passed> in, out;
};

struct Instruction {
    Op op = NOP;
    Type type = B32, from = B32;
    Cmp cmp = EQ;
    Combine combine = NONE;
    Space space = GENERIC;
    Sem sem = WEAK;
    Sub sub = W_IDX;
    u8 vector = 1;
    bool nc = false, cg = false, system = false;
    bool negate = false;  // the guard
    i32 guard = -1;
    i32 target = -1;  // or which call
    u32 bytes = 0;    // of an asynchronous copy; or how many groups of them may be under way
    std::vector<i32> table;
    u32 line = 0;
    std::vector<u32> to;
    std::vector<Operand> from_operands;
    Operand base, base2;
    i64 offset = 0, offset2 = 0;
    bool combine_negated = false;
    // Of the same instruction's last access.
    mutable Allocation* last = nullptr;
    mutable u32 reported = 0;
    mutable bool executed = false;
    mutable u64 stalled = 0;  // cycles of all threads, in the model of latencies
};

struct Function {
    std::string name;
    u32 param_bytes = 0;
    u32 registers = 0;      // virtual ones
    u32 static_shared = 0;
    u32 max_threads = 1024;
    u32 min_blocks = 0;
    bool dynamic_shared = false;
    std::map<std::string, u32> shared_symbols;
    std::vector<std::pair<u32, u32>> parameters;  // offsets and bytes
    u32 results = 0;                              // how many of a function's parameters are results
    u32 frame_bytes = 0;                          // local memory of a thread
    std::vector<u8> covered;                      // by byte of the own frame: belongs to a variable
    std::vector<CallSite> calls;
    std::vector<Instruction> code;
};

struct Module {
    std::string target;
    u32 machine_registers = 0;
    std::string options;
    std::map<std::string, u64> globals;  // by name: address
    std::vector<std::unique_ptr<Allocation>> constants;
    std::map<std::string, Function> functions;  // kernels, with what they call behind their own code
    std::map<std::string, Function> called;     // device functions
    std::vector<std::string> lines;
};

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Reads a module; `allocate` gives memory for its globals.
std::unique_ptr<Module> read(const std::string& text, Allocation* (*allocate)(size_t bytes));

struct Launch {
    const Module* module;
    const Function* function;
    u32 blocks, threads, dynamic_shared;
    std::vector<u8> parameters;
    const Memory* memory;
    u32 number;       // counted from 1
    u64 seed;
    i64 absent = -1;  // a block that never begins
    bool cooperative = false;
    std::vector<u32> concurrent;  // launches that may run at the same time
};

struct Counts {
    u64 instructions = 0, barriers = 0, loads = 0, stores = 0, mmas = 0, atomics = 0, spins = 0;
    u64 shared_accesses = 0, unwritten = 0, calls = 0, copies = 0, stale = 0, strong_stores = 0, fresh = 0;
    u64 cycles = 0;  // of the slowest block, by latencies alone
};

// Carries a launch out. `report` is told what is wrong and goes on. Throws `Error` where a device
// would stop.
Counts run(const Launch& launch, void (*report)(const std::string&));
}  // namespace ptx
