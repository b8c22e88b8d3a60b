//! Reads of a response by its id.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::error::corrupt;
use super::keys::ResponseKey;
use super::session::{Param, Session};
use super::values::{get, number, text};
use antwort_protocol::id::Id;
use antwort_store::row_policy::now;
use antwort_store::{Owner, StoreError};

const RESPONSE: &str =
    "SELECT octet_length(s.body)::bigint, CASE WHEN octet_length(s.body) <= $5 THEN s.body END
    FROM responses s JOIN owners o ON o.key = s.owner
    WHERE s.key = $3 AND o.tenant = $1 AND o.principal = $2 AND (s.expires_at IS NULL OR s.expires_at > $4)";

/// The response object as it was sent. Its length, which is known without reading it, is checked first.
pub(super) async fn response(
    session: Session<'_>,
    owner: &Owner,
    id: &str,
    max_bytes: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let params: [Param<'_>; 5] = [
        (&owner.tenant.as_bytes(), Type::BYTEA),
        (&owner.principal.as_bytes(), Type::BYTEA),
        (&ResponseKey::of(id).uuid, Type::UUID),
        (&now(), Type::INT8),
        (&number(max_bytes), Type::INT8),
    ];
    let Some(row) = session.query_opt(RESPONSE, &params).await? else { return Ok(None) };
    let bytes = get::<i64>(&row, 0)?.unsigned_abs();
    if bytes > max_bytes {
        return Err(StoreError::TooLarge { bytes });
    }
    Ok(Some(text(&row, 1)?.into()))
}

const TRACES: &str = "SELECT key, trace FROM responses
    WHERE owner = $1 AND key = ANY($2) AND (expires_at IS NULL OR expires_at > $3)";

/// The accounts of the runs of responses.
pub(super) async fn traces(
    session: Session<'_>,
    owner: i64,
    ids: &[Id],
) -> Result<Vec<Option<Arc<str>>>, StoreError> {
    let keys: Vec<Uuid> = ids.iter().map(|id| ResponseKey::of(id.as_str()).uuid).collect();
    let params: [Param<'_>; 3] = [(&owner, Type::INT8), (&keys, Type::UUID_ARRAY), (&now(), Type::INT8)];
    let mut found: HashMap<Uuid, Arc<str>> = HashMap::new();
    for row in session.query(TRACES, &params).await? {
        if let Some(bytes) = get::<Option<&[u8]>>(&row, 1)? {
            let text = std::str::from_utf8(bytes).map_err(corrupt)?;
            found.insert(get(&row, 0)?, text.into());
        }
    }
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

const LIVE: &str = "SELECT key FROM responses
    WHERE owner = $1 AND key = ANY($2) AND (expires_at IS NULL OR expires_at > $3)";

/// Those of some responses of this owner that have not expired.
pub(super) async fn live(session: Session<'_>, owner: i64, keys: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let params: [Param<'_>; 3] = [(&owner, Type::INT8), (&keys, Type::UUID_ARRAY), (&now(), Type::INT8)];
    session.query(LIVE, &params).await?.iter().map(|row| get(row, 0)).collect()
}
