//! A call: which tool, with what, and under which key it is journalled.

use std::fmt;

use serde_json::{Map, Value};

use crate::protocol::id::Id;

/// A call's arguments, parsed.
pub type Arguments = Map<String, Value>;

/// A call of one tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool, as the catalogue names it.
    pub name: String,
    /// The arguments as the model wrote them.
    pub raw: String,
    /// The same, parsed and validated; empty until the validation layer has passed.
    pub arguments: Arguments,
    /// Which call of which turn this is; `None` outside a response.
    pub key: Option<CallKey>,
}

/// Names one call of one response, for the journal and for tools that can tell a repetition by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// The response.
    pub response: Id,
    /// Which inference asked for it: 0, 1, 2 …
    pub turn: u32,
    /// Which of that inference's calls: 0, 1, 2 …
    pub index: u32,
}

impl fmt::Display for CallKey {
    /// `resp_…/2/0`: what is sent to tools as an idempotency key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.response, self.turn, self.index)
    }
}

impl ToolCall {
    /// A call outside any response.
    pub fn direct(name: &str, raw: String) -> Self {
        Self { name: name.to_owned(), raw, arguments: Arguments::new(), key: None }
    }

    /// A string argument; `None` where it is absent or no string.
    pub fn text(&self, argument: &str) -> Option<&str> {
        self.arguments.get(argument).and_then(Value::as_str)
    }
}
