//! Lists with cursors: an owner's responses, and the input items of one.
//!
//! The lengths of texts are known without reading them; only the elements of the page are read.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::error::corrupt;
use super::keys::{ResponseKey, id_of};
use super::read;
use super::session::{Param, Session};
use super::texts::{self, ItemRow};
use super::values::{get, text};
use antwort_protocol::id::Id;
use antwort_protocol::response::ResponseStatus;
use antwort_store::item_index::{Damaged, entries};
use antwort_store::paging::{Element, PageRange, is_response_id};
use antwort_store::row_policy::now;
use antwort_store::{Direction, Page, PageRequest, ResponseFilter, StoreError};

macro_rules! range_sql {
    () => {
        "key > $2 AND key < $3 AND (expires_at IS NULL OR expires_at > $4) AND unlisted IS NULL"
    };
}
macro_rules! all_sql {
    () => {
        concat!("SELECT key, id, octet_length(body) FROM responses WHERE owner = $1 AND ", range_sql!())
    };
}
// Of each status by the index, so that those of a model alone are found by it, too.
macro_rules! of_model_sql {
    () => {
        concat!(
            "SELECT r.key, r.id, r.bytes FROM unnest($6::text[]) AS s(status) CROSS JOIN LATERAL
                (SELECT key, id, octet_length(body) AS bytes FROM responses WHERE owner = $1 AND status = s.status
                    AND substring(model FOR 256) = substring($7::bytea FOR 256) AND model = $7 AND ",
            range_sql!()
        )
    };
}

/// Each list has an index that holds its rows in its order, so that a page costs what it has, not what it leaves out.
const ALL: InOrder = InOrder {
    ascending: concat!(all_sql!(), " ORDER BY key ASC LIMIT $5"),
    descending: concat!(all_sql!(), " ORDER BY key DESC LIMIT $5"),
};
const OF_STATUS: InOrder = InOrder {
    ascending: concat!(all_sql!(), " AND status = $6 ORDER BY key ASC LIMIT $5"),
    descending: concat!(all_sql!(), " AND status = $6 ORDER BY key DESC LIMIT $5"),
};
const OF_MODEL: InOrder = InOrder {
    ascending: concat!(of_model_sql!(), " ORDER BY key ASC LIMIT $5) r ORDER BY r.key ASC LIMIT $5"),
    descending: concat!(of_model_sql!(), " ORDER BY key DESC LIMIT $5) r ORDER BY r.key DESC LIMIT $5"),
};

/// One query, in both orders.
struct InOrder {
    ascending: &'static str,
    descending: &'static str,
}

const BODIES: &str = "SELECT key, body FROM responses WHERE owner = $1 AND key = ANY($2)";

/// The owner's responses. They are ordered by key, and so by time.
pub(super) async fn responses(
    session: Session<'_>,
    owner: Option<i64>,
    page: &PageRequest,
    filter: &ResponseFilter,
) -> Result<Page, StoreError> {
    let cursors: Vec<&str> = [&page.after, &page.before].into_iter().flatten().map(String::as_str).collect();
    let known = cursor_keys(session, owner, &cursors).await?;
    let range = PageRange::new(page, |cursor| Ok(known.get(cursor).copied()))?;
    let Some(owner) = owner else { return Ok(Page { data: Vec::new(), has_more: false }) };
    let rows = rows(session, owner, &range, filter).await?;
    let element = |row: &Row| {
        let key: Uuid = get(row, 0)?;
        let bytes = get::<i32>(row, 2)?.unsigned_abs().into();
        Ok(Element { id: id_of(key, get(row, 1)?)?, bytes, key })
    };
    let (chosen, has_more) = range.choose(rows.iter().map(element))?;
    let keys: Vec<Uuid> = chosen.iter().map(|element| element.key).collect();
    let rows = session.query(BODIES, &[(&owner, Type::INT8), (&keys, Type::UUID_ARRAY)]).await?;
    let mut bodies: HashMap<Uuid, Arc<str>> = HashMap::with_capacity(rows.len());
    for row in &rows {
        bodies.insert(get(row, 0)?, text(row, 1)?.into());
    }
    let read = |element: Element<Uuid>| {
        let body = bodies.remove(&element.key).ok_or_else(|| corrupt("a row is gone within a snapshot"));
        Ok((element.id, body?))
    };
    Ok(Page { data: chosen.into_iter().map(read).collect::<Result<_, StoreError>>()?, has_more })
}

/// The rows that the page is chosen from, in the order in which they are fetched.
async fn rows(
    session: Session<'_>,
    owner: i64,
    range: &PageRange<Uuid>,
    filter: &ResponseFilter,
) -> Result<Vec<Row>, StoreError> {
    let model = filter.model.as_ref().map(|model| model.as_bytes());
    let status = filter.status.map(ResponseStatus::as_str);
    let statuses = match filter.status {
        Some(status) => vec![status.as_str()],
        None => ResponseStatus::ALL.map(ResponseStatus::as_str).to_vec(),
    };
    let (above, below) = (range.above.unwrap_or(Uuid::nil()), range.below.unwrap_or(Uuid::max()));
    let fetch = i64::try_from(range.fetch()).unwrap_or(i64::MAX);
    let now = now();
    let mut params: Vec<Param<'_>> = vec![
        (&owner, Type::INT8),
        (&above, Type::UUID),
        (&below, Type::UUID),
        (&now, Type::INT8),
        (&fetch, Type::INT8),
    ];
    let sql = match (&model, &status) {
        (None, None) => ALL,
        (None, Some(status)) => {
            params.push((status, Type::TEXT));
            OF_STATUS
        }
        (Some(model), _) => {
            params.extend([(&statuses as _, Type::TEXT_ARRAY), (model as _, Type::BYTEA)]);
            OF_MODEL
        }
    };
    session.query(if range.ascending { sql.ascending } else { sql.descending }, &params).await
}

