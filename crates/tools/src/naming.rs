//! Tool names as models see them: unique, at most 64 bytes, only characters that every provider accepts.

use antwort_util::digest::short_sha256;

/// Limit of Chat Completions APIs.
const MAX_NAME_BYTES: usize = 64;

/// The name sent upstream: the tool's own, or `namespace__name`. If that is too long or has characters other than
/// letters, digits, `_` and `-`, it is sanitized, cut and made unique by a hash.
pub fn wire_name(namespace: Option<&str>, name: &str) -> String {
    let full = match namespace {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if full.len() <= MAX_NAME_BYTES && !full.is_empty() && full.bytes().all(is_plain) {
        return full;
    }
    let hash = short_sha256(&full, 4);
    let plain = full.chars().map(|letter| match u8::try_from(letter) {
        Ok(byte) if is_plain(byte) => letter,
        _ => '_',
    });
    let kept: String = plain.take(MAX_NAME_BYTES - hash.len() - 1).collect();
    format!("{kept}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let space = "s".repeat(40);
        let (a, b) = ("a".repeat(40), format!("{}b", "a".repeat(39)));
        let (a, b) = (wire_name(Some(&space), &a), wire_name(Some(&space), &b));
        assert_eq!((a.len(), b.len()), (64, 64));
        assert_ne!(a, b);
        assert_eq!(wire_name(Some("ns"), "f"), "ns__f");
    }

    #[test]
    fn names_with_other_letters_become_plain_and_stay_apart() {
        let (a, b) = (wire_name(None, "files.read"), wire_name(None, "files/read"));
        assert!(a.starts_with("files_read_") && b.starts_with("files_read_") && a != b, "{a} {b}");
        for odd in ["Größe", "日本語".repeat(30).as_str(), "", " "] {
            let name = wire_name(None, odd);
            assert!(name.len() <= 64 && name.is_ascii() && !name.is_empty(), "{odd}: {name}");
        }
    }
}
