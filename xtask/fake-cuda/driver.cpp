// SPDX-License-Identifier: MIT OR Apache-2.0
// A driver of CUDA, libcuda.so.1, that has no device: it keeps the driver's protocol strictly and
// carries kernels out by the interpreter of PTX (`ptx.h`). The compiler's front (`nvrtc_shim.cpp`)
// hands it PTX in place of machine code.
//
// Environment, all of it optional:
//   FAKE_CUDA_DEVICE   h100 (default), a100, l40, rtx5090, b200, tiny (an H100 of 6 processors)
//   FAKE_CUDA_SMS      how many processors each device has, in place of the device's own number
//   FAKE_CUDA_DEVICES  how many of them, 1
//   FAKE_CUDA_DRIVER   the version of CUDA it says it knows, 13000
//   FAKE_CUDA_SEED     of all orders, 1
//   FAKE_CUDA_LOG      a file to which findings and the summary are appended as well
//   FAKE_CUDA_ABSENT   N: of each cooperative launch block N never begins
//   FAKE_CUDA_DELAY    most microseconds for which a launch that is done still looks unfinished
//   FAKE_CUDA_UNORDERED  set: streams do not wait for events, to see that a missing wait is found
//   FAKE_CUDA_BYTES    the device's memory, 80 GB
//   FAKE_CUDA_COVERAGE a folder: for each module its PTX; before each line whether it was carried out, and
//                      the cycles that all threads together waited there, in the model of latencies
//   FAKE_CUDA_MODEL    set: says of each launch what it takes at least, by latencies alone
//   FAKE_CUDA_MUTATE   [N,M,…:]FROM=>TO: text of each module that is replaced before it is read,
//                      everywhere or at these places alone: to see that mistakes are found
#include "ptx.h"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

using namespace ptx;

