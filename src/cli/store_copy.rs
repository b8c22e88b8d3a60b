//! `antwort store copy`: copies all data to another database.

use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use super::offline;
use super::output::{print_error, print_line};
use antwort_config::{LoadOptions, StoreUrl};
use antwort_store_copy::{CopiedTable, CopyPlace, CopyProgress, copy as copy_all};

/// The time between two messages about a table that is being copied.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(2);

/// A database on the command line.
#[derive(Clone)]
pub(crate) struct CopyUrl {
    place: CopyPlace,
    url: StoreUrl,
}

impl FromStr for CopyUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url: StoreUrl = text.parse()?;
        let place = match &url {
            StoreUrl::Sqlite(path) => CopyPlace::Sqlite(path.clone()),
            #[cfg(feature = "postgres")]
            StoreUrl::Postgres(url) => CopyPlace::Postgres(url.expose().to_owned()),
            #[cfg(not(feature = "postgres"))]
            StoreUrl::Postgres(_) => return Err(crate::app::POSTGRES_ABSENT),
            StoreUrl::Memory => return Err("expected sqlite:PATH or postgres://USER@HOST/DATABASE"),
        };
        Ok(Self { place, url })
    }
}

impl fmt::Display for CopyUrl {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(to)
    }
}

impl fmt::Debug for CopyUrl {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

/// Copies all data from one database to another, and prints what is the same in both then.
pub(super) fn copy(from: &CopyUrl, to: &CopyUrl, options: &LoadOptions) -> ExitCode {
    offline::run(options, async |_settings| {
        let mut messages = Messages { last: Instant::now() };
        let copied = copy_all(&from.place, &to.place, &mut |progress| messages.show(progress)).await;
        let copied = copied.map_err(|error| format!("cannot copy: {error}"))?;
        for CopiedTable { table, digest } in &copied {
            print_line(&format!("{table:<24} {:>10} rows  {digest}", digest.rows));
        }
        print_line(&format!(
            "{from} was copied to {to}: all rows are the same in both\n{}",
            keys(&from.place)
        ));
        Ok(ExitCode::SUCCESS)
    })
}

/// Which keys the gateway on the copy needs.
fn keys(from: &CopyPlace) -> String {
    let keys = match from {
        CopyPlace::Sqlite(path) => {
            format!("seal.keys of its settings or, if it has none, the key in {}.seal-key", path.display())
        }
        #[cfg(feature = "postgres")]
        CopyPlace::Postgres(_) => "seal.keys of its settings".to_owned(),
    };
    format!(
        "The keys that decrypt the encrypted reasoning and the provider state in it are not part of it: the gateway that \
         uses the copy needs those of the gateway before ({keys})"
    )
}

/// What is shown while a copy goes on.
struct Messages {
    /// When something was shown about a table that is not finished.
    last: Instant,
}

impl Messages {
    fn show(&mut self, progress: CopyProgress) {
        match progress {
            CopyProgress::Written { rows: 0, .. } => {}
            CopyProgress::Written { table, rows, new, is_all: true } => {
                print_error(&format!("{table}: {rows} rows, {new} of them new"));
            }
            CopyProgress::Written { table, rows, .. } => {
                if self.last.elapsed() >= MESSAGE_INTERVAL {
                    self.last = Instant::now();
                    print_error(&format!("{table}: {rows} rows so far"));
                }
            }
            CopyProgress::Comparing => print_error("comparing the databases"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_by_its_url() {
        let mut urls = vec!["sqlite:a.db", "sqlite:///a.db"];
        if cfg!(feature = "postgres") {
            urls.extend(["postgres://u:secret@h/db", "postgresql://h/db"]);
        }
        for url in urls {
            let parsed: CopyUrl = url.parse().unwrap();
            assert!(!format!("{parsed} {parsed:?}").contains("secret"), "{parsed}");
        }
        for url in ["memory:", "sqlite:", "a.db", "mysql://h/db", ""] {
            assert!(url.parse::<CopyUrl>().is_err(), "{url}");
        }
    }
}
