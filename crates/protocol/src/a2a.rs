//! What A2A (Agent2Agent) clients are sent when they are to run a tool: the data of an event `input-required`.
//!
//! Their answers are read by [`request::response_input`](super::request).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::id::Id;
use super::json::RawJson;

/// The event's name.
pub const INPUT_REQUIRED: &str = "input-required";

/// The data of the event. It has no sequence number, which is the `id` of its frame.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aToolCall {
    /// The id of the response.
    pub task_id: Id,
    /// The `call_id`, by which the call is answered.
    pub(crate) input_id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The call.
    pub tool_call: A2aFunction,
    /// Milliseconds from the event on in which the call can be answered.
    pub timeout: u64,
}

/// The tool that is called.
#[derive(Debug, Clone, Serialize)]
pub struct A2aFunction {
    /// Its name; `NAMESPACE__NAME` where it was declared within a namespace.
    pub name: String,
    /// A JSON object.
    pub arguments: RawJson,
}

impl A2aToolCall {
    /// The event of one call.
    pub fn new(task_id: Id, input_id: String, name: String, arguments: RawJson, timeout: u64) -> Self {
        Self { task_id, input_id, kind: "tool-call", tool_call: A2aFunction { name, arguments }, timeout }
    }

    /// The `call_id` in the data of such an event.
    pub fn call_id(data: &[u8]) -> Result<String, serde_json::Error> {
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow, rename = "inputId")]
            input_id: Cow<'a, str>,
        }
        serde_json::from_slice::<Data<'_>>(data).map(|data| data.input_id.into_owned())
    }
}