/// The keys of cursors; of those that are none nothing. That of a deleted response still is a place.
async fn cursor_keys<'a>(
    session: Session<'_>,
    owner: Option<i64>,
    cursors: &[&'a str],
) -> Result<HashMap<&'a str, Uuid>, StoreError> {
    let keys: Vec<Uuid> = cursors.iter().map(|cursor| ResponseKey::of(cursor).uuid).collect();
    let live = match owner {
        Some(owner) if !keys.is_empty() => read::live(session, owner, &keys).await?,
        _ => Vec::new(),
    };
    let is_place = |cursor: &str, key: &Uuid| live.contains(key) || is_response_id(cursor);
    Ok(cursors.iter().copied().zip(keys).filter(|(cursor, key)| is_place(cursor, key)).collect())
}

const INPUT: &str = "SELECT item_index FROM responses
    WHERE key = $1 AND owner = $2 AND (expires_at IS NULL OR expires_at > $3)";

/// The input items of a response; `None` if there is no such response.
pub(super) async fn input_items(
    session: Session<'_>,
    owner: i64,
    id: &str,
    page: &PageRequest,
) -> Result<Option<Page>, StoreError> {
    let key = ResponseKey::of(id).uuid;
    let params: [Param<'_>; 3] = [(&key, Type::UUID), (&owner, Type::INT8), (&now(), Type::INT8)];
    let Some(row) = session.query_opt(INPUT, &params).await? else { return Ok(None) };
    let mut input = entries(get(&row, 0)?).map_err(corrupt)?;
    input.retain(|entry| entry.direction == Direction::Input);
    let range = PageRange::new(page, |cursor| Ok(input.iter().position(|entry| entry.id == cursor)))?;
    let first = range.above.map_or(0, |above| above + 1);
    let last = range.below.unwrap_or(input.len()).max(first);
    let elements =
        input.get(first..last).unwrap_or_default().iter().map(|entry| {
            Ok(Element { id: Id::from(entry.id), bytes: entry.wire.len as u64, key: entry.wire })
        });
    let (chosen, has_more) = match range.ascending {
        true => range.choose(elements)?,
        false => range.choose(elements.rev())?,
    };
    let places: Vec<_> = chosen.iter().map(|element| (ItemRow { key, turn: None }, element.key)).collect();
    let texts = texts::read(session, owner, &places).await?;
    if texts.len() != chosen.len() {
        return Err(corrupt(Damaged));
    }
    let data = chosen.into_iter().zip(texts).map(|(element, text)| (element.id, Arc::from(text)));
    Ok(Some(Page { data: data.collect(), has_more }))
}
