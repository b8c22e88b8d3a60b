//! Retention: when a response expires, and until when the responses before it live with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// An ancestor is rewritten only when its expiry moves by at least this fraction of the time to live.
const EXTENSION_DIVISOR: i64 = 24;

/// How long responses are kept after their last use. Times are Unix milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    ttl: Option<i64>,
}

impl Retention {
    pub(crate) fn new(ttl: Option<Duration>) -> Self {
        Self { ttl: ttl.map(millis) }
    }

    /// The expiry of a row that is used now; `None`: never.
    pub fn expiry(self, now: i64) -> Option<i64> {
        Some(now.saturating_add(self.ttl?))
    }

    /// The last use of what is expired now; what was never used is expired, too. Unix milliseconds.
    pub fn oldest_use(self, now: i64) -> i64 {
        self.ttl.map_or(0, |ttl| now.saturating_sub(ttl)).max(0)
    }

    /// The time before which neither a new response nor any response of its chain expires, as its parent has noted
    /// it; `None` if the chain must be walked, and each of its rows extended to `expiry`.
    ///
    /// Walking the chain for every turn would make each turn dearer than the last. So each row remembers that time; a
    /// child inherits it while it is recent, and only otherwise is the chain walked. A chain in use is thus rewritten
    /// once per 1/24 of the time to live. The parent's own expiry would not do: it is always recent if turns are
    /// quick.
    pub fn inherited(self, of_parent: Option<i64>, expiry: i64) -> Option<i64> {
        of_parent.filter(|until| self.ttl.is_some() && *until >= self.recent(expiry))
    }

    /// Until when a chain lives at least that need not be walked to live until `expiry`.
    pub fn recent(self, expiry: i64) -> i64 {
        expiry.saturating_sub(self.ttl.unwrap_or(0) / EXTENSION_DIVISOR)
    }
}

/// How long something is kept after its last use; `None`: until it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeToLive(pub Option<Duration>);

/// The retention of one tenant.
#[derive(Debug, Clone, Copy, Default)]
pub struct TenantRetention {
    /// How long its responses are kept after they were made or last continued; `None`: until they are deleted.
    pub ttl: Option<Duration>,
    /// How long its conversations are kept after their last use; `None`: until they are deleted.
    pub conversation_ttl: Option<Duration>,
    /// Above this many bytes of items and response objects the oldest responses and conversations of the tenant are
    /// deleted.
    pub max_bytes: Option<u64>,
}

/// The retention of each tenant's responses, or of its conversations.
#[derive(Debug, Clone)]
pub struct TenantRetentions {
    default: Retention,
    /// Those of tenants that have one of their own.
    tenants: HashMap<Arc<str>, Retention>,
}

impl TenantRetentions {
    /// The times to live of these tenants, and the default of all others; `None`: no expiry.
    pub fn new(
        default: Option<Duration>,
        tenants: impl IntoIterator<Item = (Arc<str>, Option<Duration>)>,
    ) -> Self {
        let tenants = tenants.into_iter().map(|(tenant, ttl)| (tenant, Retention::new(ttl)));
        Self { default: Retention::new(default), tenants: tenants.collect() }
    }

    /// That of a tenant: its own, or else the default.
    pub fn of(&self, tenant: &str) -> Retention {
        if self.tenants.is_empty() {
            return self.default;
        }
        self.tenants.get(tenant).copied().unwrap_or(self.default)
    }

    /// What was used after this time has not expired, whosever it is. Unix milliseconds.
    pub fn newest_expired_use(&self, now: i64) -> i64 {
        let all = self.tenants.values().chain([&self.default]);
        all.map(|retention| retention.oldest_use(now)).max().unwrap_or(0)
    }
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_walked_once_per_24th_of_the_time_to_live() {
        let retention = Retention::new(Some(Duration::from_millis(2400)));
        let expiry = retention.expiry(10_000).unwrap();
        assert_eq!(expiry, 12_400);
        assert_eq!(retention.inherited(Some(12_300), expiry), Some(12_300));
        assert_eq!(retention.inherited(Some(12_299), expiry), None);
        assert_eq!(retention.inherited(None, expiry), None, "a parent that is gone");
        assert_eq!(Retention::new(None).expiry(10_000), None);
        assert_eq!((retention.oldest_use(10_000), retention.oldest_use(1)), (7_600, 0));
        assert_eq!(Retention::new(None).oldest_use(10_000), 0);
    }
}
