//! Chance: for jitter, for choices among executors, and for names that nobody can guess.

use std::fmt::Write;

/// A number from 0 to below 1. Without a source of chance always 0, which only costs spread.
pub(super) fn unit_f64() -> f64 {
    let mut bytes = [0; 4];
    _ = aws_lc_rs::rand::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

/// One of this many, from 0; 0 of none.
pub(super) fn index(many: usize) -> usize {
    // Executors of one tool are few: neither conversion loses anything.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to below `many`")]
    let one = (unit_f64() * many as f64) as usize;
    one.min(many.saturating_sub(1))
}

/// 32 digits that cannot be guessed; `None` without a source of chance.
pub(super) fn token() -> Option<String> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(hex_encode(&bytes))
}

/// Two digits a byte.
pub(super) fn hex_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        _ = write!(text, "{byte:02x}");
    }
    text
}
