//! Exponential backoff with jitter. Pure: random numbers are passed in.

use std::time::Duration;

/// The delay after so many retries: `initial`, doubled with each, at most `max`.
pub fn exponential(initial: Duration, max: Duration, retries: u32) -> Duration {
    initial.saturating_mul(1 << retries.min(16)).min(max)
}

/// Shortens a delay by up to half, so that callers that failed together do not retry together. `random` is in
/// `0.0..=1.0`.
pub fn with_jitter(delay: Duration, random: f64) -> Duration {
    delay.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_their_maximum_and_jitter_halves_them_at_most() {
        let (initial, max) = (Duration::from_millis(100), Duration::from_millis(300));
        let delays = [0, 1, 2, 40].map(|retries| exponential(initial, max, retries).as_millis());
        assert_eq!(delays, [100, 200, 300, 300]);
        assert_eq!([0.0, 0.5, 1.0].map(|random| with_jitter(initial, random).as_millis()), [50, 75, 100]);
    }
}
