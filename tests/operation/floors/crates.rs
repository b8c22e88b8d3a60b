//! The crates by floor: each uses only crates of lower floors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::root;

/// Crates by floor, from below. One may use those of lower floors, and the one of its floor that is named behind it.
const FLOORS: &[(&str, u8, &[&str])] = &[
    // Helpers, the wire, the network.
    ("tracing", 0, &[]),
    ("util", 0, &["tracing"]),
    ("protocol", 1, &[]),
    ("net", 1, &[]),
    ("identity", 2, &[]),
    // How a response is made, without input or output.
    ("response", 2, &[]),
    ("telemetry", 2, &[]),
    ("http1", 2, &[]),
    ("config", 3, &[]),
    ("limits", 3, &[]),
    // The outside world behind traits.
    ("store", 4, &[]),
    ("bus", 4, &[]),
    ("provider", 4, &[]),
    ("tools", 4, &[]),
    ("mcp", 5, &[]),
    ("store-sqlite", 5, &[]),
    ("store-postgres", 5, &[]),
    ("store-copy", 6, &[]),
    // The loop; what a model server can do.
    ("doctor", 6, &[]),
    ("engine", 6, &[]),
];

/// Crates that must not know each other although the floors allow it.
const APART: &[(&str, &str)] = &[
    // Settings are translated in the program.
    ("bus", "config"),
    ("store", "config"),
    ("store-sqlite", "config"),
    ("store-postgres", "config"),
    // The engine knows the trait alone.
    ("engine", "store-sqlite"),
    ("engine", "store-postgres"),
    // Who stores, and who calls, knows nothing of the other.
    ("mcp", "bus"),
    ("mcp", "provider"),
    ("mcp", "store"),
    ("store-postgres", "provider"),
    ("store-postgres", "tools"),
    ("store-sqlite", "provider"),
    ("store-sqlite", "tools"),
    ("store-copy", "mcp"),
    ("store-copy", "provider"),
    ("store-copy", "tools"),
];

/// Folders of the project that no part of the program is in.
const ELSEWHERE: &[&str] = &[".git", "benches", "dist", "examples", "target", "tests"];

#[test]
fn no_crate_uses_a_higher_floor() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (name, floor, also) in FLOORS {
        for used in dependencies(name) {
            seen += 1;
            let Some((_, other, _)) = FLOORS.iter().find(|(other, ..)| *other == used) else {
                panic!("{name} uses {used}, which is on no floor")
            };
            if other >= floor && !also.contains(&used.as_str()) {
                wrong.push(format!("{name} (floor {floor}) uses {used} (floor {other})"));
            }
            if APART.contains(&(name, used.as_str())) {
                wrong.push(format!("{name} must not know {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 60, "only {seen} dependencies were read");
    for name in APART.iter().flat_map(|(a, b)| [a, b]) {
        assert!(FLOORS.iter().any(|(known, ..)| known == name), "there is no {name}");
    }
}

#[test]
fn spans_by_attribute_say_their_target() {
    let mut wrong = Vec::new();
    for src in sources().into_values() {
        super::walk(&src, &mut |path, text| {
            for (at, _) in text.match_indices("#[tracing::instrument") {
                if !text[at..].split(']').next().unwrap_or_default().contains("target = \"antwort::") {
                    wrong.push(path.to_owned());
                }
            }
        });
    }
    assert!(wrong.is_empty(), "a macro of `tracing` makes the target of the crate's name: {wrong:#?}");
}

#[test]
fn every_rust_file_is_in_a_known_crate() {
    let known: Vec<PathBuf> = sources().into_values().collect();
    let mut unknown = Vec::new();
    for entry in std::fs::read_dir(root()).unwrap() {
        let place = entry.unwrap().path();
        if place.is_dir() && !ELSEWHERE.iter().any(|name| place.ends_with(name)) {
            super::walk(&place, &mut |path, _| {
                if !known.iter().any(|place| path.starts_with(place)) {
                    unknown.push(path.to_owned());
                }
            });
        }
    }
    assert!(unknown.is_empty(), "in no crate of the table: {unknown:#?}");
    let folders = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let folders: Vec<_> = folders.filter(|name| !FLOORS.iter().any(|(known, ..)| name == known)).collect();
    assert!(folders.is_empty(), "on no floor: {folders:?}");
}

/// The crates with the folders of their sources, that of the program among them.
pub(super) fn sources() -> BTreeMap<&'static str, PathBuf> {
    let crates = FLOORS.iter().map(|(name, ..)| (*name, root().join("crates").join(name).join("src")));
    crates.chain([("antwort", root().join("src"))]).collect()
}

/// Our crates that a crate is built with; what its tests use does not count.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = Path::new("crates").join(name).join("Cargo.toml");
    let text = std::fs::read_to_string(root().join(manifest)).unwrap();
    let (_, rest) = text.split_once("\n[dependencies]\n").unwrap_or_default();
    let section = rest.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    // `tracing` is ours, but for our own.
    let is_macros = |dependency: &str| dependency == "tracing" && name != "tracing";
    let ours = names.filter_map(|dependency| {
        if is_macros(dependency) { Some("tracing") } else { dependency.strip_prefix("antwort-") }
    });
    ours.map(str::to_owned).collect()
}
