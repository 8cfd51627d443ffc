//! The `edbatch` command.
#![deny(unsafe_code)]

mod cli;

#[global_allocator]
static ALLOCATOR: cli::reserve::WithReserve = cli::reserve::WithReserve;

fn main() -> std::process::ExitCode {
    cli::main()
}
