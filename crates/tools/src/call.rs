//! A tool call: name, arguments, journal key and callback.

use serde_json::{Map, Value};

use super::call_key::CallKey;
use super::callback::Callback;
use super::question::{Asker, GivenInput};

/// Parsed arguments.
pub type Arguments = Map<String, Value>;

/// A call of one tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Name of the tool in the catalogue.
    pub name: String,
    /// The arguments as the model wrote them; behind the validation layer with the defaults of required ones that are
    /// absent.
    pub raw: String,
    /// The arguments, parsed and validated; empty before the validation layer.
    pub arguments: Arguments,
    /// Journal and idempotency key; `None` outside a response.
    pub key: Option<CallKey>,
    /// Where the result is reported if the work goes on; `None`: the call returns with its result.
    pub callback: Option<Callback>,
    /// Asks the user during the call; `None`: the client cannot show questions.
    pub asker: Option<Asker>,
    /// The answers to the questions that an earlier attempt of the call has ended with.
    pub input: Option<GivenInput>,
}

impl ToolCall {
    /// A call outside any response.
    pub fn direct(name: &str, raw: String) -> Self {
        let (arguments, name) = (Arguments::new(), name.to_owned());
        Self { name, raw, arguments, key: None, callback: None, asker: None, input: None }
    }

    /// A string argument; `None` if it is absent or not a string.
    pub fn text(&self, argument: &str) -> Option<&str> {
        self.arguments.get(argument).and_then(Value::as_str)
    }
}
