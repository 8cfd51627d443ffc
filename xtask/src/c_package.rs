//! `cargo xtask c-package`: a folder with the C header, both libraries, and the files by which
//! pkg-config and CMake find them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, root};

/// Writes the C library to a folder: the header, a shared and a static library, the files of
/// pkg-config and CMake, and the licences. The folder can be moved. For Linux.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask c-package target/c-package")]
pub(crate) struct Args {
    /// The folder, which is created, or whose files are replaced.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Also build the examples with the folder, and start them.
    #[arg(long, value_name = "TOOL")]
    check: Option<Tool>,
}

/// The tool by which a program finds the library.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Tool {
    PkgConfig,
    Cmake,
}

const CRATE: &str = "crates/edbatch-c";

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if !cfg!(target_os = "linux") {
        return Err("libraries have other names on this system: package them on Linux".into());
    }
    let libraries = system_libraries()?;
    // This program lies in `target/debug`, and the libraries in `target/release`.
    let program = std::env::current_exe()?;
    let built = program.parent().and_then(Path::parent).ok_or("xtask has no folder")?;
    let built = built.join("release");
    let header = fs::read_to_string(root().join(CRATE).join("include/edbatch.h"))?;
    let shared = format!("libedbatch_c.so.{}", abi_version(&header)?);

    let folder = &args.folder;
    let (include, lib) = (folder.join("include"), folder.join("lib"));
    for folder in [&include, &lib.join("pkgconfig"), &lib.join("cmake/edbatch")] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::write(include.join("edbatch.h"), &header)?;
    fs::copy(built.join("libedbatch_c.so"), lib.join(&shared))?;
    fs::copy(built.join("libedbatch_c.a"), lib.join("libedbatch_c.a"))?;
    strip(&["--strip-unneeded"], &lib.join(&shared))?;
    strip(&["--strip-debug"], &lib.join("libedbatch_c.a"))?;
    link(&shared, &lib.join("libedbatch_c.so"))?;
    let fill = |template: &str, libraries: &str| -> Result<String, Failure> {
        let text = fs::read_to_string(root().join(CRATE).join(template))?;
        Ok(filled(&text, &shared, libraries))
    };
    let names: Vec<&str> = libraries.iter().map(|name| name.trim_start_matches("-l")).collect();
    fs::write(lib.join("pkgconfig/edbatch.pc"), fill("edbatch.pc.in", &libraries.join(" "))?)?;
    for name in ["edbatch-config.cmake", "edbatch-config-version.cmake"] {
        let filled = fill(&format!("{name}.in"), &names.join(";"))?;
        fs::write(lib.join("cmake/edbatch").join(name), filled)?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(licence), folder.join(licence))?;
    }
    fs::write(include.join("edbatch.cdef"), definitions(&header)?)?;
    println!("{}: {shared}, libedbatch_c.a, edbatch.h, edbatch.cdef", folder.display());
    match args.check {
        None => Ok(()),
        Some(Tool::PkgConfig) => check_pkg_config(folder),
        Some(Tool::Cmake) => check_cmake(folder),
    }
}

/// Builds the libraries, and returns the system's libraries that the static one needs.
fn system_libraries() -> Result<Vec<String>, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["rustc", "--release", "-p", "edbatch-c", "--lib"]).current_dir(root());
    cargo.args(["--", "--print", "native-static-libs"]).stdout(Stdio::inherit());
    let output = cargo.output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(printed.into());
    }
    listed(&printed).ok_or_else(|| "rustc printed no native-static-libs".into())
}

/// The libraries in rustc's note, each once.
fn listed(printed: &str) -> Option<Vec<String>> {
    let (_, list) = printed.split_once("native-static-libs: ")?;
    let mut names: Vec<String> = Vec::new();
    for name in list.lines().next()?.split_whitespace() {
        if !names.iter().any(|other| other == name) {
            names.push(name.into());
        }
    }
    Some(names)
}

fn abi_version(header: &str) -> Result<&str, Failure> {
    let version = header.lines().find_map(|line| line.strip_prefix("#define EDBATCH_ABI_VERSION "));
    version.ok_or_else(|| "the header has no EDBATCH_ABI_VERSION".into())
}

/// The declarations of a header without what a preprocessor reads, for LuaJIT's `ffi.cdef` and
/// other readers of C declarations.
fn definitions(header: &str) -> Result<String, Failure> {
    let inner =
        || header.split_once("extern \"C\" {\n#endif\n")?.1.split_once("#ifdef __cplusplus");
    let (inner, _) = inner().ok_or("the header has no extern \"C\"")?;
    Ok(inner.replace("EDBATCH_API ", ""))
}

