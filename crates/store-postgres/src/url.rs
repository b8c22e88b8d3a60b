//! What `store.url` says of a PostgreSQL server.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use antwort_store::StoreError;

/// How long connecting takes at most.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long what was sent may stay without an answer of the network.
const UNANSWERED: Duration = Duration::from_secs(15);

/// The server, and how it is reached.
#[derive(Clone)]
pub(super) struct Target {
    pub config: Config,
    pub(crate) verification: Verification,
}

/// What is checked of the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verification {
    /// Nothing: the connection is encrypted, if it is.
    Nothing,
    /// Who issued it, by the system's roots or those of a file, and whether it is the host's.
    Chain { roots: Option<String>, host: bool },
}

/// Whether a URL is understood: as [`PostgresStore::open`](super::PostgresStore::open) checks it, which connects then.
///
/// # Errors
/// What is wrong with it. Quotes no value, since one may be a password.
pub fn check_url(url: &str) -> Result<(), StoreError> {
    Target::parse(url).map(drop)
}

impl Target {
    /// Parses a URL. What is `sslmode` and `sslrootcert` in it means what it means to PostgreSQL's own clients.
    pub(super) fn parse(text: &str) -> Result<Self, StoreError> {
        let (server, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut roots) = ("prefer".to_owned(), None);
        let mut others = String::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = || percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "sslmode" => mode = value(),
                "sslrootcert" => roots = Some(value()).filter(|file| file != "system"),
                _ => {
                    others.push(if others.is_empty() { '?' } else { '&' });
                    others.push_str(pair);
                }
            }
        }
        let config = format!("{server}{others}").parse();
        // Its error quotes no value.
        let mut config: Config = config.map_err(|error: tokio_postgres::Error| refused(&error))?;
        let (ssl, verification) = match &*mode {
            "disable" => (SslMode::Disable, Verification::Nothing),
            "allow" | "prefer" => (SslMode::Prefer, Verification::Nothing),
            // With a file of roots it is `verify-ca`, as elsewhere.
            "require" if roots.is_none() => (SslMode::Require, Verification::Nothing),
            "require" | "verify-ca" => (SslMode::Require, Verification::Chain { roots, host: false }),
            "verify-full" => (SslMode::Require, Verification::Chain { roots, host: true }),
            _ => {
                return Err(refused(
                    &"sslmode is one of disable, prefer, require, verify-ca and verify-full",
                ));
            }
        };
        config.ssl_mode(ssl);
        if config.get_application_name().is_none() {
            config.application_name("antwort");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNANSWERED);
        }
        Ok(Self { config, verification })
    }
}

fn refused(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Schema(format!("not a URL of a PostgreSQL server: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::*;

    #[test]
    fn a_url_says_what_is_checked_of_the_certificate() {
        let chain = |roots: Option<&str>, host| Verification::Chain { roots: roots.map(str::to_owned), host };
        for (query, mode, verification) in [
            ("", SslMode::Prefer, Verification::Nothing),
            ("?sslmode=disable", SslMode::Disable, Verification::Nothing),
            ("?sslmode=require", SslMode::Require, Verification::Nothing),
            ("?sslmode=require&sslrootcert=/a%20b.pem", SslMode::Require, chain(Some("/a b.pem"), false)),
            ("?sslmode=verify-ca", SslMode::Require, chain(None, false)),
            ("?connect_timeout=3&sslmode=verify-full", SslMode::Require, chain(None, true)),
            ("?sslmode=verify-full&sslrootcert=system", SslMode::Require, chain(None, true)),
        ] {
            let target =
                Target::parse(&format!("postgres://u:p%40ss@db.example:5433/antwort{query}")).unwrap();
            assert_eq!((target.config.get_ssl_mode(), target.verification), (mode, verification), "{query}");
            assert_eq!(target.config.get_password(), Some(&b"p@ss"[..]));
        }
    }

    #[test]
    fn several_hosts_and_sockets_are_understood() {
        let target =
            Target::parse("postgresql://u@a:5432,b:5433/db?target_session_attrs=read-write").unwrap();
        assert_eq!(target.config.get_hosts().len(), 2);
        let target = Target::parse("postgres:///db?host=/run/postgresql&user=u").unwrap();
        assert_eq!(target.config.get_hosts(), [Host::Unix("/run/postgresql".into())]);
    }

    #[test]
    fn no_refusal_quotes_the_password() {
        for url in [
            "postgres://u:secret@h/db?sslmode=secure",
            "postgres://u:secret@h:port/db",
            "postgres://u:secret@h/db?nonsense=1",
        ] {
            let error = Target::parse(url).err().unwrap().to_string();
            assert!(error.contains("not a URL") && !error.contains("secret"), "{error}");
        }
    }
}
