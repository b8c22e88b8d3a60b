//! The `antwort` binary.

use std::process::ExitCode;

/// Returns memory to the system after a burst: its background threads also purge what idle threads hold.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    antwort::program::main()
}
