//! The floors: a crate uses crates of lower floors (`crates`), a module of the program its own room and lower ones; pure modules do
//! no I/O; files are short, and do not use one another in a circle (`circles`); what is `pub` is for another crate (`public`).

mod circles;
mod crates;
mod modules;
mod public;
mod tokens;

use std::path::Path;

/// Rooms of the program and the HTTP server by floor. A room may use its own modules and those of lower floors, not another room
/// of its floor, but for what is named behind it. The floors below are crates; see `crates`.
const FLOORS: &[(&str, u8, &[&str])] = &[
    ("auth", 0, &[]),
    ("transport", 1, &[]),
    ("app", 2, &[]),
    ("logging", 2, &[]),
    ("shutdown", 2, &[]),
    ("cli", 2, &["app", "demo", "logging", "shutdown"]),
    ("demo", 2, &["app"]),
    ("program", 3, &[]),
];

#[test]
fn no_module_uses_a_higher_floor() {
    let mut wrong = Vec::new();
    let src = root().join("src");
    walk(&src, &mut |path, text| {
        let inside = path.strip_prefix(&src).unwrap();
        let place = inside.with_extension("");
        if matches!(place.to_str(), Some("main" | "lib")) {
            return;
        }
        let (room, floor, also) =
            room_of(&place).unwrap_or_else(|| panic!("{} is on no floor", inside.display()));
        for path in used_paths(text) {
            let Some((used, other, _)) = room_of(Path::new(&path)) else {
                panic!("{}: crate::{path} is on no floor", inside.display())
            };
            if used != room && other >= floor && !also.contains(used) {
                wrong
                    .push(format!("{} (floor {floor}) uses crate::{used} (floor {other})", inside.display()));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The room that a module lies in: the smallest one that is named.
fn room_of(module: &Path) -> Option<&'static (&'static str, u8, &'static [&'static str])> {
    module.ancestors().find_map(|place| FLOORS.iter().find(|(name, ..)| Path::new(name) == place))
}

#[test]
fn the_modules_that_a_text_names_are_found() {
    let used = used_paths("use crate::config::{self, Settings};\n// crate::engine\ncrate::net::Sse2");
    assert_eq!(used, ["config", "net"]);
}

/// Crates and modules of the standard library that do input and output.
const IO: &[&str] = &[
    "axum",
    "cap_std",
    "hyper",
    "hyper_util",
    "opentelemetry_otlp",
    "reqwest",
    "rmcp",
    "rusqlite",
    "rustix",
    "std::fs",
    "std::process",
    "tokio",
    "tokio_util",
    "tower",
    "tower_http",
];

/// Places on which nothing may do input or output, but for what is named behind them and why.
const WITHOUT_IO: &[(&str, &[&str])] = &[
    ("crates/protocol/src", &[]),
    ("crates/response/src", &[]),
    ("crates/net/src/sse", &[]),
    ("crates/provider/src/chat", &[]),
    // Settings and secrets are files.
    ("crates/config/src", &["std::fs"]),
    // Timers, channels and the threads of blocking work.
    ("crates/limits/src", &["tokio"]),
    // Spans are sent to a collector.
    ("crates/telemetry/src", &["opentelemetry_otlp", "reqwest"]),
];

#[test]
fn the_two_lowest_floors_do_no_input_or_output() {
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    walk(&root().join("crates"), &mut |path, text| {
        let inside = path.strip_prefix(root()).unwrap();
        if inside.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs") {
            return;
        }
        let place = inside.with_extension("");
        let Some((room, allowed)) = WITHOUT_IO.iter().find(|(room, _)| place.starts_with(room)) else {
            return;
        };
        seen.push(*room);
        let (program, _tests) = text.split_once("#[cfg(test)]\nmod ").unwrap_or((text, ""));
        let code = program.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (line, used) in code.flat_map(|line| IO.iter().map(move |used| (line, used))) {
            if names_crate(line, used) && !allowed.contains(used) {
                wrong.push(format!("{}: {}", inside.display(), line.trim()));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (room, _) in WITHOUT_IO {
        assert!(seen.contains(room), "there is no {room}");
    }
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let mut long = Vec::new();
    for folder in ["src", "crates", "tests", "benches", "examples"] {
        walk(&root().join(folder), &mut |path, text| {
            let lines = text.lines().count();
            if lines > 500 {
                long.push(format!("{}: {lines}", path.display()));
            }
        });
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// Whether a path in the line begins with that crate; a name in a string or at the end of another one does not count.
fn names_crate(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !matches!(before, '_' | ':' | '"'))
    })
}

/// The modules of all `crate::` paths outside comments, such as `config/units`.
fn used_paths(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths =
        code.flat_map(|line| line.match_indices("crate::").map(|(at, found)| &line[at + found.len()..]));
    let modules = |rest: &str| {
        let is_module = |name: &&str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '0'..='9'))
        };
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':'));
        let path: Vec<&str> = rest[..end.unwrap_or(rest.len())].split("::").take_while(is_module).collect();
        path.join("/")
    };
    paths.map(modules).filter(|path| !path.is_empty()).collect()
}

fn walk(dir: &Path, visit: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
