//! The chain of responses before a continuation.
//!
//! The chain is walked twice: by the columns of ids and lengths, which gives its size, and for its texts.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};

use super::conversation_context::{self, VisibleItems};
use super::error::{corrupt, database};
use super::keys::KeyRange;
use super::owners;
use super::read::{bytes, item, text};
use antwort_protocol::id::{Id, is_conversation_id};
use antwort_protocol::item::Item;
use antwort_protocol::response::ResponseStatus;
use antwort_store::item_index::{self, entries};
use antwort_store::retention::Retention;
use antwort_store::row_policy::{MAX_CHAIN_LENGTH, now};
use antwort_store::size::Size;
use antwort_store::{Lineage, Owner, ReadLimit, StoreError};

/// The chain's items as the model saw them, oldest first.
pub(super) fn lineage(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    limit: ReadLimit,
    retention: Retention,
) -> Result<Option<Lineage>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let Some(owner) = owners::find(&snapshot, owner).map_err(database)? else {
        return Ok(None);
    };
    let mut chain = Chain::default();
    chain.walk(&snapshot, owner, id, limit, retention)?;
    let Some(root) = chain.root()? else {
        return Ok(None);
    };
    let status = status(&chain.status)?;
    let (mut items, mut states) = (Vec::new(), HashMap::new());
    if let Some(conversation) = &chain.conversation {
        conversation.read(&snapshot, &mut items, &mut states)?;
    }
    for link in chain.links.iter().rev() {
        link.read(&snapshot, &mut items, &mut states)?;
    }
    Ok(Some(Lineage { items, states, root, status }))
}

/// A chain, from its newest response.
#[derive(Default)]
struct Chain {
    /// The status of the newest.
    status: String,
    links: Vec<Link>,
    /// The id of the oldest, and of the one before it that does not exist or was not looked at.
    oldest: Option<(Id, Option<Id>)>,
    /// What the oldest has read of the conversation that it was made in.
    conversation: Option<VisibleItems>,
}

/// A response of a chain.
struct Link {
    key: i64,
    index: Vec<u8>,
    /// The indexes of its turns, if it still runs.
    turns: Vec<Vec<u8>>,
}

const LINK: &str = "SELECT key, previous_id, finished_at IS NULL, status, item_index FROM responses
    WHERE key BETWEEN ?1 AND ?2 AND id = ?3 AND +owner = ?4 AND (expires_at IS NULL OR expires_at > ?5)
        AND unlisted IS NULL";
const TURN_INDEXES: &str = "SELECT item_index FROM turns WHERE response = ?1 ORDER BY turn";
const TEXTS: &str = "SELECT items FROM responses WHERE key = ?1";
const TURN_TEXTS: &str = "SELECT items FROM turns WHERE response = ?1 ORDER BY turn";

impl Chain {
    fn walk(
        &mut self,
        connection: &Connection,
        owner: i64,
        newest: &str,
        limit: ReadLimit,
        retention: Retention,
    ) -> Result<(), StoreError> {
        let mut statement = connection.prepare_cached(LINK).map_err(database)?;
        let (mut size, now) = (Size::new(limit), now());
        let mut next = Some(Id::from(newest));
        while let Some(id) = next.take().filter(|_| self.links.len() < MAX_CHAIN_LENGTH) {
            let KeyRange { first, last } = KeyRange::of(id.as_str());
            let read = |row: &Row<'_>| self.add(row);
            let found = statement
                .query_row(params![first, last, id.as_str(), owner, now], read)
                .optional()
                .map_err(database)?;
            let Some((previous, is_running)) = found else { break };
            self.oldest = Some((id, previous.clone()));
            next = previous;
            if let Some(link) = self.links.last_mut() {
                if is_running {
                    link.turns = turn_indexes(connection, link.key).map_err(database)?;
                }
                link.measure(&mut size)?;
                if let Some(conversation) = next.take_if(|id| is_conversation_id(id.as_str())) {
                    let place = (owner, link.key);
                    let oldest = retention.oldest_use(now);
                    let id = conversation.as_str();
                    self.conversation =
                        conversation_context::of_response(connection, place, id, oldest, &mut size)?;
                    if self.conversation.is_some()
                        && let Some((_, before)) = &mut self.oldest
                    {
                        *before = None;
                    }
                }
            }
        }
        size.check()
    }

