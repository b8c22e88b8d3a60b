//! In place of `store_postgres` in a binary without PostgreSQL.

#![expect(clippy::unused_async, reason = "as the other one")]

use std::process::ExitCode;

use crate::app::POSTGRES_ABSENT;
use antwort_config::settings::PostgresUrl;
use antwort_store::ErasureTarget;

pub(super) async fn check(_url: &PostgresUrl) -> Result<ExitCode, String> {
    Err(POSTGRES_ABSENT.to_owned())
}

pub(super) async fn migrate(_url: &PostgresUrl) -> Result<ExitCode, String> {
    Err(POSTGRES_ABSENT.to_owned())
}

pub(super) async fn erase(_url: &PostgresUrl, _target: &ErasureTarget) -> Result<ExitCode, String> {
    Err(POSTGRES_ABSENT.to_owned())
}
