//! A tool call: name, arguments and journal key.

use std::fmt;

use serde_json::{Map, Value};

use crate::protocol::id::Id;

/// Parsed arguments.
pub type Arguments = Map<String, Value>;

/// A call of one tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Name of the tool in the catalogue.
    pub name: String,
    /// The arguments as the model wrote them.
    pub raw: String,
    /// The arguments, parsed and validated; empty before the validation layer.
    pub arguments: Arguments,
    /// Journal and idempotency key; `None` outside a response.
    pub key: Option<CallKey>,
}

/// Identifies one call of one response: the key in the journal, and the idempotency key sent to tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// Id of the response.
    pub response: Id,
    /// Index of the inference that requested the call, from 0.
    pub turn: u32,
    /// Index of the call within that inference, from 0.
    pub index: u32,
}

impl fmt::Display for CallKey {
    /// `resp_…/2/0`, as sent to tools.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.response, self.turn, self.index)
    }
}

impl ToolCall {
    /// A call outside any response.
    pub fn direct(name: &str, raw: String) -> Self {
        Self { name: name.to_owned(), raw, arguments: Arguments::new(), key: None }
    }

    /// A string argument; `None` if it is absent or not a string.
    pub fn text(&self, argument: &str) -> Option<&str> {
        self.arguments.get(argument).and_then(Value::as_str)
    }
}
