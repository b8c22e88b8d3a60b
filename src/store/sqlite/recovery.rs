//! Ends responses whose process is gone, or whose end could not be stored: `failed`, with what was stored of them.

use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::orphans::END_NOT_STORED;
use super::{OUTPUT, journal, running};
use crate::protocol::error::ErrorBody;
use crate::protocol::request::ServiceTier;
use crate::protocol::response::ResponseStatus;

/// Why a row is not ended by its own run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Its process is gone.
    Restarted,
    /// Its end could not be stored.
    NotStored,
}

/// A row that its run will not end.
pub(super) struct OrphanedRow {
    pub key: i64,
    /// The column `orphan`.
    pub orphan: Option<i64>,
    pub body: String,
    /// Whether its owner deleted it while it ran.
    pub is_deleted: bool,
}

pub(super) fn end(
    connection: &Connection,
    row: &OrphanedRow,
    now: i64,
    expires_at: Option<i64>,
) -> rusqlite::Result<()> {
    let OrphanedRow { key, orphan, body, .. } = row;
    let (key, cause) = (*key, Cause::of(*orphan));
    end_items(connection, key)?;
    journal::recover_calls(connection, key, now)?;
    let output = journal::output(connection, key)?;
    // A body that cannot be parsed stays as it is: at least the row's status is right.
    let ended = edit(body, |response| end_response(response, cause, output)).unwrap_or_else(|| body.clone());
    connection
        .prepare_cached(
            "UPDATE responses SET status = ?1, finished_at = ?2, expires_at = ?3, body = ?4 WHERE key = ?5",
        )?
        .execute(params![ResponseStatus::Failed.as_str(), now, expires_at, ended, key])?;
    running::remove(connection, key)
}

/// Marks open items: `incomplete` for clients, hidden from the model.
fn end_items(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    let outputs: Vec<(i64, String)> = connection
        .prepare_cached("SELECT position, wire FROM items WHERE response = ?1 AND side = ?2")?
        .query_map(params![key, OUTPUT], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (position, wire) in outputs {
        if let Some(wire) = edit(&wire, end_item) {
            connection
                .prepare_cached(
                    "UPDATE items SET wire = ?1, history = '' WHERE response = ?2 AND position = ?3",
                )?
                .execute(params![wire, key, position])?;
        }
    }
    Ok(())
}

/// Edits a JSON object; `None` if it is no object or nothing was changed.
fn edit(json: &str, change: impl FnOnce(&mut Map<String, Value>) -> bool) -> Option<String> {
    let mut object: Map<String, Value> = serde_json::from_str(json).ok()?;
    change(&mut object).then(|| Value::Object(object).to_string())
}

impl Cause {
    fn of(orphan: Option<i64>) -> Self {
        if orphan == Some(END_NOT_STORED) { Self::NotStored } else { Self::Restarted }
    }

    fn error(self) -> ErrorBody {
        let (code, message) = match self {
            Self::Restarted => (
                "server_restarted",
                "The gateway was stopped while it made this response. Send the request again.",
            ),
            Self::NotStored => {
                ("storage_error", "How this response ended could not be stored. Send the request again.")
            }
        };
        ErrorBody {
            message: message.to_owned(),
            kind: "server_error".into(),
            param: None,
            code: Some(code.into()),
        }
    }
}

fn end_response(response: &mut Map<String, Value>, cause: Cause, journalled: Option<Vec<String>>) -> bool {
    let error = cause.error();
    response.insert("status".to_owned(), ResponseStatus::Failed.as_str().into());
    response.insert("error".to_owned(), serde_json::to_value(error).unwrap_or_default());
    response.insert("completed_at".to_owned(), Value::Null);
    // A running response shows the requested tier.
    response.insert("service_tier".to_owned(), ServiceTier::Default.as_str().into());
    if let Some(items) = journalled {
        let items = items.iter().filter_map(|item| serde_json::from_str(item).ok()).collect();
        response.insert("output".to_owned(), Value::Array(items));
    }
    if let Some(Value::Array(output)) = response.get_mut("output") {
        output.iter_mut().filter_map(Value::as_object_mut).for_each(|item| {
            end_item(item);
        });
    }
    true
}

/// Marks an open item as incomplete. Returns whether it was open.
fn end_item(item: &mut Map<String, Value>) -> bool {
    const OPEN: &[&str] = &["in_progress", "searching", "interpreting", "generating", "calling"];
    let open = item.get("status").and_then(Value::as_str).is_some_and(|status| OPEN.contains(&status));
    if open {
        item.insert("status".to_owned(), "incomplete".into());
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_body_keeps_its_keys_in_order() {
        let body = r#"{"id":"resp_1","completed_at":5,"status":"in_progress","error":null,"output":[{"type":"message","status":"in_progress"},{"type":"message","status":"completed"}],"service_tier":"flex","top_p":1.0}"#;
        assert_eq!(
            edit(body, |response| end_response(response, Cause::Restarted, None)).unwrap(),
            concat!(
                r#"{"id":"resp_1","completed_at":null,"status":"failed","error":{"message":"The gateway was "#,
                r#"stopped while it made this response. Send the request again.","type":"server_error","#,
                r#""param":null,"code":"server_restarted"},"output":[{"type":"message","status":"incomplete"},"#,
                r#"{"type":"message","status":"completed"}],"service_tier":"default","top_p":1.0}"#
            )
        );
    }

    #[test]
    fn only_open_items_change() {
        assert_eq!(edit(r#"{"status":"completed"}"#, end_item), None);
        assert_eq!(edit("[]", end_item), None);
        assert_eq!(
            edit(r#"{"status":"calling","id":"a"}"#, end_item).unwrap(),
            r#"{"status":"incomplete","id":"a"}"#
        );
    }
}
