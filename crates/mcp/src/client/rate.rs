//! A token bucket.

use tokio::time::Instant;

/// A rate limit with a burst.
#[derive(Debug)]
pub(super) struct TokenBucket {
    burst: f64,
    per_second: f64,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(burst: u32, per_second: u32) -> Self {
        let burst = f64::from(burst);
        Self { burst, per_second: f64::from(per_second), tokens: burst, filled: Instant::now() }
    }

    /// Takes tokens; `false`, taking none, if there are too few.
    pub(super) fn try_take(&mut self, tokens: usize) -> bool {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = self.burst.min(self.tokens + since * self.per_second);
        self.filled = now;
        let wanted = u32::try_from(tokens).map_or(f64::INFINITY, f64::from);
        let has_enough = wanted <= self.tokens;
        if has_enough {
            self.tokens -= wanted;
        }
        has_enough
    }
}
