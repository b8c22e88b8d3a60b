//! The gateway as a version after this one could be: its databases have one schema more. Tests of upgrades start it before,
//! beside and after the gateway itself; it is no part of the product.

mod migrations;

use std::process::ExitCode;

fn main() -> ExitCode {
    migrations::sqlite().set_of_program();
    migrations::postgres().set_of_program();
    antwort::program::main()
}
