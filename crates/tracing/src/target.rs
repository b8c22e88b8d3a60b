//! Makes the target of a module from its path, when it is compiled.

/// The crates, and how the targets of their modules begin. Another crate keeps its name.
const PARTS: &[(&str, &str)] = &[
    ("antwort_bus", "antwort::bus"),
    ("antwort_config", "antwort::config"),
    ("antwort_doctor", "antwort::doctor"),
    ("antwort_engine", "antwort::engine"),
    ("antwort_http1", "antwort::net::http1"),
    ("antwort_identity", "antwort::identity"),
    ("antwort_limits", "antwort::admission"),
    ("antwort_mcp", "antwort::mcp"),
    ("antwort_net", "antwort::net"),
    ("antwort_protocol", "antwort::protocol"),
    ("antwort_provider", "antwort::provider"),
    ("antwort_response", "antwort::response"),
    ("antwort_store", "antwort::store"),
    ("antwort_store_copy", "antwort::store::copy"),
    ("antwort_store_postgres", "antwort::store::postgres"),
    ("antwort_store_sqlite", "antwort::store::sqlite"),
    ("antwort_telemetry", "antwort::telemetry"),
    ("antwort_tools", "antwort::tools"),
    ("antwort_tracing", "antwort::tracing"),
    ("antwort_util", "antwort::util"),
];

/// Bytes of the target of a module.
#[must_use]
pub const fn len(path: &str) -> usize {
    let (start, rest) = split(path);
    start.len() + rest.len()
}

/// The target of a module with this path, of [`len`] bytes.
#[must_use]
pub const fn bytes<const LEN: usize>(path: &str) -> [u8; LEN] {
    let (start, rest) = split(path);
    let mut target = [0; LEN];
    let (to_start, to_rest) = target.split_at_mut(start.len());
    to_start.copy_from_slice(start.as_bytes());
    to_rest.copy_from_slice(rest);
    target
}

/// The target as text.
#[must_use]
pub const fn text(bytes: &'static [u8]) -> &'static str {
    // It is made of two strings.
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "antwort",
    }
}

/// How the target begins, and what follows as in the path.
const fn split(path: &str) -> (&str, &[u8]) {
    let (krate, rest) = path.as_bytes().split_at(crate_len(path.as_bytes()));
    let mut parts = PARTS;
    while let Some(((name, start), others)) = parts.split_first() {
        if is_equal(name.as_bytes(), krate) {
            return (start, rest);
        }
        parts = others;
    }
    (path, &[])
}

/// Bytes before the first `:`.
const fn crate_len(path: &[u8]) -> usize {
    let mut rest = path;
    while let Some((byte, others)) = rest.split_first() {
        if *byte == b':' {
            break;
        }
        rest = others;
    }
    path.len() - rest.len()
}

const fn is_equal(mut a: &[u8], mut b: &[u8]) -> bool {
    loop {
        match (a.split_first(), b.split_first()) {
            (None, None) => return true,
            (Some((x, others_a)), Some((y, others_b))) if *x == *y => (a, b) = (others_a, others_b),
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> String {
        let (start, rest) = split(path);
        assert_eq!(len(path), start.len() + rest.len());
        format!("{start}{}", text(rest.to_vec().leak()))
    }

    #[test]
    fn a_part_has_one_name_whatever_crate_it_is() {
        for (path, expected) in [
            ("antwort_mcp::session", "antwort::mcp::session"),
            ("antwort_mcp", "antwort::mcp"),
            ("antwort_store::health", "antwort::store::health"),
            ("antwort_store_sqlite::writer", "antwort::store::sqlite::writer"),
            ("antwort::app", "antwort::app"),
            ("antwort_storefront::a", "antwort_storefront::a"),
            ("another::antwort_mcp", "another::antwort_mcp"),
        ] {
            assert_eq!(target(path), expected);
        }
    }

    #[test]
    fn a_line_has_the_target_of_its_module() {
        assert_eq!(crate::target!(), "antwort::tracing::target::tests");
    }

    #[test]
    fn every_crate_is_a_part() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for entry in std::fs::read_dir(crates).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let name = format!("antwort_{}", name.replace('-', "_"));
            assert!(PARTS.iter().any(|(part, _)| *part == name), "{name} has no target");
        }
    }
}
