//! How the binary is linked, which commit it is of, and which files its web page has.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    pack_relocations();
    list_ui_files();
    println!("cargo::rerun-if-env-changed=ANTWORT_COMMIT");
    let said = std::env::var("ANTWORT_COMMIT").ok().filter(|said| !said.is_empty());
    // A build for development is of no commit: it would be made anew with each.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let found = || if is_release { commit() } else { None };
    let commit = said.or_else(found).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=ANTWORT_COMMIT={commit}");
}

/// Writes the table of the files below `ui/`, from which the binary serves its web page.
fn list_ui_files() {
    let [root, out] = ["CARGO_MANIFEST_DIR", "OUT_DIR"].map(|name| std::env::var(name).unwrap_or_default());
    let folder = Path::new(&root).join("ui");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    if std::env::var_os("CARGO_FEATURE_UI").is_some() {
        collect_files(&folder, &mut files);
    }
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&folder).unwrap_or(&file).display().to_string();
        table.push_str(&format!("    ({name:?}, include_bytes!({:?})),\n", file.display().to_string()));
    }
    table.push_str("]\n");
    if let Err(error) = std::fs::write(Path::new(&out).join("ui_files.rs"), table) {
        println!("cargo::error=writing the table of the page's files: {error}");
    }
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() { collect_files(&path, files) } else { files.push(path) }
    }
}

/// The commit of the checkout that this is; nothing in sources without one, or within another repository.
fn commit() -> Option<String> {
    let root = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&root).canonicalize().ok()? {
        return None;
    }
    // Written with every commit and checkout.
    let log = Path::new(&root).join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Has the relocations of the binary packed (`DT_RELR`): unpacked they are a megabyte that every start reads and keeps
/// in memory. glibc knows them from 2.36 on; where another one may be meant, nothing is changed.
fn pack_relocations() {
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
