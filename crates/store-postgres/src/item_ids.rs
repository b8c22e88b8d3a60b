//! The tables that lead from the ids of items to their responses.
//!
//! An id that the gateway made names its response and needs no row; those of clients and model servers do.

use std::borrow::Cow;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::Session;
use super::values::indexed;
use antwort_store::StoreError;
use antwort_store::item_index::Damaged;
use antwort_store::item_names::ItemNames;

/// What stands for the items of a response in the tables.
#[derive(Default)]
pub(super) struct IndexedNames<'a> {
    pub ids: Vec<Cow<'a, [u8]>>,
    pub states: Vec<Cow<'a, [u8]>>,
}

impl<'a> IndexedNames<'a> {
    /// Of a new response's index of items.
    pub(crate) fn to_write(index: &'a [u8], response: &str) -> Self {
        let names = ItemNames::to_write(index, response);
        let indexed = |names: std::collections::BTreeSet<&'a str>| names.into_iter().map(indexed).collect();
        Self { ids: indexed(names.ids), states: indexed(names.states) }
    }
}

const ADD_IDS: &str = "INSERT INTO item_ids (owner, item_id, response)
    SELECT $1, id, $2 FROM unnest($3::bytea[]) AS id ON CONFLICT DO NOTHING";
const ADD_STATES: &str = "INSERT INTO item_states (owner, state_key, response)
    SELECT $1, key, $2 FROM unnest($3::bytea[]) AS key ON CONFLICT DO NOTHING";
const DELETE_IDS: &str = "DELETE FROM item_ids WHERE owner = $1 AND response = $2 AND item_id = ANY($3)";
const DELETE_STATES: &str =
    "DELETE FROM item_states WHERE owner = $1 AND response = $2 AND state_key = ANY($3)";
const DELETE_ALL_IDS: &str = "DELETE FROM item_ids WHERE owner = $1 AND response = $2";
const DELETE_ALL_STATES: &str = "DELETE FROM item_states WHERE owner = $1 AND response = $2";

/// Replaces the rows of the items that were in a response's index by those of the items that are.
pub(super) async fn replace(
    session: Session<'_>,
    key: (Uuid, i64),
    response: &str,
    before: &[u8],
    after: &[u8],
) -> Result<(), StoreError> {
    let old = match ItemNames::read(before, response) {
        Ok(names) => names,
        Err(Damaged) => {
            remove_all(session, key).await?;
            ItemNames::default()
        }
    };
    let new = ItemNames::to_write(after, response);
    let gone = old.ids.difference(&new.ids).copied();
    change(session, DELETE_IDS, key, gone).await?;
    change(session, ADD_IDS, key, new.ids.difference(&old.ids).copied()).await?;
    change(session, DELETE_STATES, key, old.states.difference(&new.states).copied()).await?;
    change(session, ADD_STATES, key, new.states.difference(&old.states).copied()).await
}

async fn change<'a>(
    session: Session<'_>,
    sql: &'static str,
    (response, owner): (Uuid, i64),
    names: impl Iterator<Item = &'a str>,
) -> Result<(), StoreError> {
    let names: Vec<Cow<'_, [u8]>> = names.map(indexed).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
    let params: [super::session::Param<'_>; 3] =
        [(&owner, Type::INT8), (&response, Type::UUID), (&names, Type::BYTEA_ARRAY)];
    session.execute(sql, &params).await.map(drop)
}

/// Which ids a damaged index had is not known: its rows are searched for.
async fn remove_all(session: Session<'_>, (response, owner): (Uuid, i64)) -> Result<(), StoreError> {
    for sql in [DELETE_ALL_IDS, DELETE_ALL_STATES] {
        session.execute(sql, &[(&owner, Type::INT8), (&response, Type::UUID)]).await?;
    }
    Ok(())
}
