//! The house's floors: a module uses only modules of its own floor's rooms or of lower floors.

use std::path::Path;

/// Rooms by floor. A room may use its own modules and those of lower floors, not another room of its floor,
/// but for what is named behind it.
const FLOORS: &[(&str, u8, &[&str])] = &[
    ("protocol", 1, &[]),
    ("net", 1, &[]),
    ("config", 1, &["protocol", "net"]),
    ("telemetry", 1, &["protocol", "config", "net"]),
    ("admission", 2, &[]),
    ("response", 2, &[]),
    ("provider", 3, &[]),
    ("store", 3, &[]),
    ("tools", 3, &[]),
    ("auth", 3, &["store"]),
    ("engine", 4, &[]),
    ("transport", 5, &[]),
    ("app", 6, &[]),
    ("cli", 6, &["app", "demo"]),
    ("demo", 6, &["app"]),
    ("shutdown", 6, &[]),
    ("program", 7, &[]),
];

#[test]
fn no_module_uses_a_higher_floor() {
    let mut wrong = Vec::new();
    walk(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut |path, text| {
        let inside = path.strip_prefix(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if matches!(room, "main" | "lib" | "internal") {
            return;
        }
        let (_, floor, also) =
            FLOORS.iter().find(|(name, ..)| *name == room).unwrap_or_else(|| panic!("{room} is on no floor"));
        for used in used_rooms(text) {
            let Some((_, other, _)) = FLOORS.iter().find(|(name, ..)| *name == used) else {
                panic!("{}: crate::{used} is on no floor", inside.display())
            };
            if used != room && other >= floor && !also.contains(&used.as_str()) {
                wrong
                    .push(format!("{} (floor {floor}) uses crate::{used} (floor {other})", inside.display()));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The first segments of all `crate::` paths outside comments.
fn used_rooms(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths =
        code.flat_map(|line| line.match_indices("crate::").map(|(at, found)| &line[at + found.len()..]));
    paths
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>())
        .filter(|room| !room.is_empty())
        .collect()
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