namespace {
enum : int {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEINITIALIZED = 4,
    NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, LAUNCH_FAILED = 719,
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, NOT_SUPPORTED = 801
};

struct Model {
    const char *key, *name;
    int major, minor, processors, optin, per_processor, l2, clock, memory_clock, threads;
};
const Model MODELS[] = {
    {"h100", "FAKE H100 80GB HBM3", 9, 0, 132, 232448, 233472, 52428800, 1980000, 2619000, 2048},
    {"tiny", "FAKE H100 of 6 processors", 9, 0, 6, 232448, 233472, 52428800, 1980000, 2619000, 2048},
    {"a100", "FAKE A100", 8, 0, 108, 166912, 167936, 41943040, 1410000, 1593000, 2048},
    {"l40", "FAKE L40", 8, 9, 142, 101376, 102400, 100663296, 2490000, 9001000, 1536},
    {"b200", "FAKE B200", 10, 0, 148, 232448, 233472, 132644864, 1965000, 3996000, 2048},
    {"rtx5090", "FAKE RTX 5090", 12, 0, 170, 101376, 102400, 100663296, 2407000, 14001000, 1536},
};
const Model& model() {
    static const Model found = [] {
        const char *key = getenv("FAKE_CUDA_DEVICE"), *processors = getenv("FAKE_CUDA_SMS");
        Model made = MODELS[0];
        for (auto& m : MODELS)
            if (key && !strcmp(m.key, key)) made = m;
        if (processors && atoi(processors) > 0) made.processors = atoi(processors);
        return made;
    }();
    return found;
}
u64 number(const char* variable, u64 none) {
    const char* text = getenv(variable);
    return text && *text ? strtoull(text, nullptr, 0) : none;
}

// Never destroyed: the device's thread waits on them until the process is gone.
auto& guard = *new std::recursive_mutex;
auto& changed = *new std::condition_variable_any;
auto& calls = *new std::map<std::string, u64>;
u64 findings = 0, launches = 0, cooperative = 0, most_blocks = 0, busy_frees = 0;
u64 most_parameters = 0, most_shared = 0, copies_to_host_memory = 0, overlapping = 0;
Counts total;

void write_line(const std::string& text) {
    fprintf(stderr, "fake cuda: %s\n", text.c_str());
    if (const char* path = getenv("FAKE_CUDA_LOG"))
        if (FILE* file = fopen(path, "a")) {
            fprintf(file, "%s\n", text.c_str());
            fclose(file);
        }
}
void finding(const std::string& text) {
    std::lock_guard<std::recursive_mutex> lock(guard);
    if (++findings <= 200) write_line("FINDING " + text);
}
std::string format(const char* form, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* form, ...) {
    char text[4096];
    va_list list;
    va_start(list, form);
    vsnprintf(text, sizeof text, form, list);
    va_end(list);
    return text;
}

// ---- memory

auto& allocations = *new std::vector<std::unique_ptr<Allocation>>;
auto& by_address = *new std::map<u64, Allocation*>;  // live and freed
u64 next_address = 0x300000000000, used_bytes = 0;

Allocation* add(u64 address, size_t bytes, Kind kind, u8* data) {
    auto a = std::make_unique<Allocation>();
    a->address = address, a->bytes = bytes, a->kind = kind, a->data = data;
    a->shadow = std::make_unique<Shadow[]>((bytes + 3) / 4 + 1);
    a->number = (u32)allocations.size();
    Allocation* raw = a.get();
    by_address[address] = raw;
    allocations.push_back(std::move(a));
    return raw;
}
Allocation* on_device(size_t bytes, Kind kind) {
    std::lock_guard<std::recursive_mutex> lock(guard);
    u8* data = (u8*)malloc(bytes + 16);
    memset(data, 0xff, bytes + 16);
    // 256 bytes as the driver's; and a gap that belongs to nobody.
    u64 address = next_address;
    next_address += (bytes + 255) / 256 * 256 + 4096;
    return add(address, bytes, kind, data);
}
Allocation* constant(size_t bytes) { return on_device(bytes, Kind::Constant); }

Allocation* allocation_of(u64 address) {
    auto after = by_address.upper_bound(address);
    if (after == by_address.begin()) return nullptr;
    Allocation* a = std::prev(after)->second;
    return address < a->address + a->bytes ? a : nullptr;
}

// ---- contexts, streams

struct Context {
    int device;
    int references = 0;
    int error = SUCCESS;
};
auto& contexts = *new std::vector<Context*>;
thread_local Context* current = nullptr;
bool initialised = false;

struct Event {
    // Numbers of records: of the last one, and of the last one that is done.
    u64 recorded = 0, done = 0;
    bool alive = true;
    std::chrono::steady_clock::time_point when;
};
struct Work {
    enum K { LAUNCH, COPY, COPY_BACK, COPY_WITHIN, SET, RECORD, WAIT } kind;
    Launch launch;
    Context* context = nullptr;
    Allocation *to = nullptr, *within = nullptr;
    u64 offset = 0, offset_within = 0;
    const void* from = nullptr;
    void* back = nullptr;
    u32 word = 0;
    size_t bytes = 0;
    Event* event = nullptr;
    u64 record = 0;
};
struct Stream {
    Context* context;
    std::deque<std::shared_ptr<Work>> work;
    bool alive = true, blocking = true;
    bool running = false;
};
auto& streams = *new std::vector<std::unique_ptr<Stream>>;
auto& handles = *new std::map<void*, Stream*>;

struct LoadedModule;
struct LoadedFunction {
    LoadedModule* module;
    const Function* function;
    int most_dynamic;
};
struct LoadedModule {
    std::unique_ptr<Module> module;
    std::vector<std::unique_ptr<LoadedFunction>> functions;
    Context* context;
    bool alive = true;
};
auto& modules = *new std::vector<std::unique_ptr<LoadedModule>>;

u64 random_state = 0;
u64 random_number() {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 33;
}

bool idle(Stream& s) { return s.work.empty() && !s.running; }

void carry_out(Work& work) {
    switch (work.kind) {
    case Work::COPY: {
        std::lock_guard<std::recursive_mutex> lock(guard);
        memcpy(work.to->data + work.offset, work.from, work.bytes);
        for (u64 w = work.offset / 4; w < (work.offset + work.bytes + 3) / 4; ++w) {
            work.to->shadow[w] = Shadow();
            work.to->shadow[w].written = 1;
        }
        break;
    }
    case Work::COPY_BACK: {
        std::lock_guard<std::recursive_mutex> lock(guard);
        memcpy(work.back, work.to->data + work.offset, work.bytes);
        break;
    }
    case Work::COPY_WITHIN: {
        std::lock_guard<std::recursive_mutex> lock(guard);
        memcpy(work.to->data + work.offset, work.within->data + work.offset_within, work.bytes);
        for (u64 i = 0; i < work.bytes / 4; ++i) {
            Shadow& shadow = work.to->shadow[work.offset / 4 + i];
            shadow = Shadow();
            // Words that were never written are not written by their copy.
            shadow.written = work.within->shadow[work.offset_within / 4 + i].written;
        }
        break;
    }
    case Work::SET: {
        std::lock_guard<std::recursive_mutex> lock(guard);
        for (size_t i = 0; i < work.bytes; i += 4) memcpy(work.to->data + work.offset + i, &work.word, 4);
        for (u64 w = work.offset / 4; w < (work.offset + work.bytes) / 4; ++w) {
            work.to->shadow[w] = Shadow();
            work.to->shadow[w].written = 1;
        }
        break;
    }
    case Work::RECORD: {
        std::lock_guard<std::recursive_mutex> lock(guard);
        work.event->done = work.record;
        work.event->when = std::chrono::steady_clock::now();
        break;
    }
    case Work::WAIT: break;
    case Work::LAUNCH: {
        Memory memory;
        {
            std::lock_guard<std::recursive_mutex> lock(guard);
            for (auto& [address, a] : by_address) memory.push_back(a);
        }
        work.launch.memory = &memory;
        try {
            Counts counts = ptx::run(work.launch, finding);
            std::lock_guard<std::recursive_mutex> lock(guard);
            if (getenv("FAKE_CUDA_MODEL"))
                write_line(format("MODEL launch %u of %u blocks: at least %.1f us at 1.755 GHz",
                                  work.launch.number, work.launch.blocks, (double)counts.cycles / 1755));
            total.instructions += counts.instructions;
            total.barriers += counts.barriers;
            total.loads += counts.loads, total.stores += counts.stores;
            total.mmas += counts.mmas, total.atomics += counts.atomics;
            total.spins += counts.spins, total.unwritten += counts.unwritten;
            total.calls += counts.calls, total.copies += counts.copies, total.stale += counts.stale;
        } catch (const std::exception& error) {
            finding(std::string("STOPPED ") + error.what());
            std::lock_guard<std::recursive_mutex> lock(guard);
            work.context->error = ILLEGAL_ADDRESS;
        }
        if (u64 most = number("FAKE_CUDA_DELAY", 0))
            std::this_thread::sleep_for(std::chrono::microseconds(random_number() % most));
        break;
    }
    }
}

// True if a stream's next work waits for an event.
bool waits(Stream& s) {
    Work& next = *s.work.front();
    return next.kind == Work::WAIT && next.event->done < next.record;
}

void device_thread() {
    std::unique_lock<std::recursive_mutex> lock(guard);
    for (;;) {
        std::vector<Stream*> ready;
        for (auto& s : streams)
            if (!s->work.empty() && !waits(*s)) ready.push_back(s.get());
        if (ready.empty()) {
            changed.wait(lock);
            continue;
        }
        Stream* s = ready[random_number() % ready.size()];
        auto work = s->work.front();
        s->work.pop_front();
        s->running = true;
        lock.unlock();
        carry_out(*work);
        lock.lock();
        s->running = false;
        changed.notify_all();
    }
}

void enqueue(Stream* s, std::shared_ptr<Work> work) {
    static std::once_flag once;
    std::call_once(once, [] {
        random_state = number("FAKE_CUDA_SEED", 1);
        std::thread(device_thread).detach();
    });
    s->work.push_back(std::move(work));
    changed.notify_all();
}

void summary() {
    std::lock_guard<std::recursive_mutex> lock(guard);
    if (!initialised) return;
    write_line(format("SUMMARY %s: findings %llu; launches %llu (cooperative %llu, most blocks %llu, "
                      "most parameters %llu bytes, most shared %llu bytes, overlapping %llu); "
                      "instructions %llu, barriers %llu, loads %llu, stores %llu, mma %llu, atomics %llu, "
                      "calls %llu, asynchronous copies %llu, older values seen %llu, strong loads %llu, unwritten shared words read but not used %llu; frees while busy %llu; copies to pinned memory %llu",
                      model().name, (unsigned long long)findings, (unsigned long long)launches,
                      (unsigned long long)cooperative, (unsigned long long)most_blocks,
                      (unsigned long long)most_parameters, (unsigned long long)most_shared,
                      (unsigned long long)overlapping,
                      (unsigned long long)total.instructions, (unsigned long long)total.barriers,
                      (unsigned long long)total.loads, (unsigned long long)total.stores,
                      (unsigned long long)total.mmas, (unsigned long long)total.atomics,
                      (unsigned long long)total.calls, (unsigned long long)total.copies, (unsigned long long)total.stale,
                      (unsigned long long)total.spins, (unsigned long long)total.unwritten, (unsigned long long)busy_frees,
                      (unsigned long long)copies_to_host_memory));
    if (const char* folder = getenv("FAKE_CUDA_COVERAGE"))
        for (auto& m : modules)
            for (auto& f : m->functions) {
                std::string whole;
                for (auto& line : m->module->lines) whole += line;
                std::set<u32> known, done;
                std::map<u32, u64> stalled;
                for (auto& in : f->function->code) {
                    stalled[in.line] += in.stalled;
                    known.insert(in.line);
                    if (in.executed) done.insert(in.line);
                }
                std::string path = format("%s/%016zx.%d.ptx", folder, std::hash<std::string>()(whole), getpid());
                if (FILE* file = fopen(path.c_str(), "w")) {
                    for (u32 line = 1; line <= m->module->lines.size(); ++line)
                        fprintf(file, "%c %12llu %s\n", done.count(line) ? '+' : known.count(line) ? '-' : ' ',
                                (unsigned long long)(stalled.count(line) ? stalled[line] : 0),
                                m->module->lines[line - 1].c_str());
                    fclose(file);
                }
            }
    std::string text = "CALLS";
    for (auto& [name, count] : calls) text += " " + name + "=" + std::to_string(count);
    write_line(text);
    u64 leaked = 0, bytes = 0;
    for (auto& a : allocations)
        if (!a->freed && a->kind != Kind::Constant) ++leaked, bytes += a->bytes;
    if (leaked) write_line(format("LEFT %llu allocations of %llu bytes", (unsigned long long)leaked, (unsigned long long)bytes));
}
struct AtExit {
    ~AtExit() { summary(); }
} at_exit;

// What every call begins with.
struct Call {
    std::unique_lock<std::recursive_mutex> lock{guard};
    explicit Call(const char* name) { ++calls[name]; }
};
#define CALL Call call_(__func__)
#define NEED(condition, code, ...)                                                  \
    do {                                                                            \
        if (!(condition)) {                                                         \
            finding(std::string(__func__) + ": " + format(__VA_ARGS__));            \
            return code;                                                            \
        }                                                                           \
    } while (0)
#define NEED_CONTEXT                                                                 \
    NEED(initialised, NOT_INITIALIZED, "before cuInit");                             \
    NEED(current, INVALID_CONTEXT, "no context is current on this thread");          \
    if (current->error) return current->error

auto& events = *new std::set<void*>;
Event* event_of(void* handle) {
    return events.count(handle) && ((Event*)handle)->alive ? (Event*)handle : nullptr;
}
Stream* stream_of(void* handle) {
    auto found = handles.find(handle);
    return found == handles.end() || !found->second->alive ? nullptr : found->second;
}
void wait_for_all(Call& call) {
    changed.wait(call.lock, [] {
        for (auto& s : streams)
            if (!idle(*s)) return false;
        return true;
    });
}
bool all_idle() {
    for (auto& s : streams)
        if (!idle(*s)) return false;
    return true;
}
}  // namespace

