//! Patterns of model names, in which only `*` is special.
//!
//! Not `globset`, which tool lists use: model names may contain `?`, brackets, braces and backslashes, which are literal here.

/// Whether the pattern matches the whole name.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let tail = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some((_, after)) = name.split_once(piece) else { return false };
        name = after;
    }
    name.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("*b*", "abc", true),
            ("a", "ab", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
