//! Text of a server as evidence: one line of bounded length, in which nothing can move a cursor or reorder what is read.

/// Characters of an excerpt.
const MAX_CHARS: usize = 120;

/// The beginning of a text, with control characters escaped.
pub(super) fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (count, char) in text.trim().chars().enumerate() {
        if count == MAX_CHARS {
            shown.push('…');
            break;
        }
        if is_unsafe(char) {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// An excerpt in quotation marks.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", excerpt(text))
}

/// Whether a character is a control, a line end, or an invisible mark that changes how others are shown.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(char, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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