extern "C" {
int cuInit(unsigned flags) {
    CALL;
    NEED(flags == 0, INVALID_VALUE, "flags %u", flags);
    if (number("FAKE_CUDA_DEVICES", 1) == 0) return NO_DEVICE;
    initialised = true;
    return SUCCESS;
}
int cuDriverGetVersion(int* version) {
    CALL;
    *version = (int)number("FAKE_CUDA_DRIVER", 13000);
    return SUCCESS;
}
int cuDeviceGetCount(int* count) {
    CALL;
    NEED(initialised, NOT_INITIALIZED, "before cuInit");
    *count = (int)number("FAKE_CUDA_DEVICES", 1);
    return SUCCESS;
}
int cuDeviceGet(int* device, int ordinal) {
    CALL;
    NEED(initialised, NOT_INITIALIZED, "before cuInit");
    NEED(ordinal >= 0 && ordinal < (int)number("FAKE_CUDA_DEVICES", 1), INVALID_DEVICE, "%d", ordinal);
    *device = ordinal;
    return SUCCESS;
}
int cuDeviceGetName(char* name, int length, int device) {
    CALL;
    snprintf(name, (size_t)length, "%s", model().name);
    (void)device;
    return SUCCESS;
}
int cuDeviceGetUuid_v2(void* uuid, int) {
    CALL;
    memset(uuid, 7, 16);
    return SUCCESS;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
    CALL;
    *bytes = number("FAKE_CUDA_BYTES", 80000000000);
    return SUCCESS;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    CALL;
    NEED(initialised, NOT_INITIALIZED, "before cuInit");
    const Model& m = model();
    switch (attribute) {
    case 1: *value = 1024; break;                 // threads of a block
    case 8: *value = 49152; break;                // shared memory of a block
    case 10: *value = 32; break;                  // warp
    case 12: *value = 65536; break;               // registers of a block
    case 13: *value = m.clock; break;
    case 16: *value = m.processors; break;
    case 36: *value = m.memory_clock; break;
    case 38: *value = m.l2; break;
    case 39: *value = m.threads; break;
    case 41: *value = 1; break;                   // unified addressing
    case 75: *value = m.major; break;
    case 76: *value = m.minor; break;
    case 81: *value = m.per_processor; break;
    case 82: *value = 65536; break;
    case 95: *value = 1; break;                   // cooperative launch
    case 97: *value = m.optin; break;
    case 115: *value = 1; break;                  // memory pools
    default:
        *value = 0;
        finding(format("cuDeviceGetAttribute: attribute %d is not known here", attribute));
    }
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
    CALL;
    NEED(initialised, NOT_INITIALIZED, "before cuInit");
    for (auto* c : contexts)
        if (c->device == device && c->references > 0) {
            ++c->references;
            *context = c;
            return SUCCESS;
        }
    contexts.push_back(new Context{device, 1, SUCCESS});
    *context = contexts.back();
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    CALL;
    for (auto* c : contexts)
        if (c->device == device && c->references > 0) {
            if (--c->references == 0)
                for (auto& m : modules)
                    if (m->context == c && m->alive)
                        finding("cuDevicePrimaryCtxRelease: a module is still loaded");
            return SUCCESS;
        }
    NEED(false, INVALID_CONTEXT, "device %d has none", device);
}
int cuCtxGetCurrent(void** context) {
    CALL;
    NEED(initialised, NOT_INITIALIZED, "before cuInit");
    *context = current;
    return SUCCESS;
}
int cuCtxSetCurrent(void* context) {
    CALL;
    NEED(initialised, NOT_INITIALIZED, "before cuInit");
    if (context) {
        bool known = std::find(contexts.begin(), contexts.end(), context) != contexts.end();
        NEED(known && ((Context*)context)->references > 0, INVALID_CONTEXT, "%p is no context", context);
    }
    current = (Context*)context;
    return SUCCESS;
}
int cuCtxGetDevice(int* device) {
    CALL;
    NEED_CONTEXT;
    *device = current->device;
    return SUCCESS;
}
int cuCtxSynchronize() {
    CALL;
    NEED_CONTEXT;
    wait_for_all(call_);
    return current->error;
}

int cuStreamCreate(void** stream, unsigned flags) {
    CALL;
    NEED_CONTEXT;
    NEED(flags <= 1, INVALID_VALUE, "flags %u", flags);
    streams.push_back(std::make_unique<Stream>());
    Stream* s = streams.back().get();
    s->context = current;
    s->blocking = flags == 0;
    handles[s] = s;
    *stream = s;
    return SUCCESS;
}
int cuStreamDestroy_v2(void* stream) {
    CALL;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    s->alive = false;
    return SUCCESS;
}
int cuStreamQuery(void* stream) {
    CALL;
    NEED_CONTEXT;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current, INVALID_CONTEXT, "a stream of another context");
    return idle(*s) ? SUCCESS : NOT_READY;
}
int cuStreamSynchronize(void* stream) {
    CALL;
    NEED_CONTEXT;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current, INVALID_CONTEXT, "a stream of another context");
    changed.wait(call_.lock, [&] { return idle(*s); });
    return current->error;
}

