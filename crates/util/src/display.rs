//! Text of others for a terminal or a file that people read: nothing in it moves a cursor, ends a line or reorders what is
//! read.

/// Whether a character is a control, a line end, an invisible mark that changes how others are shown, or no character at
/// all.
pub fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}'
        )
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}')
        || matches!(char, '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        || u32::from(char) & 0xfffe == 0xfffe
}

/// The text on one line, with unsafe characters escaped (`\u{1b}`, `\n`).
pub fn one_line(text: &str) -> String {
    escape(text, is_unsafe)
}

/// The same of a text of several lines: line ends and tabs stay.
pub fn lines(text: &str) -> String {
    escape(text, |char| is_unsafe(char) && !matches!(char, '\n' | '\t'))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_escaped(char) {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// JSON whose strings have unsafe characters as JSON escapes (`\u009b`): it stands for the same value.
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        // Outside of strings there are none but line ends, and in strings those are escaped already.
        if is_unsafe(char) && !matches!(char, '\n' | '\t' | '\r') {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(char);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor_or_reorders_the_line() {
        assert_eq!(one_line("a\u{1b}[31m\r\n\u{202e}b\u{9b}ü"), "a\\u{1b}[31m\\r\\n\\u{202e}b\\u{9b}ü");
        assert_eq!(lines("a\n\tb\u{7f}"), "a\n\tb\\u{7f}");
        for char in ['\u{61c}', '\u{180e}', '\u{ad}', '\u{fff9}', '\u{e0041}', '\u{fffe}', '\u{10ffff}'] {
            assert!(is_unsafe(char), "{char:?}");
        }
        assert!(!"größe 漢字 🦊 \u{fffd}".chars().any(is_unsafe));
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = serde_json::json!({"a\u{9b}": ["\u{202e}b\u{7f}\n", "\u{e0041}ü\u{1f98a}"]});
        let escaped = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!escaped.chars().any(|char| is_unsafe(char) && char != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
