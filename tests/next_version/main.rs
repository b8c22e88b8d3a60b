//! The gateway as a version after this one could be: its databases have one schema more. Tests of upgrades start it before,
//! beside and after the gateway itself; it is no part of the product.

use std::process::ExitCode;

use antwort_test_support::next_version;

fn main() -> ExitCode {
    next_version::sqlite().set_of_program();
    next_version::postgres().set_of_program();
    antwort::program::main()
}