int cuEventCreate(void** event, unsigned) {
    CALL;
    NEED_CONTEXT;
    *event = new Event;
    events.insert(*event);
    return SUCCESS;
}
int cuEventDestroy_v2(void* event) {
    CALL;
    NEED_CONTEXT;
    NEED(event_of(event), INVALID_HANDLE, "%p is no event", event);
    ((Event*)event)->alive = false;  // kept: work may still record it or wait for it
    return SUCCESS;
}
int cuEventRecord(void* event, void* stream) {
    CALL;
    NEED_CONTEXT;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(event_of(event), INVALID_HANDLE, "%p is no event", event);
    auto work = std::make_shared<Work>();
    work->kind = Work::RECORD;
    work->event = (Event*)event;
    work->record = ++work->event->recorded;
    enqueue(s, work);
    return SUCCESS;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
    CALL;
    NEED_CONTEXT;
    NEED(flags == 0, INVALID_VALUE, "flags %u", flags);
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current, INVALID_CONTEXT, "a stream of another context");
    NEED(event_of(event), INVALID_HANDLE, "%p is no event", event);
    NEED(((Event*)event)->recorded > 0, INVALID_HANDLE, "the event was never recorded, so nothing waits");
    if (getenv("FAKE_CUDA_UNORDERED")) return SUCCESS;
    auto work = std::make_shared<Work>();
    work->kind = Work::WAIT;
    work->event = (Event*)event;
    work->record = work->event->recorded;
    enqueue(s, work);
    return SUCCESS;
}
int cuEventSynchronize(void* event) {
    CALL;
    NEED_CONTEXT;
    NEED(((Event*)event)->recorded, INVALID_HANDLE, "was never recorded");
    changed.wait(call_.lock, [&] { return ((Event*)event)->done == ((Event*)event)->recorded; });
    return current->error;
}
int cuEventQuery(void* event) {
    CALL;
    NEED_CONTEXT;
    return ((Event*)event)->done == ((Event*)event)->recorded ? SUCCESS : NOT_READY;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
    CALL;
    NEED_CONTEXT;
    auto *a = (Event*)from, *b = (Event*)to;
    NEED(a->recorded && b->recorded, INVALID_HANDLE, "was never recorded");
    if (a->done < a->recorded || b->done < b->recorded) return NOT_READY;
    *ms = std::chrono::duration<float, std::milli>(b->when - a->when).count();
    return SUCCESS;
}
int cuEventElapsedTime_v2(float* ms, void* from, void* to) { return cuEventElapsedTime(ms, from, to); }