/// Fills in a template.
fn filled(text: &str, shared: &str, libraries: &str) -> String {
    text.replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@SHARED@", shared)
        .replace("@SYSTEM_LIBRARIES@", libraries)
}

fn strip(options: &[&str], file: &Path) -> Result<(), Failure> {
    let status = Command::new("strip").args(options).arg(file).status();
    match status.map_err(|error| format!("strip: {error}"))?.success() {
        true => Ok(()),
        false => Err(format!("strip failed on {}", file.display()).into()),
    }
}

#[cfg(unix)]
fn link(target: &str, at: &Path) -> Result<(), Failure> {
    if at.is_symlink() || at.exists() {
        fs::remove_file(at)?;
    }
    Ok(std::os::unix::fs::symlink(target, at)?)
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> Result<(), Failure> {
    Err("no links on this system".into())
}

/// Compiles and starts an example with both libraries.
fn check_pkg_config(folder: &Path) -> Result<(), Failure> {
    let config = fs::canonicalize(folder.join("lib/pkgconfig"))?;
    let library = fs::canonicalize(folder.join("lib"))?;
    for kind in ["shared", "static"] {
        let mut pkg_config = Command::new("pkg-config");
        pkg_config.args(["--cflags", "--libs"]).args((kind == "static").then_some("--static"));
        let flags = pkg_config.arg("edbatch").env("PKG_CONFIG_PATH", &config).output()?;
        let flags = String::from_utf8(flags.stdout)?;
        let archive = library.join("libedbatch_c.a").display().to_string();
        let flags = match kind {
            "static" => flags.replace("-ledbatch_c", &archive) + " -DEDBATCH_STATIC",
            _ => flags,
        };
        let program = folder.join(format!("prover-{kind}"));
        let mut cc = Command::new("cc");
        cc.arg(root().join(CRATE).join("examples/prover.c")).arg("-o").arg(&program);
        succeed(cc.args(flags.split_whitespace()))?;
        start(&program, &library)?;
        fs::remove_file(&program)?;
    }
    Ok(())
}

/// Builds the examples by CMake, with both libraries, and starts them.
fn check_cmake(folder: &Path) -> Result<(), Failure> {
    let folder = fs::canonicalize(folder)?;
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join(CRATE).join("examples")).arg("-B").arg(&build);
    succeed(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", folder.display())))?;
    succeed(Command::new("cmake").arg("--build").arg(&build))?;
    for program in ["prover", "plans"] {
        start(&build.join(program), &folder.join("lib"))?;
    }
    Ok(fs::remove_dir_all(build)?)
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    match command.status().map_err(|error| format!("{command:?}: {error}"))?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed").into()),
    }
}

/// Starts an example. Without a folder of a network it prints how it is used.
fn start(program: &Path, library: &Path) -> Result<(), Failure> {
    let started = Command::new(program).env("LD_LIBRARY_PATH", library).output()?;
    if !String::from_utf8_lossy(&started.stderr).starts_with("usage: ") {
        return Err(format!("{} does not start", program.display()).into());
    }
    println!("{} starts", program.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_of_rustc_is_read() {
        let printed = "note: a\nnote: native-static-libs: -lgcc_s -lm -lc -lm\n    Finished\n";
        assert_eq!(listed(printed).unwrap(), ["-lgcc_s", "-lm", "-lc"]);
        assert_eq!(listed("    Finished\n"), None);
    }

    #[test]
    fn templates_are_filled_in_wholly() {
        for template in
            ["edbatch.pc.in", "edbatch-config.cmake.in", "edbatch-config-version.cmake.in"]
        {
            let text = fs::read_to_string(root().join(CRATE).join(template)).unwrap();
            let filled = filled(&text, "libedbatch_c.so.1", "-lm");
            assert!(
                filled.contains(env!("CARGO_PKG_VERSION")) && !filled.contains('@'),
                "{filled}"
            );
        }
        let header = fs::read_to_string(root().join(CRATE).join("include/edbatch.h")).unwrap();
        let definitions = definitions(&header).unwrap();
        assert_eq!(definitions.matches(");").count(), 26);
        assert!(
            !definitions.contains("#") && !definitions.contains("EDBATCH_API"),
            "{definitions}"
        );
        assert_eq!(abi_version("/* */\n#define EDBATCH_ABI_VERSION 7\n").unwrap(), "7");
    }
}
