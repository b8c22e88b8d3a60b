//! The database of responses, and retention.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::postgres_url::PostgresUrl;
use super::units::{self, DAY, GIB};

/// The database of responses.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// SQLite file, memory, or a PostgreSQL database.
    pub url: StoreUrl,
    /// Durability of a commit.
    pub synchronous: Synchronous,
    /// Migration of a database of an earlier version.
    pub migrate: Migrate,
    /// Connections of this process to PostgreSQL.
    pub pool_size: usize,
    /// How long PostgreSQL may work on a statement.
    #[serde(with = "units::HumanDuration")]
    pub statement_timeout: Duration,
    /// Whether statements are prepared on a connection to PostgreSQL.
    pub prepared_statements: bool,
    /// How long a response is stored after its last use; `None`: forever.
    #[serde(with = "units::DurationOrOff")]
    pub ttl: Option<Duration>,
    /// How long a conversation is stored after its last use; absent: as a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_ttl: Option<TimeToLive>,
    /// How long an idempotency key is kept.
    #[serde(with = "units::HumanDuration")]
    pub idempotency_ttl: Duration,
    /// How long the events of a response are kept after its end, where they are; at least as long as its key.
    #[serde(with = "units::HumanDuration")]
    pub event_ttl: Duration,
    /// Rows of requests that failed before their first output, for each tenant; 0: none.
    pub failed_requests: u32,
    /// Bytes beyond which the oldest responses are deleted; `None`: no limit.
    #[serde(with = "units::SizeOrOff")]
    pub max_size: Option<usize>,
    /// Tenants with a retention of their own, by name.
    pub tenants: BTreeMap<String, TenantRetention>,
    /// How long a running response belongs to a process after the lease was last renewed.
    #[serde(with = "units::HumanDuration")]
    pub lease: Duration,
    /// Interval in which leases are renewed and expired responses deleted.
    #[serde(with = "units::HumanDuration")]
    pub maintenance_interval: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            url: StoreUrl::Sqlite("antwort.db".into()),
            synchronous: Synchronous::Normal,
            migrate: Migrate::Auto,
            pool_size: 8,
            statement_timeout: Duration::from_secs(5),
            prepared_statements: true,
            ttl: Some(30 * DAY),
            conversation_ttl: None,
            idempotency_ttl: DAY,
            event_ttl: DAY,
            failed_requests: 1000,
            max_size: Some(10 * GIB),
            tenants: BTreeMap::new(),
            lease: Duration::from_secs(30),
            maintenance_interval: Duration::from_secs(10),
        }
    }
}

/// The retention of one tenant.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantRetention {
    /// How long its responses are stored after their last use; absent: as `store.ttl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<TimeToLive>,
    /// How long its conversations are stored after their last use; absent: as its responses, if they have a time of their
    /// own, else as all conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_ttl: Option<TimeToLive>,
    /// Bytes beyond which its oldest responses and conversations are deleted; absent: no limit.
    #[serde(with = "units::OptionalSize", skip_serializing_if = "Option::is_none")]
    pub max_size: Option<usize>,
}

/// How long something is stored after its last use; `None`, written `off`: forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeToLive(#[serde(with = "units::DurationOrOff")] pub Option<Duration>);

/// SQLite file, memory, or a PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A SQLite file, created if it does not exist.
    Sqlite(PathBuf),
    /// In memory; lost when the process ends.
    Memory,
    /// A PostgreSQL database, which several processes may share.
    Postgres(PostgresUrl),
}

impl StoreUrl {
    /// Whether it is a PostgreSQL database.
    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(to, "sqlite:{}", path.display()),
            Self::Memory => to.write_str("memory:"),
            Self::Postgres(url) => fmt::Display::fmt(url, to),
        }
    }
}

impl Serialize for StoreUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StoreUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

impl FromStr for StoreUrl {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        if let Some(url) = PostgresUrl::parse(url) {
            return Ok(Self::Postgres(url));
        }
        if ["memory:", "sqlite::memory:"].contains(&url) {
            return Ok(Self::Memory);
        }
        // Other programs write `sqlite://relative` and `sqlite:///absolute`.
        let path = url
            .strip_prefix("sqlite:")
            .ok_or("expected sqlite:PATH, memory: or postgres://USER@HOST/DATABASE")?;
        match path.strip_prefix("//").unwrap_or(path) {
            "" => Err("the path is missing: sqlite:PATH"),
            path if path.contains('?') => Err("options behind `?` are not supported: sqlite:PATH"),
            path => Ok(Self::Sqlite(path.into())),
        }
    }
}

/// Durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// Survives a crash of the process.
    Normal,
    /// Survives loss of power, too; slower.
    Full,
}

/// Migration of a database of an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Migrate {
    /// Backs it up and migrates it at the start.
    Auto,
    /// Refuses to start, and names the command that migrates it.
    Off,
}
