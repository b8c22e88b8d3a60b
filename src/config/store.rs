//! Where responses are kept, and for how long.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::units::{self, DAY, GIB};

/// Where responses are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// Which database.
    pub url: StoreUrl,
    /// What a commit survives.
    pub synchronous: Synchronous,
    /// What a server does with a file of an earlier version.
    pub migrate: Migrate,
    /// How long a response is kept after its last use; `None`: for ever.
    #[serde(with = "units::duration_or_off")]
    pub ttl: Option<Duration>,
    /// Bytes beyond which the oldest responses are deleted; `None`: no cap.
    #[serde(with = "units::size_or_off")]
    pub max_size: Option<usize>,
    /// How long a running response belongs to a process that gives no sign of life.
    #[serde(with = "units::duration")]
    pub lease: Duration,
    /// Between two rounds of renewing leases and deleting what expired.
    #[serde(with = "units::duration")]
    pub maintenance_interval: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            url: StoreUrl::Sqlite("antwort.db".into()),
            synchronous: Synchronous::Normal,
            migrate: Migrate::Auto,
            ttl: Some(30 * DAY),
            max_size: Some(10 * GIB),
            lease: Duration::from_secs(30),
            maintenance_interval: Duration::from_secs(10),
        }
    }
}

/// Which database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A SQLite file, made if it does not exist.
    Sqlite(PathBuf),
    /// Nothing outlives the process.
    Memory,
}

impl Serialize for StoreUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sqlite(path) => to.collect_str(&format_args!("sqlite:{}", path.display())),
            Self::Memory => to.serialize_str("memory:"),
        }
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
        // Not echoed: a PostgreSQL URL holds a password.
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            return Err("PostgreSQL is not supported yet; use sqlite:PATH or memory:");
        }
        if ["memory:", "sqlite::memory:"].contains(&url) {
            return Ok(Self::Memory);
        }
        // `sqlite://relative` and `sqlite:///absolute` are what other programs write.
        let path = url.strip_prefix("sqlite:").ok_or("expected sqlite:PATH or memory:")?;
        match path.strip_prefix("//").unwrap_or(path) {
            "" => Err("the path is missing: sqlite:PATH"),
            path if path.contains('?') => Err("options behind `?` are not supported: sqlite:PATH"),
            path => Ok(Self::Sqlite(path.into())),
        }
    }
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// The end of the process, however it comes.
    Normal,
    /// Loss of power too; slower.
    Full,
}

/// What a server does with a file of an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Migrate {
    /// Backs it up and migrates it, before it serves.
    Auto,
    /// Does not start, and names the command that does.
    Off,
}
