//! Random numbers: for jitter, for load balancing, and for ids that cannot be guessed.

use super::digest::hex_encode;

/// A number in `0.0..1.0`. Always 0 without a source of randomness, which only costs spread.
pub fn unit_f64() -> f64 {
    let mut bytes = [0; 4];
    _ = aws_lc_rs::rand::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

/// An index below `length`; 0 if that is 0.
pub fn index(length: usize) -> usize {
    // Used for short lists: neither conversion loses anything.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to below `length`")]
    let index = (unit_f64() * length as f64) as usize;
    index.min(length.saturating_sub(1))
}

/// 128 random bits as hex; `None` without a source of randomness.
pub fn token() -> Option<String> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(hex_encode(&bytes))
}
