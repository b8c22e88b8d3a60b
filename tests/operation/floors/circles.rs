//! Circles between files of a crate: a file that uses another one is not used by it, neither directly nor over others.
//!
//! An arrow goes from a file to the file that defines the name it uses, through all re-exports. A parent's `mod child;` and its
//! `pub use child::Name` are no arrows; code for tests has none either.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Modules, Named};

/// File -> file -> the names it uses of it.
type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Circles that stand, by where all their files are. This list only becomes shorter.
const KNOWN: &[&str] = &["response/machine"];

#[test]
fn files_use_one_another_in_one_direction() {
    let (mut new, mut known, mut files) = (Vec::new(), BTreeSet::new(), 0);
    for (name, src) in super::crates::sources() {
        let arrows = arrows(&Modules::read(&|file| std::fs::read_to_string(src.join(file)).unwrap()));
        files += arrows.len();
        for circle in circles(&arrows) {
            let is_in =
                |known: &&&str| circle.iter().all(|file| format!("{name}/{file}").starts_with(**known));
            match KNOWN.iter().find(is_in) {
                Some(place) => _ = known.insert(*place),
                None => new.push(format!("{name}: {}", listing(&circle, &arrows))),
            }
        }
    }
    assert!(files > 700, "only {files} files were read");
    assert!(new.is_empty(), "new circles between files:\n\n{}", new.join("\n"));
    let gone: Vec<_> = KNOWN.iter().filter(|place| !known.contains(*place)).collect();
    assert!(gone.is_empty(), "no longer a circle, so no longer in KNOWN: {gone:#?}");
}

#[test]
fn a_circle_is_seen_through_reexports_and_module_paths_but_not_in_tests() {
    let files = BTreeMap::from([
        ("lib.rs", "mod parent; mod other; // mod missing;"),
        (
            "parent.rs",
            "mod a; mod b; mod c; pub(crate) use a::{Alpha as Renamed, deep::Two}; pub struct Own;",
        ),
        (
            "parent/a.rs",
            "pub(super) mod deep; pub struct Alpha<'a>(&'a str); fn f() -> char { '\"' } fn g() { super::b::go() }",
        ),
        ("parent/a/deep.rs", "pub struct Two; #[cfg(test)] mod tests { use super::super::Alpha; }"),
        ("parent/b.rs", "use crate::parent::Renamed; pub fn go() { format!(\"{}\", r#\"\"c::x\"#) }"),
        ("parent/c.rs", "use super::{Own, b}; #[cfg(test)] use crate::other::T; pub fn x() { b::go() }"),
        ("other.rs", "pub struct T; impl T { fn new() { crate::parent::c::x() } }"),
    ]);
    let found = circles(&arrows(&Modules::read(&|file| files[file].to_owned())));
    let expected: BTreeSet<String> = ["parent/a.rs", "parent/b.rs"].map(str::to_owned).into();
    assert_eq!(found, [expected]);
}

fn arrows(modules: &Modules) -> Arrows {
    let mut arrows = Arrows::new();
    for (id, module) in modules.0.iter().enumerate() {
        let from = arrows.entry(module.file.clone()).or_default();
        let mut uses = |path: &[String], reexport: bool, everything: bool| {
            let target = match modules.resolve(id, path) {
                Some(Named::Item(target)) => target,
                Some(Named::Module(target)) if everything => target,
                _ => return,
            };
            let file = &modules.0[target].file;
            if *file != module.file && !(reexport && modules.is_within(target, id)) {
                from.entry(file.clone()).or_default().insert(path.join("::"));
            }
        };
        for import in &module.imports {
            uses(&import.path, import.public, import.is_everything());
        }
        for path in &module.paths {
            uses(path, false, false);
        }
    }
    arrows
}

/// The sets of files that reach one another.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|file| (file, reached_from(file, arrows))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (file, there) in &reached {
        if there.contains(file) && !found.iter().any(|circle| circle.contains(*file)) {
            let back = there.iter().filter(|other| reached[**other].contains(file));
            found.push(back.map(|other| (*other).clone()).collect());
        }
    }
    found
}

fn reached_from<'a>(file: &String, arrows: &'a Arrows) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = arrows[file].keys().collect();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            open.extend(arrows[next].keys());
        }
    }
    seen
}

fn listing(circle: &BTreeSet<String>, arrows: &Arrows) -> String {
    let mut text = format!("{} files:\n", circle.len());
    for file in circle {
        for (other, names) in arrows[file].iter().filter(|(other, _)| circle.contains(*other)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text.push_str(&format!("  {file} -> {other} ({})\n", names.join(", ")));
        }
    }
    text
}
