//! `antwort store` for a PostgreSQL database.

use std::process::ExitCode;

use uuid::Uuid;

use super::output::{EXIT_MIGRATION_NEEDED, print_erased, print_line};
use antwort_config::settings::PostgresUrl;
use antwort_store::{ErasureTarget, Store, StoreError};
use antwort_store_postgres::{self as postgres, DatabaseSchema, Migrations, PostgresOptions, PostgresStore};

/// Prints whether the database has a schema that this version can use.
pub(super) async fn check(url: &PostgresUrl) -> Result<ExitCode, String> {
    let schema = postgres::schema_of(url.expose()).await.map_err(|error| wrong(url, &error))?;
    if let Some(error) =
        Migrations::of_program().refusal(schema).filter(|_| matches!(schema, DatabaseSchema::Newer(_)))
    {
        return Err(wrong(url, &error));
    }
    let current = Migrations::of_program().latest();
    print_line(&match schema {
        DatabaseSchema::Usable(version) if version == current => {
            format!("{url} has schema {version}: there is nothing to do")
        }
        DatabaseSchema::Usable(version) => {
            format!(
                "{url} has schema {version} of a later antwort, which this one (schema {current}) can use"
            )
        }
        DatabaseSchema::Older(version) => format!(
            "{url} has schema {version} and this antwort needs schema {current}: `antwort store migrate` migrates it, \
             while gateways of the version before go on"
        ),
        DatabaseSchema::New | DatabaseSchema::Newer(_) => format!(
            "{url} has no schema yet: `antwort store migrate`, or a server at its start, makes schema {current}"
        ),
    });
    Ok(match schema {
        DatabaseSchema::Usable(_) => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_MIGRATION_NEEDED),
    })
}

/// Migrates the database to the schema of this version.
pub(super) async fn migrate(url: &PostgresUrl) -> Result<ExitCode, String> {
    let migrated = postgres::migrate(url.expose());
    let migrated = migrated.await.map_err(|error| format!("cannot migrate {url}: {error}"))?;
    let current = Migrations::of_program().latest();
    print_line(&match migrated {
        None => {
            format!("{url} has a schema that this antwort (schema {current}) can use: there is nothing to do")
        }
        Some(done) if done.from == 0 => format!("{url} has schema {current} now"),
        Some(done) => format!("{url} was migrated from schema {} to {current}", done.from),
    });
    Ok(ExitCode::SUCCESS)
}

/// Deletes all that a tenant or an owner has stored. Servers may use the database meanwhile.
pub(super) async fn erase(url: &PostgresUrl, target: &ErasureTarget) -> Result<ExitCode, String> {
    let instance = format!("antwort store erase/{}", Uuid::now_v7().simple());
    let options =
        PostgresOptions { pool_size: 2, migrate: false, ..PostgresOptions::new(url.expose(), instance) };
    let failed = |error: StoreError| format!("cannot erase from {url}: {error}");
    let store = PostgresStore::open(options).await.map_err(failed)?;
    let erased = store.erase(target).await;
    store.close().await;
    print_erased(url, target, erased.map_err(failed)?);
    Ok(ExitCode::SUCCESS)
}

fn wrong(url: &PostgresUrl, error: &StoreError) -> String {
    format!("{url}: {error}")
}
