// SPDX-License-Identifier: MIT OR Apache-2.0
// The reader of PTX.
#include "ptx.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ptx {
namespace {
struct Reader {
    const std::string& text;
    Allocation* (*allocate)(size_t);
    std::unique_ptr<Module> module = std::make_unique<Module>();
    Function* function = nullptr;
    struct Slot {
        u32 offset, bytes;
    };
    struct Scope {
        u32 number;
        u32 frame;  // where the frame's end was before it
        std::map<std::string, u32> registers;
        std::map<std::string, Slot> slots;  // in the thread's frame
    };
    std::vector<Scope> scopes;
    u32 scope_number = 0, frame = 0;
    struct Jump {
        u32 at, entry;  // the instruction; which of its table
        std::string label;
        std::vector<u32> scopes;
        bool table;
    };
    std::map<std::pair<u32, std::string>, u32> labels;
    std::map<std::string, std::vector<std::string>> tables;
    std::vector<Jump> jumps;
    bool kernel = true;
    std::map<std::string, u32> params;
    std::map<std::string, bool> dynamic;  // extern shared arrays
    std::map<std::string, u32> module_shared;
    u32 module_shared_bytes = 0;
    u32 line = 1;

    [[noreturn]] void fail(const std::string& what) {
        throw Error("PTX line " + std::to_string(line) + ": " + what);
    }

    static std::string trim(const std::string& s) {
        size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
        return a == std::string::npos ? "" : s.substr(a, b - a + 1);
    }

    static std::vector<std::string> split(const std::string& s, char at) {
        std::vector<std::string> parts;
        std::string part;
        int depth = 0;
        for (char c : s) {
            if (c == '{' || c == '[' || c == '(') ++depth;
            if (c == '}' || c == ']' || c == ')') --depth;
            if (c == at && depth == 0) parts.push_back(trim(part)), part.clear();
            else part += c;
        }
        if (!trim(part).empty()) parts.push_back(trim(part));
        return parts;
    }

    void all() {
        std::string source = text;
        // Comments become blanks.
        for (size_t i = 0; i + 1 < source.size(); ++i) {
            if (source[i] == '/' && source[i + 1] == '/')
                while (i < source.size() && source[i] != '\n') source[i++] = ' ';
            else if (source[i] == '/' && source[i + 1] == '*')
                while (!(source[i] == '*' && source[i + 1] == '/')) {
                    if (source[i] != '\n') source[i] = ' ';
                    ++i;
                }
        }
        std::string now;
        int operands = 0;
        u32 started = 1;
        auto blank = [&] { return trim(now).empty(); };
        for (size_t i = 0; i < source.size(); ++i) {
            char c = source[i];
            if (c == '\n') {
                ++line;
                // Directives without a semicolon.
                std::string t = trim(now);
                if (t.rfind(".version", 0) == 0 || t.rfind(".address_size", 0) == 0) now.clear();
                if (t.rfind(".target", 0) == 0) module->target = trim(t.substr(7)), now.clear();
            }
            if (blank() && !isspace((unsigned char)c)) started = line;
            if (c == '{') {
                std::string t = trim(now);
                if (operands == 0 && t.empty()) {
                    open();
                    continue;
                }
                if (operands == 0 && (t.find(".entry") != std::string::npos || t.find(".func") != std::string::npos)) {
                    header(t);
                    now.clear();
                    continue;
                }
                ++operands;
            } else if (c == '}') {
                if (operands == 0) {
                    if (!blank()) fail("expected ; before }: " + now);
                    frame = scopes.back().frame;
                    scopes.pop_back();
                    if (scopes.empty()) end();
                    continue;
                }
                --operands;
            } else if (c == ';' && operands == 0) {
                u32 here = line;
                line = started;
                statement(trim(now));
                line = here;
                now.clear();
                continue;
            } else if (c == ':' && operands == 0 && function) {
                std::string t = trim(now);
                if (!t.empty() && t.find_first_of(" \t\n:.") == std::string::npos &&
                    (i + 1 >= source.size() || source[i + 1] != ':')) {
                    // Those of the compiler's are a function's, those of assembly in the source a block's.
                    last_label = t;
                    labels[{t[0] == '$' ? 0 : scopes.back().number, t}] = (u32)function->code.size();
                    now.clear();
                    continue;
                }
            }
            now += c;
        }
    }

    std::string last_label;

    void open() {
        scopes.emplace_back();
        scopes.back().number = ++scope_number;
        scopes.back().frame = frame;
    }

    // `.param .b32 NAME`, or `.param .align 8 .b8 NAME[24]`.
    void parameter(const std::string& p, std::string& name, u32& align, u32& size) {
        char param[1024], type[16];
        align = 1, size = 0;
        if (sscanf(p.c_str(), ".param .align %u .b8 %1023[^[][%u]", &align, param, &size) == 3) {
            name = trim(param);
            return;
        }
        u32 given = 0;
        if (sscanf(p.c_str(), ".param .align %u .%15s %1023s", &given, type, param) != 3 &&
            sscanf(p.c_str(), ".param .%15s %1023s", type, param) != 2)
            fail("parameter " + p);
        name = param;
        size = std::max((u32)atoi(type + 1) / 8, 1u), align = std::max(size, given);
        if (type[0] == 'p') fail("parameter " + p);
        if (size_t bracket = name.find('['); bracket != std::string::npos) {
            size *= (u32)atoi(name.c_str() + bracket + 1);
            name = name.substr(0, bracket);
        }
    }

    // Room in the thread's frame.
    Slot slot(u32 align, u32 bytes, u32 gap) {
        frame = (frame + align - 1) / align * align;
        Slot made{frame, bytes};
        frame += bytes;
        if (function->covered.size() < frame) function->covered.resize(frame);
        std::fill(function->covered.begin() + made.offset, function->covered.begin() + frame, 1);
        frame += gap;
        function->frame_bytes = std::max(function->frame_bytes, (frame + 15) / 16 * 16);
        function->covered.resize(function->frame_bytes);
        return made;
    }

