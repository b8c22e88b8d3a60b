//! The id of a message that was skipped because it is too long, from the ends that were kept.

/// The id in the head of an oversized message.
pub(super) fn id_at_head(head: &[u8]) -> Option<i64> {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for (at, byte) in head.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => {
                let key = head.get(at..).and_then(|rest| rest.strip_prefix(b"\"id\""));
                if let (1, false, Some(rest)) = (depth, in_string, key)
                    && let Some(value) = rest.trim_ascii_start().strip_prefix(b":")
                {
                    return leading_number(value).map(|(id, _)| id);
                }
                in_string = !in_string;
            }
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The id in the tail of an oversized message: some servers write it last.
pub(super) fn id_at_tail(tail: &[u8]) -> Option<i64> {
    let at = memchr::memmem::rfind(tail, b"\"id\"")?;
    let value = tail.get(at..)?.strip_prefix(b"\"id\"")?.trim_ascii_start().strip_prefix(b":")?;
    let (id, rest) = leading_number(value)?;
    (rest.trim_ascii() == b"}").then_some(id)
}

fn leading_number(text: &[u8]) -> Option<(i64, &[u8])> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    let id = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((id, rest.strip_prefix(b"\"").unwrap_or(rest)))
}
