//! Compiles all headers for all architectures, if NVRTC is installed.

use std::path::PathBuf;
use std::sync::Mutex;

use super::{compiled_or_skip, source};
use crate::binary::{Binary, ResourceUsage};
use crate::cpp::{self, Folder};
use crate::device::{Kernel, Source};
use crate::loaded::CompiledKernels;
use crate::nvidia::architecture;
use crate::nvrtc::{self, Compiler, candidates};
use crate::{Compilation, CudaError};

/// Calls every function of every header, with arguments that are not constants.
const EVERYTHING: &str = "const u32* job = a.commands;
    Job j(a, job, {0, job[9], job[1], block.index, block.slices, job[2], job[3]},
          block.ahead() + job[22]);
    u32 width = job[10], units = job[11];
    Stack stack{job[12], width, job[13], units};
    Own out = output(j, width, 1), rest = scratch(j, 1, width, 2);
    Rows x(j.arena, 0), y = rest;
    find_rows(block, j, 3);
    load_resident(block, a.weights, (const Resident*)a.weights, 1);
    small(block, j, x, stack, out, y);
    large(block, j, x, stack, out, no_rows());
    reduce(block, j, 1, job[15], job[16], out, units);
    copy(block, j.whole(), x, job[17], job[18], rest, units);
    fill(block, j, from_bits(job[19]), out, units);
    select(block, j, x, 1, rest, units);
    dot(block, j, x, y, width, out, units);
    normalize(block, j, x, job[16], from_bits(job[19]), job[17], width, rest);
    multiply_values(block, j, x, width, job[15], y, job[13], job[17], no_rows(), out, units);
    attention(block, j, 1, y, job[15], job[13], job[16], job[17], job[18], out);
    fold(block, j, x, width, out, units);
    share(block, j, x, 1, rest, units);
    ties(block, j, y, 1, job[15], out, units);
    one_hot(block, j, 1, rest, units);
    attention_back(block, j, 1, x, y, job[15], job[13], job[16], job[17], job[18], out);
    each_unit(block, j, units, [&](u32 r, u32 u) {
        float value = add(sigmoid_(x.row(j, r)[u]), tanh_(y.row(j, r)[u]));
        out.row(r)[u] = exp_(log_(relu_(mul(erf_(value), value))));
        float slopes = add(slope_of_sigmoid(value, out.row(r)[u]), share_of_larger(value, 0.5f));
        rest.row(r)[u] = add(slope_of_tanh(slopes, value), slope_of_relu(slopes, value));
    });
    arg_max_job(block, a, job);
    copy_jobs(block, a, job[20], job[21]);";

/// The maximum number of bytes of stack that a function takes for its calls.
const MAX_STACK: usize = 128;

/// Compiles a source. Returns `None` without NVRTC.
fn compiled(source: &Source, architecture: &str) -> Option<Result<Binary, CudaError>> {
    let compiler = compiled_or_skip(nvrtc::compiler())?;
    Some(compiler.compile(source, architecture, None))
}

#[test]
fn all_headers_compile_for_all_architectures_without_spilling() {
    for generation in [(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)] {
        let architecture = architecture(generation);
        for precision in ["", "#define TF32\n", "#define BF16\n"] {
            let headers = format!("{precision}#include \"copies.h\"");
            let source = source(&headers, EVERYTHING);
            let Some(binary) = compiled(&source, &architecture) else { return };
            let binary = binary.unwrap();
            assert!(binary.code.starts_with(b"\x7fELF"), "{architecture}: no machine code");
            let usage = binary.usage().expect("the log says what the kernel takes");
            eprintln!("{architecture} {precision:?}: {usage:?}, {} bytes", binary.code.len());
            assert_eq!(usage.spilled, 0, "{architecture}: {}", binary.log);
            assert!(usage.stack <= MAX_STACK, "{architecture}: {}", binary.log);
            assert!((32..=255).contains(&usage.registers), "{architecture}: {usage:?}");
            assert!((100..5000).contains(&binary.longest_function()), "{architecture}");
        }
    }
}

/// Loads of shared memory and multiply-adds of four terms, by shape: a load for each row, and one
/// for each k of the weights; of S8R8, two for each k. It also loads four sums of its last product
/// at a time, which have been stored in shared memory.
#[test]
fn unit_tiles_load_each_operand_once() {
    let wave = "tiles<Sum<64, 16, 4, 4, 64, 128>>(block, a, a.commands[12], a.commands[13]);";
    let shapes = [(0, 5, 8), (1, 6, 16), (2, 6, 32), (3, 8, 64), (4, 12, 128), (5, 16, 256)];
    for (shape, loads, terms) in shapes {
        let tile = super::tiles::TILE
            .replace("unit_tile<T, 63>", &format!("unit_tile<T, {}>", 1 << shape));
        let Some(binary) = compiled(&source(&tile, wave), "sm_90") else { return };
        let binary = binary.unwrap();
        let count = |text: &str| binary.ptx.matches(text).count();
        let fma = count("fma.rn.f32");
        let stored = if shape == 5 { 4 } else { 0 };
        let all = count("ld.shared.v4.f32") + count("ld.shared.v2.f32") - stored;
        assert!(fma > 0 && all * terms == loads * fma, "shape {shape}: {all} loads, {fma}");
        assert_eq!(binary.usage().expect("a log").spilled, 0);
    }
}

