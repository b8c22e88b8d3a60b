//! What servers say of tasks, in either dialect.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::elicitation::{self, InputRequests};
use super::notices::sanitize_for_error;
use super::protocol_error::protocol_error;
use crate::error::McpError;
use crate::task::{RemoteTask, TaskDialect, poll_interval};

/// Maximum bytes of an id.
const MAX_ID_BYTES: usize = 1024;

/// A task as a server describes it, in either dialect.
#[derive(Debug)]
pub(super) struct TaskReport {
    pub id: String,
    pub poll: Duration,
    pub status: TaskStatus,
}

/// The status of a task, with what comes with it in the extension.
#[derive(Debug)]
pub(super) enum TaskStatus {
    Working,
    InputRequired(InputRequests),
    /// With the result of the call.
    Completed(Option<Box<RawValue>>),
    Failed(Option<McpError>),
    Cancelled(Option<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTask<'a> {
    task_id: String,
    status: String,
    /// What is not of the right type in these is left out.
    #[serde(default)]
    status_message: Option<Value>,
    /// Version 2025-11-25.
    #[serde(default)]
    poll_interval: Option<Value>,
    /// The extension.
    #[serde(default)]
    poll_interval_ms: Option<Value>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    input_requests: Option<&'a RawValue>,
}

/// Reads a task, or the state of one.
pub(super) fn read(raw: &RawValue) -> Result<TaskReport, McpError> {
    let malformed = |why: &str| McpError::Malformed(sanitize_for_error(&format!("task: {why}")));
    let task: RawTask<'_> = serde_json::from_str(raw.get()).map_err(|error| malformed(&error.to_string()))?;
    if task.task_id.is_empty() || task.task_id.len() > MAX_ID_BYTES {
        return Err(malformed("the id must have 1 to 1024 bytes"));
    }
    let status = match task.status.as_str() {
        "working" => TaskStatus::Working,
        "input_required" => {
            let requests = task.input_requests.map(elicitation::read_requests).transpose();
            TaskStatus::InputRequired(requests.map_err(|error| malformed(&error))?.unwrap_or_default())
        }
        "completed" => TaskStatus::Completed(task.result.map(ToOwned::to_owned)),
        "failed" => TaskStatus::Failed(task.error.map(protocol_error)),
        "cancelled" => TaskStatus::Cancelled(
            task.status_message.as_ref().and_then(Value::as_str).map(sanitize_for_error),
        ),
        other => return Err(malformed(&format!("unknown status {other}"))),
    };
    let poll =
        poll_interval(task.poll_interval.or(task.poll_interval_ms).and_then(|interval| interval.as_f64()));
    Ok(TaskReport { id: task.task_id, poll, status })
}

/// Reads the task that a call has become. `task`: that of version 2025-11-25, in which it is a member of the result. It is
/// also read if it has ended already.
pub(super) fn created(
    raw: &RawValue,
    task: Option<&RawValue>,
    say: Option<String>,
) -> Result<RemoteTask, McpError> {
    let (dialect, raw) = match task {
        Some(task) => (TaskDialect::Core, task),
        None => (TaskDialect::Extension, raw),
    };
    let TaskReport { id, poll, .. } = read(raw)?;
    Ok(RemoteTask { id, dialect, poll, say })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(value: &Value) -> Result<TaskReport, McpError> {
        read(&serde_json::value::to_raw_value(value).unwrap())
    }

    #[test]
    fn both_dialects_are_read() {
        let core =
            report(&json!({"taskId": "t", "status": "working", "ttl": 60000, "pollInterval": 1500})).unwrap();
        assert_eq!((core.id.as_str(), core.poll), ("t", Duration::from_millis(1500)));
        assert!(matches!(core.status, TaskStatus::Working));
        let content = json!([{"type": "text", "text": "x"}]);
        let odd =
            report(&json!({"taskId": "t", "status": "working", "pollInterval": "soon", "statusMessage": 5}));
        assert_eq!(odd.unwrap().poll, Duration::from_secs(5));
        let done = json!({"taskId": "t", "status": "completed", "ttlMs": null, "pollIntervalMs": 700,
            "result": {"content": content}});
        let done = report(&done).unwrap();
        assert_eq!(done.poll, Duration::from_millis(700));
        assert!(matches!(done.status, TaskStatus::Completed(Some(_))));
        let failed =
            report(&json!({"taskId": "t", "status": "failed", "error": {"code": -32603, "message": "m"}}));
        let TaskStatus::Failed(Some(McpError::Protocol { code, message })) = failed.unwrap().status else {
            panic!("it has an error")
        };
        assert_eq!((code, message.as_str()), (-32603, "m"));
        for bad in [
            json!({"status": "working"}),
            json!({"taskId": "", "status": "working"}),
            json!({"taskId": "x".repeat(2000), "status": "working"}),
            json!({"taskId": "t", "status": "done"}),
        ] {
            assert!(report(&bad).is_err(), "{bad}");
        }
    }
}
