//! Names the shared library by the version of its interface, which `include/edbatch.h` declares. So
//! a program finds a library of the version that it was linked to.

use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=include/edbatch.h");
    let header = fs::read_to_string("include/edbatch.h").expect("the header of the crate");
    let define = "#define EDBATCH_ABI_VERSION ";
    let version = header.lines().find_map(|line| line.strip_prefix(define));
    let version = version.expect("the header defines its version");
    let arg = match env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => format!("-Wl,-install_name,@rpath/libedbatch_c.{version}.dylib"),
        Ok("windows") => return,
        _ => format!("-Wl,-soname,libedbatch_c.so.{version}"),
    };
    println!("cargo:rustc-cdylib-link-arg={arg}");
}