int cuMemAlloc_v2(u64* address, size_t bytes) {
    CALL;
    NEED_CONTEXT;
    NEED(bytes > 0, INVALID_VALUE, "no bytes");
    if (used_bytes + bytes > number("FAKE_CUDA_BYTES", 80000000000)) return OUT_OF_MEMORY;
    used_bytes += bytes;
    *address = on_device(bytes, Kind::Device)->address;
    return SUCCESS;
}
int cuMemFree_v2(u64 address) {
    CALL;
    NEED_CONTEXT;
    auto found = by_address.find(address);
    NEED(found != by_address.end() && found->second->kind == Kind::Device, INVALID_VALUE,
         "%#llx was not allocated", (unsigned long long)address);
    Allocation* a = found->second;
    NEED(!a->freed, INVALID_VALUE, "%#llx is freed twice", (unsigned long long)address);
    if (!all_idle()) ++busy_frees;
    wait_for_all(call_);
    a->freed = true;
    used_bytes -= a->bytes;
    free(a->data);
    a->data = nullptr;
    a->shadow.reset();
    return SUCCESS;
}
int cuMemHostAlloc(void** host, size_t bytes, unsigned flags) {
    CALL;
    NEED_CONTEXT;
    NEED(bytes > 0, INVALID_VALUE, "no bytes");
    NEED(flags & 2, INVALID_VALUE, "not to be seen by the device: flags %u", flags);
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return OUT_OF_MEMORY;
    memset(at, 0xff, bytes);
    add((u64)at, bytes, Kind::Host, (u8*)at);
    *host = at;
    return SUCCESS;
}
int cuMemFreeHost(void* host) {
    CALL;
    NEED_CONTEXT;
    auto found = by_address.find((u64)host);
    NEED(found != by_address.end() && found->second->kind == Kind::Host, INVALID_VALUE,
         "%p was not allocated", host);
    Allocation* a = found->second;
    NEED(!a->freed, INVALID_VALUE, "%p is freed twice", host);
    if (!all_idle()) ++busy_frees;
    wait_for_all(call_);
    a->freed = true;
    a->shadow.reset();
    // Who touches it afterwards falls.
    mprotect(host, a->bytes, PROT_NONE);
    return SUCCESS;
}
int cuMemHostGetDevicePointer_v2(u64* address, void* host, unsigned flags) {
    CALL;
    NEED_CONTEXT;
    NEED(flags == 0, INVALID_VALUE, "flags %u", flags);
    Allocation* a = allocation_of((u64)host);
    NEED(a && a->kind == Kind::Host && !a->freed, INVALID_VALUE, "%p is not pinned", host);
    *address = (u64)host;
    return SUCCESS;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t bytes, void* stream) {
    CALL;
    NEED_CONTEXT;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current, INVALID_CONTEXT, "a stream of another context");
    if (bytes == 0) return SUCCESS;
    Allocation* a = allocation_of(to);
    NEED(a && !a->freed && to + bytes <= a->address + a->bytes, INVALID_VALUE,
         "%zu bytes to %#llx, which is no memory of the device's", bytes, (unsigned long long)to);
    if (a->kind == Kind::Host) ++copies_to_host_memory;
    auto work = std::make_shared<Work>();
    work->kind = Work::COPY;
    work->to = a, work->offset = to - a->address, work->from = from, work->bytes = bytes;
    enqueue(s, work);
    return SUCCESS;
}

int cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t bytes, void* stream) {
    CALL;
    NEED_CONTEXT;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current, INVALID_CONTEXT, "a stream of another context");
    if (bytes == 0) return SUCCESS;
    Allocation* a = allocation_of(from);
    NEED(a && !a->freed && from + bytes <= a->address + a->bytes, INVALID_VALUE,
         "%zu bytes from %#llx, which is no memory of the device's", bytes, (unsigned long long)from);
    auto work = std::make_shared<Work>();
    work->kind = Work::COPY_BACK;
    work->to = a, work->offset = from - a->address, work->back = to, work->bytes = bytes;
    enqueue(s, work);
    return SUCCESS;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, void* stream) {
    CALL;
    NEED_CONTEXT;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current, INVALID_CONTEXT, "a stream of another context");
    if (bytes == 0) return SUCCESS;
    Allocation *a = allocation_of(to), *b = allocation_of(from);
    NEED(a && !a->freed && to + bytes <= a->address + a->bytes, INVALID_VALUE,
         "%zu bytes to %#llx, which is no memory of the device's", bytes, (unsigned long long)to);
    NEED(b && !b->freed && from + bytes <= b->address + b->bytes, INVALID_VALUE,
         "%zu bytes from %#llx, which is no memory of the device's", bytes, (unsigned long long)from);
    NEED(to % 4 == 0 && from % 4 == 0 && bytes % 4 == 0, INVALID_VALUE, "%zu bytes, not words", bytes);
    auto work = std::make_shared<Work>();
    work->kind = Work::COPY_WITHIN;
    work->to = a, work->offset = to - a->address, work->bytes = bytes;
    work->within = b, work->offset_within = from - b->address;
    enqueue(s, work);
    return SUCCESS;
}
// Host memory has unified addresses, so this takes any two.
int cuMemcpyAsync(u64 to, u64 from, size_t bytes, void* stream) {
    return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
int cuMemsetD32Async(u64 to, unsigned word, size_t count, void* stream) {
    CALL;
    NEED_CONTEXT;
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current, INVALID_CONTEXT, "a stream of another context");
    if (count == 0) return SUCCESS;
    Allocation* a = allocation_of(to);
    NEED(to % 4 == 0 && a && !a->freed && to + 4 * count <= a->address + a->bytes, INVALID_VALUE,
         "%zu words to %#llx, which is no memory of the device's", count, (unsigned long long)to);
    auto work = std::make_shared<Work>();
    work->kind = Work::SET;
    work->to = a, work->offset = to - a->address, work->word = word, work->bytes = 4 * count;
    enqueue(s, work);
    return SUCCESS;
}

