//! The URL of a PostgreSQL server, whose password is never shown.

use std::fmt;

/// Stands for a password, as for other secrets.
const MASK: &str = "********";

/// The URL of a PostgreSQL server. It is shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    /// The URL, if it is one of a PostgreSQL server.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let is_postgres = url.starts_with("postgres://") || url.starts_with("postgresql://");
        is_postgres.then(|| Self(url.to_owned()))
    }

    /// The URL with its password.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, query) =
            self.0.split_once('?').map_or((&*self.0, None), |(server, query)| (server, Some(query)));
        let (scheme, rest) = server.split_once("://").unwrap_or(("postgres", server));
        write!(to, "{scheme}://")?;
        match rest.rsplit_once('@') {
            Some((user, host)) => match user.split_once(':') {
                Some((user, _)) => write!(to, "{user}:{MASK}@{host}")?,
                None => write!(to, "{user}@{host}")?,
            },
            None => to.write_str(rest)?,
        }
        let Some(query) = query else { return Ok(()) };
        for (place, pair) in query.split('&').enumerate() {
            to.write_str(if place == 0 { "?" } else { "&" })?;
            match pair.split_once('=') {
                Some(("password", _)) => write!(to, "password={MASK}")?,
                _ => to.write_str(pair)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_a_url_is_never_shown() {
        for (url, shown) in [
            ("postgres://u:s:e@c@h:5432/db", "postgres://u:********@h:5432/db"),
            ("postgresql://u@h/db?sslmode=require", "postgresql://u@h/db?sslmode=require"),
            (
                "postgres:///db?user=u&password=secret&host=/run",
                "postgres:///db?user=u&password=********&host=/run",
            ),
        ] {
            let parsed = PostgresUrl::parse(url).unwrap();
            assert_eq!((parsed.to_string(), format!("{parsed:?}")), (shown.to_owned(), shown.to_owned()));
            assert_eq!(parsed.expose(), url);
        }
        assert_eq!(PostgresUrl::parse("postgres:x"), None);
    }
}
