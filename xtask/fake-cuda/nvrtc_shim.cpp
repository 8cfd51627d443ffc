// SPDX-License-Identifier: MIT OR Apache-2.0
// A library in front of NVIDIA's compiler, NVRTC: everything is passed on to the real one, but in
// place of machine code it hands out the PTX that the machine code was made of, behind a line that
// says what the assembler says of it. The fake driver (`driver.cpp`) takes that for a module.
//
// FAKE_CUDA_NVRTC names the real library, libnvrtc.so.13; FAKE_CUDA_PTX a folder where a copy of
// each PTX is left, to be read.
#include <dirent.h>
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {
void* real() {
    static void* library = [] {
        const char* path = getenv("FAKE_CUDA_NVRTC");
        if (!path) {
            fprintf(stderr, "fake nvrtc: FAKE_CUDA_NVRTC must name the real libnvrtc.so.13\n");
            abort();
        }
        // The compiler looks for this one by its bare name.
        std::string folder = path, name = "libnvrtc-builtins.so.";
        folder = folder.substr(0, folder.rfind('/') + 1);
        if (DIR* files = opendir(folder.c_str())) {
            while (dirent* file = readdir(files))
                if (!strncmp(file->d_name, name.c_str(), name.size()))
                    dlopen((folder + file->d_name).c_str(), RTLD_NOW | RTLD_GLOBAL);
            closedir(files);
        }
        void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "fake nvrtc: %s\n", dlerror());
            abort();
        }
        return library;
    }();
    return library;
}
template <class F> F* function(const char* name) {
    void* found = dlsym(real(), name);
    if (!found) {
        fprintf(stderr, "fake nvrtc: %s has no %s\n", getenv("FAKE_CUDA_NVRTC"), name);
        abort();
    }
    return (F*)found;
}

std::mutex guard;
std::map<void*, std::string> options_of;

std::string module_of(void* program) {
    size_t size = 0;
    if (function<int(void*, size_t*)>("nvrtcGetProgramLogSize")(program, &size)) return "";
    std::string log(size, 0);
    function<int(void*, char*)>("nvrtcGetProgramLog")(program, log.data());
    if (function<int(void*, size_t*)>("nvrtcGetCUBINSize")(program, &size)) return "";
    std::string cubin(size, 0);
    if (function<int(void*, char*)>("nvrtcGetCUBIN")(program, cubin.data())) return "";
    bool elf = cubin.size() > 64 && memcmp(cubin.data(), "\177ELF", 4) == 0;
    if (function<int(void*, size_t*)>("nvrtcGetPTXSize")(program, &size)) return "";
    std::string ptx(size, 0);
    if (function<int(void*, char*)>("nvrtcGetPTX")(program, ptx.data())) return "";
    while (!ptx.empty() && ptx.back() == 0) ptx.pop_back();
    auto number = [&](const char* before, const char* behind) {
        size_t at = log.find(before);
        if (at == std::string::npos) return 0;
        size_t end = log.find(behind, at);
        return end == std::string::npos ? 0 : atoi(log.c_str() + at + strlen(before));
    };
    int registers = number("Used ", " registers");
    char line[256];
    snprintf(line, sizeof line, "//FAKE-CUBIN elf=%d registers=%d\n", elf, registers);
    std::string options;
    {
        std::lock_guard<std::mutex> lock(guard);
        options = options_of[program];
    }
    return line + ("//OPTIONS " + options + "\n") + ptx + '\0';
}
}  // namespace

extern "C" {
const char* nvrtcGetErrorString(int result) {
    return function<const char*(int)>("nvrtcGetErrorString")(result);
}
int nvrtcVersion(int* major, int* minor) {
    return function<int(int*, int*)>("nvrtcVersion")(major, minor);
}
int nvrtcCreateProgram(void** program, const char* source, const char* name, int count,
                       const char* const* headers, const char* const* names) {
    return function<int(void**, const char*, const char*, int, const char* const*,
                        const char* const*)>("nvrtcCreateProgram")(program, source, name, count,
                                                                   headers, names);
}
int nvrtcDestroyProgram(void** program) {
    return function<int(void**)>("nvrtcDestroyProgram")(program);
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
    std::string all;
    for (int i = 0; i < count; ++i) all += std::string(options[i]) + " ";
    {
        std::lock_guard<std::mutex> lock(guard);
        options_of[program] = all;
    }
    return function<int(void*, int, const char* const*)>("nvrtcCompileProgram")(program, count,
                                                                                options);
}
int nvrtcGetProgramLogSize(void* program, size_t* size) {
    return function<int(void*, size_t*)>("nvrtcGetProgramLogSize")(program, size);
}
int nvrtcGetProgramLog(void* program, char* log) {
    return function<int(void*, char*)>("nvrtcGetProgramLog")(program, log);
}
int nvrtcGetPTXSize(void* program, size_t* size) {
    return function<int(void*, size_t*)>("nvrtcGetPTXSize")(program, size);
}
int nvrtcGetPTX(void* program, char* ptx) {
    return function<int(void*, char*)>("nvrtcGetPTX")(program, ptx);
}
int nvrtcGetCUBINSize(void* program, size_t* size) {
    std::string module = module_of(program);
    if (module.empty()) return 4;
    *size = module.size();
    return 0;
}
int nvrtcGetCUBIN(void* program, char* code) {
    std::string module = module_of(program);
    if (module.empty()) return 4;
    memcpy(code, module.data(), module.size());
    if (const char* folder = getenv("FAKE_CUDA_PTX")) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%016zx.ptx", folder, std::hash<std::string>()(module));
        if (FILE* file = fopen(path, "w")) {
            fwrite(module.data(), 1, module.size() - 1, file);
            fclose(file);
        }
    }
    return 0;
}
}