int cuModuleLoadData(void** handle, const void* image) {
    CALL;
    NEED_CONTEXT;
    const char* text = (const char*)image;
    if (strncmp(text, "//FAKE-CUBIN", 12) != 0) {
        finding("cuModuleLoadData: not what the fake compiler made");
        return INVALID_IMAGE;
    }
    auto loaded = std::make_unique<LoadedModule>();
    std::string mutated = text;
    if (const char* m = getenv("FAKE_CUDA_MUTATE")) {
        std::string rule = m;
        size_t arrow = rule.find("=>"), colon = rule.find(':');
        std::set<u64> only;
        size_t begin = 0;
        if (colon != std::string::npos && colon < arrow && colon > 0 &&
            std::all_of(rule.begin(), rule.begin() + (long)colon,
                        [](char c) { return isdigit((unsigned char)c) || c == ','; })) {
            for (size_t at = 0; at < colon; at = rule.find_first_of(",:", at) + 1)
                only.insert(strtoull(rule.c_str() + at, nullptr, 10));
            begin = colon + 1;
        }
        std::string from = rule.substr(begin, arrow - begin), to = rule.substr(arrow + 2);
        u64 count = 0, done = 0;
        for (size_t at = 0; (at = mutated.find(from, at)) != std::string::npos;) {
            if (++count; only.empty() || only.count(count)) mutated.replace(at, from.size(), to), at += to.size(), ++done;
            else at += from.size();
        }
        write_line(format("MUTATED %llu of %llu places", (unsigned long long)done, (unsigned long long)count));
    }
    try {
        loaded->module = ptx::read(mutated, constant);
    } catch (const std::exception& error) {
        finding(std::string("cuModuleLoadData: ") + error.what());
        return INVALID_IMAGE;
    }
    loaded->context = current;
    const Model& m = model();
    int architecture = atoi(loaded->module->target.c_str() + 3);
    int major = architecture / 10, minor = architecture % 10;
    bool exact = loaded->module->target.back() == 'a';
    if (major != m.major || (exact ? minor != m.minor : minor > m.minor)) {
        finding(format("cuModuleLoadData: %s on a device of %d.%d", loaded->module->target.c_str(),
                       m.major, m.minor));
        return NO_BINARY_FOR_GPU;
    }
    for (auto& [name, function] : loaded->module->functions)
        loaded->functions.push_back(std::make_unique<LoadedFunction>(
            LoadedFunction{loaded.get(), &function, 49152 - (int)function.static_shared}));
    *handle = loaded.get();
    modules.push_back(std::move(loaded));
    return SUCCESS;
}
int cuModuleUnload(void* handle) {
    CALL;
    NEED_CONTEXT;
    for (auto& m : modules)
        if (m.get() == handle && m->alive) {
            if (!all_idle()) ++busy_frees;
            wait_for_all(call_);
            m->alive = false;
            return SUCCESS;
        }
    NEED(false, INVALID_HANDLE, "%p is no module", handle);
}
int cuModuleGetFunction(void** function, void* handle, const char* name) {
    CALL;
    NEED_CONTEXT;
    for (auto& m : modules)
        if (m.get() == handle && m->alive)
            for (auto& f : m->functions)
                if (f->function->name == name) {
                    *function = f.get();
                    return SUCCESS;
                }
    return NOT_FOUND;
}
static LoadedFunction* function_of(void* handle) {
    for (auto& m : modules)
        for (auto& f : m->functions)
            if (f.get() == handle && m->alive) return f.get();
    return nullptr;
}
int cuFuncSetAttribute(void* handle, int attribute, int value) {
    CALL;
    NEED_CONTEXT;
    LoadedFunction* f = function_of(handle);
    NEED(f, INVALID_HANDLE, "%p is no function", handle);
    NEED(attribute == 8 || attribute == 9, INVALID_VALUE, "attribute %d", attribute);
    if (attribute == 9) return SUCCESS;
    NEED(value >= 0 && value + (int)f->function->static_shared <= model().optin, INVALID_VALUE,
         "%d bytes beside %u static ones, of %d", value, f->function->static_shared, model().optin);
    f->most_dynamic = value;
    return SUCCESS;
}
// Blocks of a kernel that a processor has room for.
static int occupancy(const LoadedFunction& f, int threads, size_t dynamic) {
    const Model& m = model();
    int warps = (threads + 31) / 32;
    // Registers are given by 256 to a warp.
    int of_warp = (int)(f.module->module->machine_registers * 32 + 255) / 256 * 256;
    int by_registers = of_warp ? 65536 / (of_warp * warps) : 32;
    size_t shared = (f.function->static_shared + dynamic + 1024 + 127) / 128 * 128;
    int by_shared = (int)(m.per_processor / shared), by_threads = m.threads / (warps * 32);
    return std::min({by_registers, by_shared, by_threads, m.minor == 9 || m.major == 12 ? 24 : 32});
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int threads, size_t dynamic) {
    CALL;
    NEED_CONTEXT;
    LoadedFunction* f = function_of(handle);
    NEED(f, INVALID_HANDLE, "%p is no function", handle);
    *blocks = (int)dynamic > f->most_dynamic ? 0 : occupancy(*f, threads, dynamic);
    return SUCCESS;
}

