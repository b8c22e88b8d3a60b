//! What the engine has to know of a hosted tool, and the arguments with which one is called.

use std::collections::HashMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use antwort_protocol::error::ApiError;
use antwort_protocol::item::Item;
use antwort_protocol::tool::Tool;
use antwort_response::presentation::{CallPresenter, Presentation};

/// Reads the options of a tool in a request, at this path, as arguments.
pub(crate) type ReadOptions = fn(&Tool, &str) -> Result<Map<String, Value>, ApiError>;

/// A hosted tool: what requests call it, what runs it, and how its calls are shown.
pub(crate) struct HostedTool {
    /// Its types in requests, which all mean the same tool; the first is for messages.
    pub types: &'static [&'static str],
    /// The gateway's tool that runs its calls.
    pub executor: &'static str,
    /// The JSON Schema of the arguments that the model writes.
    pub parameters: fn() -> Value,
    /// The names of these arguments; others of the model are dropped.
    pub(crate) model_arguments: &'static [&'static str],
    /// The options of a request as further arguments.
    pub(crate) fixed_arguments: ReadOptions,
    /// Its item and events.
    pub presenter: &'static CallPresenter,
    /// Whether an item is one of its calls.
    pub is_item: fn(&Item) -> bool,
    /// The message if the gateway has no such executor.
    pub(crate) not_configured: &'static str,
    /// The message if a request has the tool twice, with different options.
    pub(crate) given_twice: &'static str,
}

impl HostedTool {
    /// How its calls are shown where those of other tools are shown like this.
    pub(crate) fn presentation(&self, of_others: Presentation) -> Presentation {
        match of_others {
            Presentation::Hidden => Presentation::Hidden,
            _ => Presentation::Hosted(self.presenter),
        }
    }
}

/// A hosted tool with the options of a request.
#[derive(Clone)]
pub(crate) struct HostedBinding {
    pub tool: &'static HostedTool,
    /// Arguments fixed by the request, which replace the model's.
    pub(crate) fixed_arguments: Map<String, Value>,
}

impl HostedBinding {
    /// The model's arguments as it wrote them, with those of the request. Text that is not an object is left to the tool's
    /// validation, which says what is wrong with it.
    pub(crate) fn arguments(&self, raw: &str) -> String {
        let Ok(written) = serde_json::from_str::<HashMap<String, &RawValue>>(raw) else {
            return raw.to_owned();
        };
        let names = self.tool.model_arguments.iter();
        let of_model = names.filter_map(|name| Some((*name, *written.get(*name)?))).collect();
        // Both parts were parsed from JSON, so that this cannot fail.
        serde_json::to_string(&Arguments { of_model, fixed: &self.fixed_arguments }).unwrap_or_default()
    }
}

struct Arguments<'a> {
    of_model: Vec<(&'static str, &'a RawValue)>,
    fixed: &'a Map<String, Value>,
}

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.of_model {
            map.serialize_entry(name, value)?;
        }
        for (name, value) in self.fixed {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
