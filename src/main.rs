//! The `antwort` binary.

use std::process::ExitCode;

/// Returns memory to the system after a burst, which glibc's allocator does not.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    antwort::program::main()
}