static int launch_on(const char* name, void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned dynamic, void* stream, void** parameters, bool together) {
#define __func__ name
    NEED_CONTEXT;
    LoadedFunction* f = function_of(handle);
    NEED(f, INVALID_HANDLE, "%p is no function", handle);
    Stream* s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "%p is no stream", stream);
    NEED(s->context == current && f->module->context == current, INVALID_CONTEXT,
         "stream, function and thread are not of one context");
    NEED(gx && gy && gz && bx && by && bz, INVALID_VALUE, "no blocks or no threads");
    NEED(gy == 1 && gz == 1 && by == 1 && bz == 1, INVALID_VALUE, "more dimensions than known here");
    NEED(bx <= 1024 && bx <= f->function->max_threads, INVALID_VALUE, "%u threads", bx);
    NEED(gx <= 0x7fffffff, INVALID_VALUE, "%u blocks", gx);
    NEED((int)dynamic <= f->most_dynamic, INVALID_VALUE, "%u bytes of shared memory, of %d", dynamic,
         f->most_dynamic);
    NEED(f->function->param_bytes <= 32764, INVALID_VALUE, "%u bytes of parameters",
         f->function->param_bytes);
    int fit = occupancy(*f, (int)bx, dynamic);
    NEED(fit > 0, LAUNCH_OUT_OF_RESOURCES, "%u threads of %u registers", bx,
         f->module->module->machine_registers);
    if (f->function->min_blocks)
        NEED(fit >= (int)f->function->min_blocks || dynamic > 0, LAUNCH_FAILED,
             "fewer blocks fit than the kernel says");
    if (together)
        NEED(gx <= (unsigned)(fit * model().processors), COOPERATIVE_LAUNCH_TOO_LARGE,
             "%u blocks, of which %d fit", gx, fit * model().processors);
    auto work = std::make_shared<Work>();
    work->kind = Work::LAUNCH;
    work->context = current;
    Launch& l = work->launch;
    l.module = f->module->module.get();
    l.function = f->function;
    l.blocks = gx, l.threads = bx, l.dynamic_shared = dynamic;
    l.cooperative = together;
    // The driver copies them before it returns.
    l.parameters.assign(f->function->param_bytes, 0);
    for (size_t i = 0; i < f->function->parameters.size(); ++i)
        memcpy(l.parameters.data() + f->function->parameters[i].first, parameters[i], f->function->parameters[i].second);
    l.number = (u32)++launches;
    l.seed = number("FAKE_CUDA_SEED", 1) * 1000003 + launches;
    if (together && getenv("FAKE_CUDA_ABSENT")) l.absent = (i64)number("FAKE_CUDA_ABSENT", 0);
    for (auto& other : streams) {
        if (other.get() == s) continue;
        for (auto& w : other->work)
            if (w->kind == Work::LAUNCH) l.concurrent.push_back(w->launch.number);
        if (other->running) ++overlapping;
    }
    overlapping += l.concurrent.size();
    cooperative += together;
    most_blocks = std::max<u64>(most_blocks, gx);
    most_parameters = std::max<u64>(most_parameters, f->function->param_bytes);
    most_shared = std::max<u64>(most_shared, dynamic + f->function->static_shared);
    enqueue(s, work);
    return SUCCESS;
#undef __func__
}
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned dynamic, void* stream, void** parameters, void** extra) {
    CALL;
    NEED(!extra, INVALID_VALUE, "extra");
    return launch_on("cuLaunchKernel", f, gx, gy, gz, bx, by, bz, dynamic, stream, parameters, false);
}
int cuLaunchCooperativeKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned dynamic, void* stream, void** parameters) {
    CALL;
    return launch_on("cuLaunchCooperativeKernel", f, gx, gy, gz, bx, by, bz, dynamic, stream, parameters, true);
}

// The compiler asks for it, for a cache of its own that it then goes without.
int cuGetExportTable(const void** table, const void*) {
    *table = nullptr;
    return NOT_SUPPORTED;
}

static const std::map<int, std::pair<const char*, const char*>> ERRORS = {
    {SUCCESS, {"CUDA_SUCCESS", "no error"}},
    {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {NO_BINARY_FOR_GPU, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"}},
    {INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {NOT_READY, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {ILLEGAL_ADDRESS, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {LAUNCH_OUT_OF_RESOURCES, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested"}},
    {LAUNCH_FAILED, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {COOPERATIVE_LAUNCH_TOO_LARGE, {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"}}};
int cuGetErrorName(int error, const char** text) {
    auto found = ERRORS.find(error);
    *text = found == ERRORS.end() ? nullptr : found->second.first;
    return found == ERRORS.end() ? INVALID_VALUE : SUCCESS;
}
int cuGetErrorString(int error, const char** text) {
    auto found = ERRORS.find(error);
    *text = found == ERRORS.end() ? nullptr : found->second.second;
    return found == ERRORS.end() ? INVALID_VALUE : SUCCESS;
}
}
