//! Text of a server as evidence: one line of bounded length, in which nothing can move a cursor or reorder what is read.

use antwort_util::display::one_line;

/// Characters of an excerpt.
const MAX_CHARS: usize = 120;

/// The beginning of a text, with unsafe characters escaped.
pub(super) fn excerpt(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => one_line(text.get(..end).unwrap_or_default()) + "…",
        None => one_line(text),
    }
}

/// An excerpt in quotation marks.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", excerpt(text))
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn nothing_of_a_server_moves_the_cursor_or_ends_the_line() {
        assert_eq!(excerpt("\u{1b}[2Jhi\r\nthere\u{202e}"), "\\u{1b}[2Jhi\\r\\nthere\\u{202e}");
        assert_eq!(excerpt(" größe\t "), "größe");
        let long = excerpt(&"é".repeat(500));
        assert_eq!((long.chars().count(), long.ends_with('…')), (121, true));
    }
}
