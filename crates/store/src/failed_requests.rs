//! Rows of requests that failed before their first output: which of a tenant are kept, and when they are not written.

use antwort_protocol::id::Id;

/// While so many writes wait for a writer, rows of failed requests are dropped: an outage of a provider must not keep
/// the responses of others waiting.
pub const MAX_WAITING_WRITES: usize = 64;
/// Rows that one write removes at most. Where the limit was lowered, several do.
pub const MAX_REMOVED: i64 = 256;

/// Rows of failed requests that are kept of each tenant.
#[derive(Debug, Clone, Copy)]
pub struct FailedRequests {
    max: u32,
}

impl FailedRequests {
    /// The default of the stores.
    pub const DEFAULT_MAX: u32 = 1000;

    /// Keeps about `max` rows of each tenant; with 0 none is written.
    pub fn new(max: u32) -> Self {
        Self { max }
    }

    /// Whether there are any.
    pub fn are_kept(self) -> bool {
        self.max > 0
    }

    /// How many of a tenant stay; `None`: none are removed with this row. Finding the oldest costs as much as there are
    /// rows, so that only one of `max / 16` writes does it, whichever process makes them.
    pub fn kept_with(self, id: &Id) -> Option<i64> {
        let every = u64::from(self.max / 16).max(1);
        is_one_of(id.as_str(), every).then_some(i64::from(self.max))
    }
}

/// One of so many ids, by their random end.
fn is_one_of(id: &str, every: u64) -> bool {
    // FNV-1a, of which the low bits depend on all bytes.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) % every == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_protocol::id::IdGenerator;

    #[test]
    fn small_limits_hold_at_each_row_and_large_ones_at_some_of_them() {
        let ids: Vec<Id> = (0..4000).map(|_| IdGenerator::new().response()).collect();
        let removing = |max| ids.iter().filter(|id| FailedRequests::new(max).kept_with(id).is_some()).count();
        assert_eq!((removing(3), removing(31)), (ids.len(), ids.len()));
        // One of 62 is expected: 64.5 of 4000, with a deviation of 8.
        assert!((20..140).contains(&removing(1000)), "{}", removing(1000));
        assert_eq!(FailedRequests::new(3).kept_with(&ids[0]), Some(3));
        assert!(!FailedRequests::new(0).are_kept() && FailedRequests::new(1).are_kept());
    }
}