    void header(const std::string& t) {
        kernel = t.find(".entry") != std::string::npos;
        size_t at = kernel ? t.find(".entry") + 6 : t.find(".func") + 5;
        frame = 0;
        scopes.clear();
        std::vector<std::string> formals;
        auto list_at = [&](size_t open) {
            size_t close = t.find(')', open);
            if (close == std::string::npos) fail("a header: " + t);
            for (auto& p : split(t.substr(open + 1, close - open - 1), ',')) formals.push_back(p);
            return close + 1;
        };
        at = t.find_first_not_of(" \t\r\n", at);
        if (!kernel && t[at] == '(') at = list_at(at);
        u32 results = (u32)formals.size();
        size_t open_at = t.find('(', at);
        std::string name = trim(t.substr(at, open_at == std::string::npos ? open_at : open_at - at));
        name = name.substr(0, name.find_first_of(" \t\r\n"));
        function = kernel ? &module->functions[name] : &module->called[name];
        function->name = name;
        function->results = results;
        if (open_at != std::string::npos) list_at(open_at);
        if (kernel) function->static_shared = module_shared_bytes;
        open();
        u32 offset = 0;
        for (auto& p : formals) {
            u32 align, size;
            std::string param;
            parameter(p, param, align, size);
            if (!kernel) {
                Slot s = slot(align, size, 0);
                scopes.back().slots[param] = s;
                function->parameters.emplace_back(s.offset, s.bytes);
                continue;
            }
            offset = (offset + align - 1) / align * align;
            params[param] = offset;
            function->parameters.emplace_back(offset, size);
            offset += size;
        }
        function->param_bytes = offset;
        auto number = [&](const char* what, u32 none) {
            size_t found = t.find(what);
            return found == std::string::npos ? none : (u32)atoi(t.c_str() + found + strlen(what));
        };
        function->max_threads = number(".maxntid", 1024);
        function->min_blocks = number(".minnctapersm", 0);
    }

    void end() {
        auto place = [&](const std::string& label, const std::vector<u32>& inside) {
            for (size_t i = inside.size() + 1; i-- > 0;) {
                auto found = labels.find({i ? inside[i - 1] : 0, label});
                if (found != labels.end()) return (i32)found->second;
            }
            fail("no label " + label);
        };
        for (auto& jump : jumps)
            if (jump.table) {
                auto found = tables.find(jump.label);
                if (found == tables.end()) fail("no table of places " + jump.label);
                for (auto& label : found->second)
                    function->code[jump.at].table.push_back(place(label, jump.scopes));
            } else function->code[jump.at].target = place(jump.label, jump.scopes);
        jumps.clear(), labels.clear(), params.clear(), tables.clear();
        Instruction ret;
        ret.op = RET;
        ret.line = line;
        function->code.push_back(ret);
        reuse_registers(*function);
        function = nullptr;
    }

    template <class F> static void each_register(Instruction& in, F&& f) {
        if (in.guard >= 0) {
            u32 guard = (u32)in.guard;
            f(guard, false);
            in.guard = (i32)guard;
        }
        for (auto& o : in.from_operands)
            if (o.kind == Operand::REG) f(o.reg, false);
        for (auto* o : {&in.base, &in.base2})
            if (o->kind == Operand::REG) f(o->reg, false);
        for (auto& to : in.to) f(to, true);
    }

    // Virtual registers that are never alive at once become one: a team of many blocks needs less
    // memory. One that may be read before it is written is alive from the beginning.
    static void reuse_registers(Function& f) {
        const u32 n = (u32)f.code.size(), words = (f.registers + 63) / 64;
        std::vector<u8> leads(n + 1, 0);
        leads[0] = 1;
        for (u32 i = 0; i < n; ++i) {
            const Instruction& in = f.code[i];
            if (in.op == BRA) leads[(u32)in.target] = 1;
            for (i32 to : in.table) leads[(u32)to] = 1;
            if (in.op == BRA || in.op == BRX || in.op == RET || in.op == EXIT || in.op == TRAP) leads[i + 1] = 1;
        }
        std::vector<u32> begins, block(n + 1, 0);
        for (u32 i = 0; i < n; ++i) {
            if (leads[i]) begins.push_back(i);
            block[i] = (u32)begins.size() - 1;
        }
        const u32 blocks = (u32)begins.size();
        begins.push_back(n);
        using Bits = std::vector<u64>;
        std::vector<Bits> uses(blocks, Bits(words)), defines(blocks, Bits(words)), in_(blocks, Bits(words)), out(blocks, Bits(words));
        auto bit = [](Bits& bits, u32 i) { bits[i / 64] |= 1ull << i % 64; };
        auto has = [](const Bits& bits, u32 i) { return bits[i / 64] >> i % 64 & 1; };
        std::vector<u32> first(f.registers, ~0u), last(f.registers, 0);
        auto touch = [&](u32 r, u32 at) { first[r] = std::min(first[r], at), last[r] = std::max(last[r], at); };
        for (u32 i = 0; i < n; ++i) {
            Instruction& in = f.code[i];
            u32 b = block[i];
            bool perhaps = in.guard >= 0;
            each_register(in, [&](u32& r, bool written) {
                touch(r, i);
                if ((!written || perhaps) && !has(defines[b], r)) bit(uses[b], r);
            });
            if (!perhaps)
                for (u32 to : in.to) bit(defines[b], to);
        }
        for (bool changed = true; changed;) {
            changed = false;
            for (u32 b = blocks; b-- > 0;) {
                const Instruction& in = f.code[begins[b + 1] - 1];
                auto from = [&](u32 next) {
                    for (u32 w = 0; w < words; ++w) out[b][w] |= in_[next][w];
                };
                bool goes_on = in.guard >= 0 || (in.op != BRA && in.op != BRX && in.op != RET && in.op != EXIT && in.op != TRAP);
                if (goes_on && b + 1 < blocks) from(b + 1);
                if (in.op == BRA) from(block[(u32)in.target]);
                for (i32 to : in.table) from(block[(u32)to]);
                for (u32 w = 0; w < words; ++w) {
                    u64 now = uses[b][w] | (out[b][w] & ~defines[b][w]);
                    changed |= now != in_[b][w];
                    in_[b][w] = now;
                }
            }
        }
        for (u32 b = 0; b < blocks; ++b)
            for (u32 w = 0; w < words; ++w) {
                for (u64 x = in_[b][w]; x; x &= x - 1) touch(w * 64 + (u32)__builtin_ctzll(x), begins[b]);
                for (u64 x = out[b][w]; x; x &= x - 1) touch(w * 64 + (u32)__builtin_ctzll(x), begins[b + 1] - 1);
            }
        std::vector<u32> order;
        for (u32 r = 0; r < f.registers; ++r)
            if (first[r] != ~0u) order.push_back(r);
        std::sort(order.begin(), order.end(), [&](u32 x, u32 y) { return std::pair(first[x], x) < std::pair(first[y], y); });
        std::vector<u32> place(f.registers, 0), free;
        std::multimap<u32, u32> busy;  // until when: which
        u32 count = 0;
        for (u32 r : order) {
            while (!busy.empty() && busy.begin()->first < first[r]) free.push_back(busy.begin()->second), busy.erase(busy.begin());
            if (free.empty()) free.push_back(count++);
            place[r] = free.back();
            free.pop_back();
            busy.emplace(last[r], place[r]);
        }
        for (auto& in : f.code) each_register(in, [&](u32& r, bool) { r = place[r]; });
        f.registers = count;
    }