/// In all architectures, and with all numbers of columns.
#[test]
fn tensor_tiles_compile_without_spilling() {
    for generation in [(8, 0), (9, 0), (10, 0), (12, 0)] {
        let architecture = architecture(generation);
        for (precision, columns) in [("TF32", 4), ("BF16", 4), ("TF32", 1), ("BF16", 2)] {
            let tile = format!("#define {precision}\n{}", super::tiles::TILE);
            let wave = format!(
                "tiles<Sum<64, 16, {columns}, {columns}, 64, 128>>(
                 block, a, a.commands[12], a.commands[13]);"
            );
            let Some(binary) = compiled(&source(&tile, &wave), &architecture) else { return };
            let usage = binary.unwrap().usage().expect("a log");
            assert_eq!(usage.spilled, 0, "{architecture}, {precision}, {columns} columns");
        }
    }
}

/// Registers cannot be indexed, so an indexed array is in a stack frame, which the test above
/// forbids.
#[test]
fn a_stack_frame_is_found() {
    let wave = "block.superstep([&](u32 t) {
            float own[64];
            for (u32 i = 0; i < 64; ++i) own[i] = 0.0f;
            for (u32 i = 0; i < a.commands[64]; ++i) own[a.commands[i] % 64] = a.weights[i];
            a.arena[t] = own[t % 64];
        });";
    let Some(binary) = compiled(&source("", wave), "sm_90") else { return };
    assert!(binary.unwrap().usage().expect("a log").stack >= 256);
}

#[test]
fn sm_90a_means_sm_90() {
    let of = |architecture| CompiledKernels::of(&source("", ""), architecture, None);
    match (of("sm_90"), of("sm_90a")) {
        (Err(error @ CudaError::NoCompiler { .. }), _) => edbatch_testing::skip(&error.to_string()),
        (general, special) => assert_eq!(general.unwrap().key, special.unwrap().key),
    }
}

