//! The bus over which replicas that share a database tell each other of what they have done.

use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::masks::MASK;
use super::postgres_url::PostgresUrl;
use super::units;

/// The bus between replicas.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BusSettings {
    /// How the other replicas are reached.
    pub url: BusUrl,
    /// The subject of NATS; replicas that share a database have the same.
    pub subject: String,
    /// How often the database is asked while the bus does not reach the other replicas.
    #[serde(with = "units::HumanDuration")]
    pub poll_interval: Duration,
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            url: BusUrl::Auto,
            subject: "antwort.signals".to_owned(),
            poll_interval: Duration::from_millis(250),
        }
    }
}

/// How the other replicas are reached.
#[derive(Debug, Clone)]
pub enum BusUrl {
    /// [`BusUrl::Local`] on SQLite, else [`BusUrl::Store`].
    Auto,
    /// Not at all: there are none.
    Local,
    /// Through the database of the store.
    Store,
    /// Through a PostgreSQL of this URL: the store's own, beside its pooler.
    Postgres(PostgresUrl),
    /// Through NATS servers, whose URLs are separated by commas.
    Nats(SecretString),
    /// Not at all: the database is asked instead.
    Poll,
}

impl FromStr for BusUrl {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        if let Some(url) = PostgresUrl::parse(url) {
            return Ok(Self::Postgres(url));
        }
        // Not quoted in errors: it may hold a password.
        match url {
            "auto" => Ok(Self::Auto),
            "local:" => Ok(Self::Local),
            "poll:" => Ok(Self::Poll),
            "postgres:" | "postgresql:" => Ok(Self::Store),
            _ if ["nats://", "tls://"].iter().any(|scheme| url.starts_with(scheme)) => {
                Ok(Self::Nats(url.into()))
            }
            _ => Err("expected auto, local:, postgres:, postgres://…, nats://…, tls://… (NATS) or poll:"),
        }
    }
}

impl Serialize for BusUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => to.serialize_str("auto"),
            Self::Local => to.serialize_str("local:"),
            Self::Store => to.serialize_str("postgres:"),
            Self::Postgres(url) => to.collect_str(url),
            Self::Nats(_) => to.collect_str(&format_args!("nats://{MASK}")),
            Self::Poll => to.serialize_str("poll:"),
        }
    }
}

impl<'de> Deserialize<'de> for BusUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_what_is_secret() {
        for (url, shown) in [
            ("auto", "auto"),
            ("local:", "local:"),
            ("postgres:", "postgres:"),
            ("postgresql://u:secret@h/db", "postgresql://u:********@h/db"),
            ("nats://u:secret@h:4222,nats://u:secret@i:4222", "nats://********"),
            ("tls://secret@h:4222", "nats://********"),
            ("poll:", "poll:"),
        ] {
            let parsed: BusUrl = url.parse().unwrap();
            assert_eq!(serde_json::to_value(&parsed).unwrap(), shown, "{url}");
            assert!(!format!("{parsed:?}").contains("secret"), "{url}");
        }
        for url in ["", "redis://h", "local", "nats:secret"] {
            let error = url.parse::<BusUrl>().unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
