//! The URL of a PostgreSQL server, whose password is never shown.

use std::fmt;

use super::masks::MASK;

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
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("postgres", &self.0));
        write!(to, "{scheme}://")?;
        // As the driver reads it: a password may hold `?` and `/`. With several `@`, all but the last are hidden with it.
        let (user, rest) = rest.split_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        let (server, query) =
            rest.split_once('?').map_or((rest, None), |(server, query)| (server, Some(query)));
        let server = server.rsplit_once('@').map_or(server, |(_, host)| host);
        match user.map(|user| user.split_once(':').ok_or(user)) {
            Some(Ok((user, _))) => write!(to, "{user}:{MASK}@")?,
            Some(Err(user)) => write!(to, "{user}@")?,
            None => {}
        }
        to.write_str(server)?;
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
            ("postgres://u:se?cr/et@h/db?password=s", "postgres://u:********@h/db?password=********"),
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