#[test]
fn a_compile_error_is_reported() {
    let wave = "block.superstep(nothing);";
    let Some(refused) = compiled(&source("", wave), "sm_90") else { return };
    match refused {
        Err(CudaError::Compile { log }) => {
            assert!(log.contains("\"nothing\" is undefined"), "{log}")
        }
        other => panic!("{other:?}"),
    }
    match compiled(&source("", ""), "sm_1") {
        Some(Err(CudaError::Failed { why, .. })) => {
            assert!(why.contains("libnvrtc.so") && why.contains("sm_1"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    let error = compiled(&Source { text: "\0".to_string(), kernel: Kernel::Plan }, "sm_90");
    assert!(matches!(error, Some(Err(CudaError::Compile { .. }))));
}

#[test]
fn resource_usage_is_read_from_the_log() {
    let log = "ptxas info    : 116 bytes gmem
ptxas info    : Compiling entry function 'plan_kernel' for 'sm_90'
ptxas info    : Function properties for plan_kernel
ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 94 registers, used 1 barriers, 16640 bytes smem
ptxas info    : Function properties for phase_1
ptxas         .     64 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
";
    let ptx = ".entry plan_kernel(\n)\n{\nret;\n}\n.func phase_1(\n)\n{\nadd;\n\t{\nret;\n\t}\n}\n";
    let binary = Binary { code: Vec::new(), log: log.to_string(), ptx: ptx.to_string() };
    assert_eq!(binary.usage(), Some(ResourceUsage { registers: 94, spilled: 12, stack: 64 }));
    assert_eq!(binary.longest_function(), 4);
    let silent = Binary { code: Vec::new(), log: String::new(), ptx: String::new() };
    assert_eq!((silent.usage(), silent.longest_function()), (None, 0));
}

/// A library with the functions of NVRTC, whose machine code is the list of options. It has no log.
const OTHER: &str = r#"#include <string>
static std::string code;
extern "C" {
int nvrtcVersion(int* major, int* minor) { return *major = MAJOR, *minor = MINOR, 0; }
const char* nvrtcGetErrorString(int) { return "a failure"; }
int nvrtcCreateProgram(void**, const char*, const char*, int, const char**, const char**) {
    return code.clear(), 0;
}
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcCompileProgram(void*, int count, const char** options) {
    for (int i = 0; i < count; ++i) code += std::string(options[i]) + " ";
    bool old = 100 * MAJOR + MINOR < 1208 && code.find("sm_100 ") != std::string::npos;
    return code.find("sm_1 ") == std::string::npos && !old ? 0 : 5;
}
int nvrtcGetProgramLogSize(void*, size_t*) { return 3; }
int nvrtcGetProgramLog(void*, char*) { return 3; }
int nvrtcGetCUBINSize(void*, size_t* size) { return *size = code.size(), 0; }
int nvrtcGetPTXSize(void*, size_t*) { return 3; }
int nvrtcGetPTX(void*, char*) { return 3; }
int nvrtcGetCUBIN(void*, char* to) { return code.copy(to, code.size()), 0; }
}"#;

/// Builds such a library of a version in a folder, and opens it or else the other candidates.
/// Returns `None` without a C++ compiler.
fn built(
    candidates: &[PathBuf],
    (major, minor): (u32, u32),
) -> Option<Result<Compiler, CudaError>> {
    let version = [format!("-DMAJOR={major}"), format!("-DMINOR={minor}")];
    let options = ["-shared", "-fPIC", &version[0], &version[1]];
    let (folder, name) = (candidates[0].parent()?, candidates[0].file_name()?.to_str()?);
    compiled_or_skip(cpp::compile(folder, OTHER, &options, name))?;
    Some(Compiler::find(candidates))
}

#[test]
fn the_named_folder_comes_before_the_system() {
    let folder = Folder::new().unwrap();
    let all = candidates(Some(&folder.path));
    assert!(all[..3].iter().all(|path| path.starts_with(&folder.path)), "{all:?}");
    let Some(compiler) = built(&all[2..], (12, 4)) else { return };
    let (compiler, path) = (compiler.unwrap(), &all[2]);
    assert_eq!(compiler.to_string(), format!("NVRTC 12.4 ({})", path.display()));
    static REPORTS: Mutex<Vec<Compilation>> = Mutex::new(Vec::new());
    let report = |report: &Compilation| REPORTS.lock().unwrap().push(report.clone());
    let code = compiler.compile(&source("", ""), "sm_80", Some(report)).unwrap().code;
    let options = "--std=c++17 --fmad=false --ptxas-options=-v -default-device \
                   --gpu-architecture=sm_80 ";
    assert_eq!(String::from_utf8(code).unwrap(), options);
    let error = compiler.compile(&source("", ""), "sm_1", Some(report)).unwrap_err().to_string();
    assert!(error.contains("a failure") && error.contains(path.to_str().unwrap()), "{error}");
    // The failed compilation is reported only before it starts.
    let reports = REPORTS.lock().unwrap();
    let took: Vec<_> = reports.iter().map(|report| report.took.is_some()).collect();
    assert_eq!(took, [false, true, false]);
    let text = format!("compiling 1 kernel (plan_kernel) for sm_80 with {compiler}");
    assert_eq!(reports[0].to_string(), text);
    assert!(reports[1].to_string().starts_with(&text.replace("compiling", "compiled")));
    // Without any, the error names every file.
    let error = Compiler::find(&all[..2]).unwrap_err().to_string();
    for path in &all[..2] {
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn versions_decide_about_drivers_and_options() {
    for version in [(12, 0), (12, 1), (12, 8), (12, 9), (13, 0), (14, 0)] {
        let folder = Folder::new().unwrap();
        let files = candidates(Some(&folder.path));
        let Some(compiler) = built(&files[..1], version) else { return };
        let is_usable = version >= (12, 1);
        let Ok(compiler) = compiler else {
            assert!(!is_usable, "{version:?}");
            continue;
        };
        assert!(is_usable, "{version:?}");
        let refused = compiler.compile(&source("", ""), "sm_100", None).map(|_| ());
        let refused = refused.err().map_or(String::new(), |error| error.to_string());
        let names = refused.contains("nvidia-cuda-nvrtc-cu12==12.8.93");
        assert_eq!(names, version < (12, 8), "{version:?}: {refused}");
        let binary = compiler.compile(&source("", ""), "sm_80", None).unwrap();
        let code = String::from_utf8(binary.code.clone()).unwrap();
        assert_eq!(code.contains("--no-cache "), version >= (12, 9), "{version:?}: {code}");
        assert_eq!(binary.usage(), None);
        for (driver, architecture, package) in [
            ((12, 1), "sm_90", "nvidia-cuda-nvrtc-cu12==12.4.127"),
            ((12, 9), "sm_90", "nvidia-cuda-nvrtc-cu12==12.4.127"),
            ((12, 9), "sm_100", "nvidia-cuda-nvrtc-cu12==12.8.93"),
            ((13, 0), "sm_90", "nvidia-cuda-nvrtc==13.0.88"),
            ((13, 1), "sm_120", "nvidia-cuda-nvrtc==13.0.88"),
        ] {
            let error = compiler.for_driver(driver, architecture);
            let error = error.err().map(|error| error.to_string());
            assert_eq!(error.is_some(), version.0 > driver.0, "{version:?}, {driver:?}");
            let names = |part: &str| error.as_ref().is_none_or(|error| error.contains(part));
            assert!(names(package) && names("EDBATCH_CUDA_LIBRARIES"), "{error:?}");
            assert!(names(files[0].to_str().unwrap()), "{error:?}");
        }
    }
}