    u32 reg(const std::string& name) {
        for (size_t i = scopes.size(); i-- > 0;) {
            auto found = scopes[i].registers.find(name);
            if (found != scopes[i].registers.end()) return found->second;
        }
        fail("no register " + name);
    }
    const Slot* find_slot(const std::string& name) {
        for (size_t i = scopes.size(); i-- > 0;) {
            auto found = scopes[i].slots.find(name);
            if (found != scopes[i].slots.end()) return &found->second;
        }
        return nullptr;
    }

    Operand operand(const std::string& s) {
        Operand o;
        if (s.empty()) fail("an empty operand");
        static const char* SPECIAL[] = {"%tid.x",    "%tid.y",   "%tid.z",   "%ctaid.x",
                                        "%ctaid.y",  "%ctaid.z", "%ntid.x",  "%nctaid.x",
                                        "%laneid",   "%warpid",  "%globaltimer", "%clock64",
                                        "%ntid.y",   "%ntid.z",  "%nctaid.y", "%nctaid.z",
                                        "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt",
                                        "%lanemask_ge", "%clock"};
        if (s[0] == '%') {
            for (u32 i = 0; i < sizeof SPECIAL / sizeof *SPECIAL; ++i)
                if (s == SPECIAL[i]) {
                    o.kind = Operand::SPECIAL, o.reg = i;
                    return o;
                }
            o.kind = Operand::REG, o.reg = reg(s);
            return o;
        }
        // A register of assembly in the source has any name.
        for (size_t i = scopes.size(); i-- > 0;)
            if (auto found = scopes[i].registers.find(s); found != scopes[i].registers.end()) {
                o.kind = Operand::REG, o.reg = found->second;
                return o;
            }
        o.kind = Operand::IMM;
        if (s.rfind("0f", 0) == 0 || s.rfind("0F", 0) == 0)
            o.imm = strtoull(s.c_str() + 2, nullptr, 16);
        else if (s.rfind("0d", 0) == 0 || s.rfind("0D", 0) == 0)
            o.imm = strtoull(s.c_str() + 2, nullptr, 16);
        else if (isdigit((unsigned char)s[0]) || s[0] == '-')
            o.imm = s[0] == '-' ? (u64)strtoll(s.c_str(), nullptr, 0) : strtoull(s.c_str(), nullptr, 0);
        else {
            // A symbol, perhaps further.
            size_t plus = s.find('+');
            std::string name = s.substr(0, plus);
            i64 offset = plus == std::string::npos ? 0 : strtoll(s.c_str() + plus + 1, nullptr, 0);
            if (const Slot* found = find_slot(name)) {
                o.imm = found->offset, o.frame = true;
            } else o.imm = symbol(name, &o.dynamic);
            o.imm += (u64)offset;
        }
        return o;
    }

    u64 symbol(const std::string& name, bool* is_dynamic) {
        if (auto found = params.find(name); found != params.end()) return found->second;
        if (auto found = module->globals.find(name); found != module->globals.end())
            return found->second;
        if (function) {
            if (auto found = function->shared_symbols.find(name);
                found != function->shared_symbols.end())
                return found->second;
            if (auto found = module_shared.find(name); found != module_shared.end()) return found->second;
            if (dynamic.count(name)) {
                function->dynamic_shared = true;
                // Behind what is static, when that is known.
                *is_dynamic = true;
                return 0;
            }
        }
        fail("no symbol " + name);
    }

