//! Passes the compiler's version to the benchmark, which writes it into records.

use std::env;
use std::process::Command;

fn main() {
    let rustc = env::var_os("RUSTC").expect("cargo sets it");
    let output = Command::new(rustc).arg("--version").output().expect("the compiler runs");
    println!("cargo::rustc-env=EDBATCH_RUSTC={}", String::from_utf8_lossy(&output.stdout).trim());
    println!("cargo::rerun-if-changed=build.rs");
}
