//! `antwort store`: backs up and migrates the configured database, and erases data from it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::output::{EXIT_MIGRATION_NEEDED, print_erased, print_line};
use super::{offline, store_postgres};
use crate::app::seal_key;
use antwort_config::{LoadOptions, Settings, StoreUrl};
use antwort_store::{ErasureTarget, Store, StoreError};
use antwort_store_sqlite::{
    self as sqlite, FileSystem, Location, MigrateOptions, Migrations, Schema, ServerLock, SqliteOptions,
    SqliteStore,
};

/// Copies the database to this file.
pub(super) fn backup(file: &Path, options: &LoadOptions) -> ExitCode {
    offline::run(options, async |settings| {
        if settings.store.url.is_postgres() {
            return Err("a PostgreSQL database is backed up with its own tools, such as pg_dump".to_owned());
        }
        let database = database(&settings)?;
        if file.symlink_metadata().is_ok() {
            return Err(format!(
                "{} exists, and no file is overwritten: choose another name",
                file.display()
            ));
        }
        let copy = sqlite::backup(&database, file, &FileSystem)
            .map_err(|error| format!("cannot back up {}: {error}", database.display()))?;
        print_line(&format!(
            "{} is a backup of {}: schema {}, {} bytes\n{}",
            file.display(),
            database.display(),
            copy.schema,
            copy.bytes,
            key(&settings)
        ));
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints whether the database has the schema of this version.
pub(super) fn check(options: LoadOptions) -> ExitCode {
    offline::run(&without_keys(options), async |settings| {
        if let StoreUrl::Postgres(url) = &settings.store.url {
            return store_postgres::check(url).await;
        }
        let database = database(&settings)?;
        let (file, current) = (database.display(), Migrations::of_program().latest());
        match readable(&database)? {
            Schema::New => {
                print_line(&format!(
                    "{file} does not exist yet: a server will create it with schema {current}"
                ));
            }
            Schema::Current => print_line(&format!("{file} has schema {current}: there is nothing to do")),
            Schema::Older(version) => {
                print_line(&format!(
                    "{file} has schema {version} and this antwort needs schema {current}: `antwort store migrate` \
                     backs it up and migrates it"
                ));
                return Ok(ExitCode::from(EXIT_MIGRATION_NEEDED));
            }
            // Refused above.
            Schema::Newer(_) => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Migrates the database to the schema of this version.
pub(super) fn migrate(backup: bool, options: &LoadOptions) -> ExitCode {
    offline::run(options, async |settings| {
        if let StoreUrl::Postgres(url) = &settings.store.url {
            return store_postgres::migrate(url).await;
        }
        let database = database(&settings)?;
        let (file, current) = (database.display(), Migrations::of_program().latest());
        if readable(&database)? == Schema::New {
            print_line(&format!("{file} does not exist yet: a server will create it with schema {current}"));
            return Ok(ExitCode::SUCCESS);
        }
        let lock = ServerLock::acquire(&database)
            .map_err(|error| format!("{error}. Nothing was changed: stop the server first"))?;
        let options = MigrateOptions { backup, ..MigrateOptions::default() };
        let migrated =
            sqlite::migrate(&lock, &options).map_err(|error| format!("cannot migrate {file}: {error}"))?;
        print_line(&match migrated {
            None => format!("{file} has schema {current}: there is nothing to do"),
            Some(done) => {
                let backup_note = done.backup.map_or_else(
                    || "There is no backup.".to_owned(),
                    |copy| format!("The backup is {}.\n{}", copy.display(), key(&settings)),
                );
                format!("{file} was migrated from schema {} to {current}. {backup_note}", done.from)
            }
        });
        Ok(ExitCode::SUCCESS)
    })
}

/// Deletes all that a tenant or an owner has stored.
pub(super) fn erase(tenant: &str, owner: Option<&str>, options: LoadOptions) -> ExitCode {
    offline::run(&without_keys(options), async |settings| {
        let target = ErasureTarget { tenant: tenant.into(), principal: owner.map(Into::into) };
        if let StoreUrl::Postgres(url) = &settings.store.url {
            return store_postgres::erase(url, &target).await;
        }
        let database = database(&settings)?;
        let file = database.display();
        if readable(&database)? == Schema::New {
            print_line(&format!("{file} does not exist yet: there is nothing to erase"));
            return Ok(ExitCode::SUCCESS);
        }
        let _lock = ServerLock::acquire(&database).map_err(|error| {
            format!("{error}. Nothing was erased: stop the server first, or send it DELETE /v1/admin/data")
        })?;
        let failed = |error: StoreError| format!("cannot erase from {file}: {error}");
        let options = SqliteOptions::new(Location::File(database.clone()), "antwort store erase");
        let store = SqliteStore::open(options).map_err(failed)?;
        let erased = store.erase(&target).await;
        store.close().await;
        print_erased(&file, &target, erased.map_err(failed)?);
        Ok(ExitCode::SUCCESS)
    })
}

/// Options for a command that neither seals nor opens anything: keys may be missing. One that is never used stands for them.
fn without_keys(mut options: LoadOptions) -> LoadOptions {
    const KEYS: &str = "ANTWORT_SEAL_KEYS";
    const UNUSED: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    if options.environment.get(KEYS).is_none_or(String::is_empty) {
        options.environment.insert(KEYS.to_owned(), UNUSED.to_owned());
    }
    options
}

/// The file of the configured database.
fn database(settings: &Settings) -> Result<PathBuf, String> {
    match &settings.store.url {
        StoreUrl::Sqlite(path) => Ok(path.clone()),
        StoreUrl::Memory => Err("store.url is memory:, so there is no file".to_owned()),
        StoreUrl::Postgres(_) => Err("store.url is a PostgreSQL database, so there is no file".to_owned()),
    }
}

/// The schema of a database; an error if it is of a later version.
fn readable(database: &Path) -> Result<Schema, String> {
    let wrong = |error: StoreError| format!("{}: {error}", database.display());
    let migrations = Migrations::of_program();
    let schema = migrations.schema_of_file(database).map_err(wrong)?;
    match migrations.refusal(schema, &Location::File(database.to_owned())) {
        Some(refusal) if matches!(schema, Schema::Newer(_)) => Err(wrong(refusal)),
        _ => Ok(schema),
    }
}

/// Where the key is that belongs to a backup.
fn key(settings: &Settings) -> String {
    match seal_key::configured_file(settings) {
        Some(file) => format!(
            "The key that decrypts the encrypted reasoning and the provider state in it is not part of it: store {} with \
             it, as a secret",
            file.display()
        ),
        None => "The keys that decrypt the encrypted reasoning and the provider state in it are not part of it: store \
                 seal.keys of the settings with it"
            .to_owned(),
    }
}
