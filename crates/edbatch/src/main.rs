//! The `edbatch` command.

fn main() {
    println!("edbatch {}", env!("CARGO_PKG_VERSION"));
}
