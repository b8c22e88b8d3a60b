//! How the binary is linked.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::process::Command;

/// Has the relocations of the binary packed (`DT_RELR`): unpacked they are a megabyte that every start reads and keeps
/// in memory. glibc knows them from 2.36 on; where another one may be meant, nothing is changed.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let [host, target] = ["HOST", "TARGET"].map(|name| std::env::var(name).unwrap_or_default());
    if host == target && target.ends_with("-linux-gnu") && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine, such as 2.36.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
