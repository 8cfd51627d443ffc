//! The `edbatch` command.
#![deny(unsafe_code)]

mod reserve;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: reserve::WithReserve = reserve::WithReserve;

fn main() -> ExitCode {
    match reserve::hold() {
        Ok(()) => ExitCode::from(edbatch_cli::main(std::env::args_os())),
        Err(message) => {
            eprintln!("edbatch: {message}");
            ExitCode::FAILURE
        }
    }
}
