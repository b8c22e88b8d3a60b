//! The `antwort` binary.

use std::process::ExitCode;

/// Gives memory back after a burst, where the system's allocator keeps it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    antwort::program::main()
}