    void variable(const std::string& t) {
        // .global .align 4 .b8 NAME[64] = {...}, or .f32 NAME = 0f..., or .shared, or .extern .shared
        bool shared = t.find(".shared") != std::string::npos;
        bool is_extern = t.rfind(".extern", 0) == 0;
        size_t equals = t.find('=');
        std::string head = trim(t.substr(0, equals));
        u32 align = 4;
        if (size_t at = head.find(".align"); at != std::string::npos) align = (u32)atoi(head.c_str() + at + 6);
        size_t space = head.find_last_of(" \t");
        std::string name = head.substr(space + 1), before = trim(head.substr(0, space));
        std::string type = before.substr(before.find_last_of('.') + 1);
        u32 width = (u32)atoi(type.c_str() + 1) / 8;
        size_t bracket = name.find('[');
        u32 count = 1;
        if (bracket != std::string::npos) {
            count = (u32)atoi(name.c_str() + bracket + 1);
            name = name.substr(0, bracket);
        }
        if (t.rfind(".local", 0) == 0) {
            if (!function || equals != std::string::npos) fail("a directive: " + t);
            scopes.back().slots[name] = slot(std::max(align, width), width * count, 16);
            return;
        }
        if (shared) {
            if (is_extern) {
                dynamic[name] = true;
                return;
            }
            if (!function || !kernel) {
                for (auto& [other, f] : module->functions)
                    fail("shared memory of a module behind the kernel " + other);
                u32 at = (module_shared_bytes + align - 1) / align * align;
                module_shared[name] = at;
                module_shared_bytes = at + width * count;
                return;
            }
            u32 at = (function->static_shared + align - 1) / align * align;
            function->shared_symbols[name] = at;
            function->static_shared = at + width * count;
            return;
        }
        Allocation* memory = allocate((size_t)width * count);
        module->globals[name] = memory->address;
        std::vector<u64> values;
        if (equals != std::string::npos) {
            std::string list = trim(t.substr(equals + 1));
            if (list[0] == '{') list = list.substr(1, list.size() - 2);
            for (auto& v : split(list, ',')) values.push_back(operand(v).imm);
        }
        values.resize(count, 0);
        for (u32 i = 0; i < count; ++i) memcpy(memory->data + i * width, &values[i], width);
        for (size_t w = 0; w * 4 < (size_t)width * count; ++w) memory->shadow[w].written = 1;
    }

    void statement(std::string t) {
        if (t.empty()) return;
        if (t.rfind(".reg", 0) == 0) {
            // .reg .pred %p<230>, or .reg .pred %p1
            auto words = split(t.substr(4), ' ');
            std::string name;
            for (auto& w : split(t, '\t'))
                for (auto& v : split(w, ' ')) name = v;
            size_t angle = name.find('<');
            u32 count = angle == std::string::npos ? 1 : (u32)atoi(name.c_str() + angle + 1);
            std::string stem = name.substr(0, angle);
            for (u32 i = 0; i < count; ++i) {
                std::string own = angle == std::string::npos ? stem : stem + std::to_string(i);
                scopes.back().registers[own] = function->registers++;
            }
            return;
        }
        if (t.rfind(".global", 0) == 0 || t.rfind(".shared", 0) == 0 || t.rfind(".extern", 0) == 0 ||
            t.rfind(".const", 0) == 0 || t.rfind(".visible .global", 0) == 0 || t.rfind(".local", 0) == 0) {
            if (t.find(".func") != std::string::npos) return;
            return variable(t);
        }
        // A function that is said to be there.
        if (!function && t.find(".func") != std::string::npos) return;
        if (t.rfind(".param", 0) == 0 && function) {
            std::string name;
            u32 align, size;
            parameter(t, name, align, size);
            scopes.back().slots[name] = slot(align, size, 0);
            return;
        }
        if (t.rfind(".branchtargets", 0) == 0 && function) {
            tables[last_label] = split(t.substr(14), ',');
            return;
        }
        if (t.rfind(".pragma", 0) == 0 || t.rfind(".loc", 0) == 0 || t.rfind(".file", 0) == 0) return;
        if (t[0] == '.') fail("a directive: " + t);
        instruction(t);
    }

    static bool type_of(const std::string& s, Type& type) {
        static const std::map<std::string, Type> TYPES = {
            {"pred", PRED}, {"b8", B8},   {"u8", U8},   {"s8", S8},   {"b16", B16},
            {"u16", U16},   {"s16", S16}, {"b32", B32}, {"u32", U32}, {"s32", S32},
            {"f32", F32},   {"b64", B64}, {"u64", U64}, {"s64", S64}, {"f64", F64}};
        auto found = TYPES.find(s);
        if (found == TYPES.end()) return false;
        type = found->second;
        return true;
    }

    void address(const std::string& s, Operand& to, i64& offset) {
        if (s[0] != '[') fail("expected an address: " + s);
        std::string inner = trim(s.substr(1, s.size() - 2));
        size_t plus = inner.find('+');
        std::string base = trim(inner.substr(0, plus));
        offset = plus == std::string::npos ? 0 : strtoll(inner.c_str() + plus + 1, nullptr, 0);
        to = operand(base);
    }
    void address(const std::string& s, Instruction& in) { address(s, in.base, in.offset); }

    std::vector<std::string> list(const std::string& s) {
        if (s[0] != '{') return {s};
        return split(s.substr(1, s.size() - 2), ',');
    }