    /// Adds a link; returns the id before it, and whether it still runs.
    fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<(Option<Id>, bool)> {
        if self.links.is_empty() {
            self.status = text(row, 3)?.to_owned();
        }
        let index = bytes(row, 4)?.to_owned();
        self.links.push(Link { key: row.get(0)?, index, turns: Vec::new() });
        Ok((row.get::<_, Option<String>>(1)?.map(Id::from), row.get(2)?))
    }

    /// The first response of the chain; `None` if there is no chain.
    fn root(&mut self) -> Result<Option<Id>, StoreError> {
        match self.oldest.take() {
            None => Ok(None),
            Some((_, Some(_))) if self.links.len() >= MAX_CHAIN_LENGTH => Err(StoreError::ChainTooLong),
            Some((_, Some(missing))) => Err(StoreError::BrokenChain { missing }),
            Some((root, None)) => Ok(Some(root)),
        }
    }
}

fn turn_indexes(connection: &Connection, key: i64) -> rusqlite::Result<Vec<Vec<u8>>> {
    connection.prepare_cached(TURN_INDEXES)?.query_map([key], |row| row.get(0))?.collect()
}

impl Link {
    fn measure(&self, size: &mut Size) -> Result<(), StoreError> {
        for index in [&self.index].into_iter().chain(&self.turns) {
            for entry in entries(index).map_err(corrupt)? {
                let Some(seen) = entry.seen() else { continue };
                let state = entry.state.map_or(0, |(_, span)| span.len);
                size.add(seen.len.saturating_add(state) as u64, 1)?;
            }
        }
        Ok(())
    }

    fn read(
        &self,
        connection: &Connection,
        items: &mut Vec<Item>,
        states: &mut HashMap<usize, Arc<str>>,
    ) -> Result<(), StoreError> {
        let read = |row: &Row<'_>, index: &[u8], items: &mut _, states: &mut _| {
            Ok::<_, rusqlite::Error>(add_seen(index, bytes(row, 0)?, items, states))
        };
        let mut statement = connection.prepare_cached(TEXTS).map_err(database)?;
        statement.query_row([self.key], |row| read(row, &self.index, items, states)).map_err(database)??;
        if self.turns.is_empty() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(TURN_TEXTS).map_err(database)?;
        let mut rows = statement.query([self.key]).map_err(database)?;
        for index in &self.turns {
            let Some(row) = rows.next().map_err(database)? else { break };
            read(row, index, items, states).map_err(database)??;
        }
        Ok(())
    }
}

/// Adds what the model sees of a row's items.
fn add_seen(
    index: &[u8],
    texts: &[u8],
    items: &mut Vec<Item>,
    states: &mut HashMap<usize, Arc<str>>,
) -> Result<(), StoreError> {
    for entry in entries(index).map_err(corrupt)? {
        let Some(seen) = entry.seen() else { continue };
        if let Some((_, span)) = entry.state {
            states.insert(items.len(), item_index::text(texts, span).map_err(corrupt)?.into());
        }
        items.push(item(item_index::text(texts, seen).map_err(corrupt)?)?);
    }
    Ok(())
}

fn status(name: &str) -> Result<ResponseStatus, StoreError> {
    let name: StrDeserializer<'_, ValueError> = name.into_deserializer();
    ResponseStatus::deserialize(name).map_err(corrupt)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn a_chain_that_is_cut_is_too_long_only_at_the_limit() {
        let cut_at = |count: usize| {
            let link = |_| Link { key: 1, index: Vec::new(), turns: Vec::new() };
            let oldest = Some((Id::from("resp_oldest"), Some(Id::from("resp_before"))));
            Chain { links: (0..count).map(link).collect(), oldest, ..Chain::default() }.root()
        };
        assert!(matches!(cut_at(MAX_CHAIN_LENGTH), Err(StoreError::ChainTooLong)));
        assert!(matches!(cut_at(MAX_CHAIN_LENGTH - 1), Err(StoreError::BrokenChain { .. })));
        assert!(matches!(cut_at(1), Err(StoreError::BrokenChain { .. })));
    }

    #[test]
    fn rows_are_found_by_their_keys() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for (sql, step) in [
            (LINK, "SEARCH responses USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
            (TEXTS, "SEARCH responses USING INTEGER PRIMARY KEY (rowid=?)"),
            (TURN_INDEXES, "SEARCH turns USING PRIMARY KEY (response=?)"),
            (TURN_TEXTS, "SEARCH turns USING PRIMARY KEY (response=?)"),
        ] {
            assert_eq!(schema::plan(&connection, sql), [step]);
        }
    }
}