    void instruction(std::string t) {
        Instruction in;
        in.line = line;
        std::string whole = t;
        if (t[0] == '@') {
            size_t space = t.find_first_of(" \t");
            std::string guard = t.substr(1, space - 1);
            if (guard[0] == '!') in.negate = true, guard = guard.substr(1);
            in.guard = (i32)reg(guard);
            t = trim(t.substr(space));
        }
        size_t space = t.find_first_of(" \t");
        std::string name = t.substr(0, space);
        std::string rest = space == std::string::npos ? "" : trim(t.substr(space));
        auto args = split(rest, ',');
        for (size_t at; (at = name.find("shared::cta")) != std::string::npos;) name.erase(at + 6, 5);
        auto words = split(name, '.');
        const std::string& op = words[0];
        std::vector<Type> types;
        std::vector<std::string> others;
        for (size_t i = 1; i < words.size(); ++i) {
            Type type;
            if (type_of(words[i], type)) types.push_back(type);
            else others.push_back(words[i]);
        }
        auto has = [&](const char* what) {
            for (auto& o : others)
                if (o == what) return true;
            return false;
        };
        auto refuse = [&] { fail("unknown: " + whole); };
        if (!types.empty()) in.type = types[0];
        in.from = types.empty() ? B32 : types.back();
        auto simple = [&](Op code, size_t operands) {
            in.op = code;
            if (args.size() != operands + 1) refuse();
            in.to.push_back(reg(args[0]));
            for (size_t i = 1; i < args.size(); ++i) in.from_operands.push_back(operand(args[i]));
        };
        bool real = in.type == F32 || in.type == F64, rounds = has("rn") || !real;
        bool approximate = op == "ex2" || op == "rcp" || op == "tanh";
        bool flushes = approximate || (op == "mul" && in.type == F32);
        if (has("full") || has("sat") || (has("ftz") && !flushes) || (has("approx") && !approximate)) refuse();
        for (auto& type : types)
            if (type == F64 && op != "mov" && op != "add" && op != "sub" && op != "mul" && op != "div" && op != "fma" &&
                op != "sqrt" && op != "rcp" && op != "neg" && op != "abs" && op != "min" && op != "max" && op != "setp" &&
                op != "selp" && op != "cvt" && op != "ld" && op != "st")
                refuse();
        auto shared_only = [&](const char* what) {
            if (!has(what)) refuse();
            in.space = SHARED;
        };
        if (op == "mov") {
            auto to = list(args[0]), from = list(args[1]);
            if (to.size() > 1) {
                in.op = UNPACK;
                for (auto& r : to) in.to.push_back(reg(r));
                in.from_operands.push_back(operand(from[0]));
            } else if (from.size() > 1) {
                in.op = PACK;
                in.to.push_back(reg(to[0]));
                for (auto& o : from) in.from_operands.push_back(operand(o));
            } else simple(MOV, 1);
        } else if (op == "add" || op == "sub") {
            if (!rounds) refuse();
            simple(op == "add" ? ADD : SUB, 2);
        } else if (op == "mul") {
            if (real) {
                if (!rounds) refuse();
                simple(MUL_F, 2);
                in.cg = has("ftz");
            } else simple(has("lo") ? MUL_LO : has("hi") ? MUL_HI : MUL_WIDE, 2);
        } else if (op == "mad") {
            if (real) refuse();
            simple(has("lo") ? MAD_LO : MAD_WIDE, 3);
            if (has("hi")) refuse();
        } else if (op == "div") {
            if (!rounds) refuse();
            simple(DIV, 2);
        } else if (op == "rem") simple(REM, 2);
        else if (op == "fma") {
            if (!has("rn")) refuse();
            simple(FMA, 3);
        } else if (op == "and") simple(AND, 2);
        else if (op == "or") simple(OR, 2);
        else if (op == "xor") simple(XOR, 2);
        else if (op == "not") simple(NOT, 1);
        else if (op == "shl") simple(SHL, 2);
        else if (op == "shr") simple(SHR, 2);
        else if (op == "sqrt" || op == "rcp") {
            if (!has("rn") && !(op == "rcp" && has("approx") && in.type == F32)) refuse();
            simple(op == "sqrt" ? SQRT : RCP, 1);
            in.cg = has("ftz");
        } else if (op == "ex2" || op == "tanh") {
            if (!has("approx") || in.type != F32) refuse();
            simple(op == "ex2" ? EX2 : TANH, 1);
            in.cg = has("ftz");
        }
        else if (op == "neg") simple(NEG, 1);
        else if (op == "abs") simple(ABS, 1);
        else if (op == "min" || op == "max") simple(op == "min" ? MIN : MAX, 2);
        else if (op == "prmt") simple(PRMT, 3);
        else if (op == "popc" || op == "clz") simple(op == "popc" ? POPC : CLZ, 1);
        else if (op == "bfi") simple(BFI, 4);
        else if (op == "bfe") simple(BFE, 3);
        else if (op == "shf") {
            simple(SHF, 3);
            in.cg = has("l"), in.nc = has("wrap");
        }
        else if (op == "setp") {
            static const std::map<std::string, Cmp> CMPS = {
                {"eq", EQ},   {"ne", NE},   {"lt", LT},   {"le", LE},   {"gt", GT},   {"ge", GE},
                {"lo", LT},   {"ls", LE},   {"hi", GT},   {"hs", GE},   {"equ", EQU}, {"neu", NEU},
                {"ltu", LTU}, {"leu", LEU}, {"gtu", GTU}, {"geu", GEU}, {"num", NUM}, {"nan", NAN_}};
            auto found = CMPS.find(others[0]);
            if (found == CMPS.end()) refuse();
            in.cmp = found->second;
            size_t operands = 2;
            if (others.size() > 1) {
                in.combine = others[1] == "and" ? C_AND : others[1] == "or" ? C_OR : C_XOR;
                operands = 3;
                if (args.size() == 4 && args[3][0] == '!') {
                    in.combine_negated = true;
                    args[3] = args[3].substr(1);
                }
            }
            if (args.size() && args[0].find('|') != std::string::npos) refuse();
            simple(SETP, operands);
        } else if (op == "selp") simple(SELP, 3);
        else if (op == "cvt") {
            if (has("tf32")) {
                if (!has("rna") || in.type != F32) refuse();
                simple(CVT_TF32, 1);
            } else if (name == "cvt.rn.bf16x2.f32") {
                simple(CVT_BF16X2, 2);
            } else if (name == "cvt.rn.bf16.f32") {
                simple(CVT_BF16, 1);
            } else {
                if (types.size() != 2) refuse();
                simple(CVT, 1);
                bool to_float = real, from_float = in.from == F32 || in.from == F64;
                if (to_float && !from_float && !has("rn")) refuse();
                if (from_float && !to_float && !has("rzi")) refuse();
                if (from_float && to_float) {
                    if (in.type == in.from || (in.type == F32) != has("rn")) refuse();
                }
                for (auto& o : others)
                    if (o != "rn" && o != "rzi") refuse();
            }
        } else if (op == "cvta") {
            in.space = has("shared") ? SHARED : has("param") ? PARAM : has("global") ? GLOBAL
                       : has("local") ? LOCAL : GENERIC;
            in.negate = in.guard >= 0 && in.negate;
            in.cg = has("to");
            if (in.space == GENERIC) refuse();
            simple(CVTA, 1);
        } else if (op == "ld" || op == "st") {
            bool load = op == "ld";
            in.op = load ? LD : ST;
            in.space = has("global") ? GLOBAL : has("shared") ? SHARED : has("param") ? PARAM
                       : has("local") ? LOCAL : GENERIC;
            if (has("const")) refuse();
            in.vector = has("v4") ? 4 : has("v2") ? 2 : 1;
            in.nc = has("nc"), in.cg = has("cg");
            in.sem = has("acquire") ? ACQUIRE : has("release") ? RELEASE : has("relaxed") ? RELAXED
                     : has("volatile") ? VOLATILE : WEAK;
            in.system = has("sys") || has("volatile");
            for (auto& o : others)
                if (o != "global" && o != "shared" && o != "param" && o != "v2" && o != "v4" &&
                    o != "nc" && o != "cg" && o != "acquire" && o != "release" && o != "relaxed" &&
                    o != "volatile" && o != "gpu" && o != "sys" && o != "weak" && o != "local" && o != "ca" &&
                    o != "L1::no_allocate" && o != "L1::evict_last" && o != "L1::evict_first" && o != "L2::128B" &&
                    o != "L2::256B" && o != "L2::64B")
                    refuse();
            if ((in.sem == RELAXED || in.sem == ACQUIRE || in.sem == RELEASE) && !has("gpu") && !has("sys")) refuse();
            if (in.sem == (load ? RELEASE : ACQUIRE)) refuse();
            if (load) {
                for (auto& r : list(args[0])) in.to.push_back(reg(r));
                address(args[1], in);
            } else {
                address(args[0], in);
                for (auto& o : list(args[1])) in.from_operands.push_back(operand(o));
            }
            if ((load ? in.to.size() : in.from_operands.size()) != in.vector) refuse();
            if (in.space == PARAM) {
                // A device function's parameters, and those of a call, are in the thread's frame.
                if (in.base.frame) in.space = LOCAL;
                else if (!load) refuse();
            }
        } else if (op == "atom" || op == "red") {
            static const std::map<std::string, Sub> SUBS = {
                {"add", A_ADD}, {"min", A_MIN}, {"max", A_MAX}, {"and", A_AND}, {"or", A_OR},
                {"xor", A_XOR}, {"exch", A_EXCH}, {"cas", A_CAS}};
            in.op = ATOM;
            in.space = has("global") ? GLOBAL : has("shared") ? SHARED : GENERIC;
            in.sem = has("acq_rel") ? ACQ_REL : has("acquire") ? ACQUIRE : has("release") ? RELEASE : RELAXED;
            in.system = has("sys");
            bool known = false;
            for (auto& o : others) {
                if (auto found = SUBS.find(o); found != SUBS.end()) in.sub = found->second, known = true;
                else if (o != "global" && o != "shared" && o != "acq_rel" && o != "acquire" && o != "release" &&
                         o != "relaxed" && o != "gpu" && o != "sys")
                    refuse();
            }
            bool returns = op == "atom";
            if (!known || types.size() != 1 || in.type < B32 || (real && (in.type == F64 || in.sub != A_ADD)) ||
                (!returns && (in.sub == A_CAS || in.sub == A_EXCH || in.sem == ACQ_REL || in.sem == ACQUIRE)) ||
                args.size() != (returns ? 3u : 2u) + (in.sub == A_CAS))
                refuse();
            if (returns && args[0] != "_") in.to.push_back(reg(args[0]));
            address(args[returns], in);
            for (size_t i = returns + 1u; i < args.size(); ++i) in.from_operands.push_back(operand(args[i]));
        } else if (op == "bra") {
            in.op = BRA;
            jump(args[0], false);
        } else if (op == "brx") {
            if (!has("idx") || args.size() != 2) refuse();
            in.op = BRX;
            in.from_operands.push_back(operand(args[0]));
            jump(args[1], true);
        } else if (op == "call") {
            for (auto& o : others)
                if (o != "uni") refuse();
            in.op = CALL;
            CallSite call;
            std::vector<std::string> results, given;
            auto inside = [&](const std::string& s) { return split(s.substr(1, s.size() - 2), ','); };
            size_t at = 0;
            if (args[0][0] == '(') results = inside(args[0]), at = 1;
            call.name = args.at(at);
            if (call.name[0] == '%') fail("a call by pointer is not known: " + whole);
            if (args.size() > at + 1) given = inside(args[at + 1]);
            if (args.size() > at + 2) fail("a call by pointer is not known: " + whole);
            for (bool in_ : {false, true})
                for (auto& p : in_ ? given : results) {
                    const Slot* s = find_slot(p);
                    if (!s) fail("no parameter " + p + ": " + whole);
                    (in_ ? call.in : call.out).push_back(Passed{s->offset, 0, s->bytes});
                }
            in.target = (i32)function->calls.size();
            function->calls.push_back(call);
        } else if (op == "bar" && has("warp")) {
            if (!has("sync") || args.size() != 1) refuse();
            in.op = WARP, in.sub = W_SYNC;
            in.from_operands.push_back(operand(args[0]));
        } else if (op == "bar" || op == "barrier") {
            for (auto& o : others)
                if (o != "sync" && o != "arrive" && o != "red" && o != "and" && o != "or" && o != "popc" && o != "cta" &&
                    o != "aligned")
                    refuse();
            if (has("red")) {
                in.op = BAR_RED;
                in.sub = has("popc") ? R_POPC : has("or") ? R_OR : R_AND;
                if (args.size() != 3 || args[1] != "0") refuse();
                in.to.push_back(reg(args[0]));
                if (args[2][0] == '!') in.combine_negated = true, args[2] = args[2].substr(1);
                in.from_operands.push_back(operand(args[2]));
            } else {
                if (has("arrive") ? args.size() != 2 : !has("sync") || args.empty() || args.size() > 2) refuse();
                in.op = BAR;
                in.sub = has("arrive") ? B_ARRIVE : B_SYNC;
                for (auto& a : args) in.from_operands.push_back(operand(a));
            }
        } else if (op == "membar" || op == "fence") {
            in.op = FENCE;
            in.system = has("sys");
            in.cg = has("cta");
            for (auto& o : others)
                if (o != "sys" && o != "gl" && o != "gpu" && o != "cta" && o != "acq_rel" && o != "sc" && o != "proxy" &&
                    o != "async" && o != "mbarrier_init" && o != "release" && o != "cluster")
                    refuse();
            if (has("proxy") || has("mbarrier_init")) in.op = NOP;
        } else if (op == "ret") in.op = RET;
        else if (op == "exit") in.op = EXIT;
        else if (op == "trap") in.op = TRAP;
        else if (op == "nanosleep" || op == "prefetch") in.op = NOP;
        else if (op == "brev") simple(BREV, 1);
        else if (op == "mma") {
            bool bf16 = name == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
            if (name != "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" && !bf16) refuse();
            in.op = WARP, in.sub = bf16 ? W_BF16 : W_TF32;
            for (auto& r : list(args[0])) in.to.push_back(reg(r));
            for (int i = 1; i < 4; ++i)
                for (auto& o : list(args[i])) in.from_operands.push_back(operand(o));
            if (in.from_operands.size() != 10 || in.to.size() != 4) refuse();
        } else if (op == "ldmatrix") {
            if (!has("sync") || !has("aligned") || !has("m8n8") || types.size() != 1 || in.type != B16) refuse();
            shared_only("shared");
            in.op = WARP, in.sub = W_LDMATRIX;
            in.vector = has("x4") ? 4 : has("x2") ? 2 : 1;
            in.cg = has("trans");
            for (auto& r : list(args[0])) in.to.push_back(reg(r));
            if (in.to.size() != in.vector) refuse();
            address(args[1], in);
        } else if (op == "shfl") {
            if (!has("sync") || types.size() != 1 || args.size() != 5) refuse();
            in.op = WARP;
            in.sub = has("idx") ? W_IDX : has("up") ? W_UP : has("down") ? W_DOWN : W_BFLY;
            if (in.sub == W_BFLY && !has("bfly")) refuse();
            size_t bar = args[0].find('|');
            in.to.push_back(reg(trim(args[0].substr(0, bar))));
            if (bar != std::string::npos) in.to.push_back(reg(trim(args[0].substr(bar + 1))));
            for (size_t i = 1; i < 5; ++i) in.from_operands.push_back(operand(args[i]));
        } else if (op == "vote") {
            if (!has("sync") || args.size() != 3) refuse();
            in.op = WARP;
            in.sub = has("ballot") ? W_BALLOT : has("all") ? W_ALL : has("any") ? W_ANY : W_UNI;
            if (in.sub == W_UNI && !has("uni")) refuse();
            in.to.push_back(reg(args[0]));
            if (args[1][0] == '!') in.combine_negated = true, args[1] = args[1].substr(1);
            for (size_t i = 1; i < 3; ++i) in.from_operands.push_back(operand(args[i]));
        } else if (op == "activemask") {
            in.op = WARP, in.sub = W_ACTIVE;
            in.to.push_back(reg(args[0]));
        } else if (op == "cp") {
            if (!has("async") || has("bulk")) refuse();
            if (has("commit_group")) in.op = COPY_COMMIT;
            else if (has("wait_all")) in.op = COPY_WAIT, in.cg = true;
            else if (has("wait_group")) in.op = COPY_WAIT, in.bytes = (u32)operand(args[0]).imm;
            else if (has("mbarrier")) {
                if (!has("arrive") || !has("noinc")) refuse();
                in.op = COPY_ARRIVE;
                in.space = has("shared") ? SHARED : GENERIC;
                address(args[0], in);
            } else {
                in.op = COPY;
                for (auto& o : others)
                    if (o != "async" && o != "ca" && o != "cg" && o != "shared" && o != "global" && o != "L2::64B" &&
                        o != "L2::128B" && o != "L2::256B")
                        refuse();
                shared_only("shared");
                if (!has("global") || args.size() < 3 || args.size() > 4) refuse();
                address(args[0], in);
                address(args[1], in.base2, in.offset2);
                in.bytes = (u32)operand(args[2]).imm;
                if (has("cg") ? in.bytes != 16 : in.bytes != 4 && in.bytes != 8 && in.bytes != 16) refuse();
                if (args.size() == 4) in.from_operands.push_back(operand(args[3]));
            }
        } else if (op == "mbarrier") {
            for (auto& o : others)
                if (o != "init" && o != "inval" && o != "arrive" && o != "try_wait" && o != "test_wait" && o != "parity" &&
                    o != "shared" && o != "release" && o != "acquire" && o != "cta")
                    refuse();
            in.op = MBAR;
            in.space = has("shared") ? SHARED : GENERIC;
            size_t at = 0;
            in.sub = has("init") ? M_INIT : has("inval") ? M_INVAL : has("arrive") ? M_ARRIVE
                     : has("parity") ? M_WAIT_PARITY : M_WAIT;
            if (in.sub >= M_ARRIVE) {
                if (args[0] != "_") in.to.push_back(reg(args[0]));
                at = 1;
            }
            in.cg = has("try_wait");
            address(args.at(at), in);
            for (size_t i = at + 1; i < args.size(); ++i) in.from_operands.push_back(operand(args[i]));
            if (in.from_operands.size() > (in.sub == M_INVAL ? 0u : in.sub == M_WAIT || in.sub == M_WAIT_PARITY ? 2u : 1u) ||
                ((in.sub == M_INIT || in.sub == M_WAIT || in.sub == M_WAIT_PARITY) && in.from_operands.empty()))
                refuse();
            if (in.sub >= M_WAIT && in.from_operands.size() > 1) in.from_operands.resize(1);
        } else refuse();
        if (in.op != LD && in.op != ST)
            for (auto& o : in.from_operands)
                if (o.frame && in.op != MOV && in.op != ADD) refuse();
        function->code.push_back(in);
    }

    void jump(const std::string& label, bool table) {
        std::vector<u32> inside;
        for (auto& s : scopes) inside.push_back(s.number);
        jumps.push_back(Jump{(u32)function->code.size(), 0, label, inside, table});
    }

    // Puts a kernel and what it calls together: registers and frames of functions that are never
    // active at once may be the same, as nothing may call itself.
    void link(Function& kernel) {
        struct Placed {
            u32 registers = 0, frame = 0, at = 0;
        };
        std::map<std::string, Placed> placed;
        std::vector<std::string> active, order;
        auto callee = [&](const std::string& name) -> Function& {
            auto found = module->called.find(name);
            if (found == module->called.end()) throw Error("PTX: no function " + name + " to be called");
            return found->second;
        };
        auto visit = [&](auto&& self, Function& f, u32 registers, u32 frame) -> void {
            for (auto& name : active)
                if (name == f.name) throw Error("PTX: " + name + " calls itself, which is not known here");
            active.push_back(f.name);
            for (auto& call : f.calls) {
                Function& g = callee(call.name);
                if (g.parameters.size() != call.in.size() + call.out.size() || g.results != call.out.size())
                    throw Error("PTX: a call of " + call.name + " with other parameters");
                bool fresh = !placed.count(call.name);
                Placed& p = placed[call.name];
                if (fresh) order.push_back(call.name);
                u32 r = std::max(p.registers, registers + f.registers);
                u32 w = std::max(p.frame, frame + f.frame_bytes);
                if (fresh || r > p.registers || w > p.frame) {
                    p.registers = r, p.frame = w;
                    self(self, g, r, w);
                }
            }
            active.pop_back();
        };
        visit(visit, kernel, 0, 0);
        u32 at = (u32)kernel.code.size(), registers = kernel.registers, frame = kernel.frame_bytes;
        for (auto& name : order) {
            Function& g = callee(name);
            Placed& p = placed[name];
            p.at = at;
            at += (u32)g.code.size();
            registers = std::max(registers, p.registers + g.registers);
            frame = std::max(frame, p.frame + g.frame_bytes);
            kernel.dynamic_shared |= g.dynamic_shared;
        }
        // Dynamic shared memory begins behind what is static.
        kernel.static_shared = (kernel.static_shared + 15) / 16 * 16;
        auto resolve = [&](Function& f, const Placed& own) {
            for (auto& call : f.calls) {
                Function& g = callee(call.name);
                const Placed& p = placed[call.name];
                call.target = p.at, call.first_register = p.registers, call.registers = g.registers;
                call.frame = p.frame, call.frame_bytes = g.frame_bytes, call.covered = &g.covered;
                for (size_t i = 0; i < g.parameters.size(); ++i) {
                    Passed& passed = i < g.results ? call.out[i] : call.in[i - g.results];
                    if (passed.bytes != g.parameters[i].second)
                        throw Error("PTX: a call of " + call.name + " with a parameter of another size");
                    passed.caller += own.frame;
                    passed.callee = g.parameters[i].first + p.frame;
                }
            }
        };
        auto shift = [&](Instruction in, const Placed& own, u32 calls) {
            auto move = [&](Operand& o) {
                if (o.kind == Operand::REG) o.reg += own.registers;
                if (o.frame) o.imm += own.frame, o.frame = false;
                if (o.dynamic) o.imm += kernel.static_shared, o.dynamic = false;
            };
            if (in.guard >= 0) in.guard += (i32)own.registers;
            for (auto& to : in.to) to += own.registers;
            for (auto& o : in.from_operands) move(o);
            move(in.base), move(in.base2);
            if (in.op == CALL) in.target += (i32)calls;
            else if (in.target >= 0) in.target += (i32)own.at;
            for (auto& place : in.table) place += (i32)own.at;
            return in;
        };
        // Calls are copied, as each kernel places them in its own way.
        std::map<std::string, std::vector<CallSite>> before;
        for (auto& name : order) before[name] = callee(name).calls;
        resolve(kernel, Placed());
        for (auto& in : kernel.code) in = shift(in, Placed(), 0);
        for (auto& name : order) {
            Function& g = callee(name);
            resolve(g, placed[name]);
            u32 calls = (u32)kernel.calls.size();
            for (auto& in : g.code) kernel.code.push_back(shift(in, placed[name], calls));
            kernel.calls.insert(kernel.calls.end(), g.calls.begin(), g.calls.end());
            g.calls = before[name];
        }
        kernel.registers = registers;
        kernel.frame_bytes = frame;
    }
};
}  // namespace

std::unique_ptr<Module> read(const std::string& text, Allocation* (*allocate)(size_t)) {
    Reader reader{text, allocate};
    unsigned registers = 0;
    int elf = 0;
    if (sscanf(text.c_str(), "//FAKE-CUBIN elf=%d registers=%u", &elf, &registers) != 2)
        throw Error("no module of the fake compiler's");
    reader.module->machine_registers = registers;
    size_t at = text.find("//OPTIONS ");
    if (at != std::string::npos)
        reader.module->options = text.substr(at + 10, text.find('\n', at) - at - 10);
    size_t begin = 0;
    while (begin <= text.size()) {
        size_t end = text.find('\n', begin);
        if (end == std::string::npos) end = text.size();
        reader.module->lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    reader.all();
    for (auto& [name, function] : reader.module->functions) reader.link(function);
    return std::move(reader.module);
}
}  // namespace ptx
