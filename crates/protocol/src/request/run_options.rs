//! Extensions of this gateway: options of the run (`antwort`), and agent profiles (`prompt`, `agent`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::elicitation::ElicitationMode;
use crate::parse::{self, FromJson, ParseError};

/// The request field `antwort`. Absent fields are as the agent profile or the configuration says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOptions {
    /// Lower limits; higher ones are clamped to the configured ceiling, which the response shows.
    #[serde(skip_serializing_if = "RequestedLimits::is_empty")]
    pub limits: RequestedLimits,
    /// `false`: a single inference; the gateway executes no tools.
    #[serde(skip_serializing_if = "Option::is_none", alias = "execution_enabled")]
    pub execute_tools: Option<bool>,
    /// What clients see of server-side calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_visibility: Option<ToolVisibility>,
    /// Whether cached tool results may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_cache: Option<ToolCacheMode>,
    /// `true`: progress reports of running tools are streamed as `antwort:tool_progress` events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_progress: Option<bool>,
    /// The status of a response that waits for the client's functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_action_status: Option<ClientActionStatus>,
    /// What happens to an answer that does not match `text.format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<StructuredOptions>,
    /// What happens to the response when its client disconnects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<OnDisconnect>,
    /// Whether the response ends at calls of the client's functions, or waits for their outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_tools: Option<ClientToolMode>,
    /// Ways in which the client shows questions that tools ask the user; none: they are answered by the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elicitation: Vec<ElicitationMode>,
}

/// What a response does at calls of the client's functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientToolMode {
    /// It ends: the outputs are the input of another one.
    #[default]
    Pause,
    /// It asks for the outputs with an event, waits for them, and goes on.
    Inline,
    /// The same, and the event is that of A2A clients.
    A2a,
}

impl ClientToolMode {
    /// Whether the response waits for the outputs and goes on.
    pub fn waits(self) -> bool {
        matches!(self, Self::Inline | Self::A2a)
    }
}

/// What happens to a response when its client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It goes on to its end, and its stream can be resumed.
    Continue,
}

/// `antwort.structured` of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructuredOptions {
    /// If absent, as the agent profile or the configuration says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_mismatch: Option<OnMismatch>,
}

/// What happens to an answer that does not match the requested format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMismatch {
    /// The response fails if the format is `strict`, and is completed otherwise.
    #[default]
    Auto,
    /// The response fails.
    Fail,
    /// The response is completed; its `antwort.structured` has the error.
    Keep,
    /// The model is asked once more and told the error; then as [`Self::Auto`].
    Repair,
}

/// Limits of a run in a request; each at least 1, or more than 0, if it says nothing else.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestedLimits {
    /// Inferences of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Input and output tokens, over all turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<u64>,
    /// Seconds of wall-clock time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// US dollars, by the provider's prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Calls of one tool with the same arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_identical_calls: Option<u32>,
    /// Responses that follow results of asynchronous tools; may be 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_follow_ups: Option<u32>,
}

/// The status of a response that waits for the client's functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientActionStatus {
    /// `requires_action`
    RequiresAction,
    /// `completed`, as in OpenAI's API.
    Completed,
    /// `completed`, unless a server-side tool is bound to the request.
    Auto,
}

/// What clients see of server-side calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolVisibility {
    /// Items with all their events.
    #[default]
    Full,
    /// Items, without the events between their beginning and end.
    Items,
    /// A `function_call` item, without its result.
    Hidden,
}

/// Whether cached tool results may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCacheMode {
    /// As configured.
    #[default]
    Allow,
    /// Neither read nor written.
    Bypass,
}

/// The request field `prompt`: an agent profile with the variables of its instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRef {
    /// The name of the profile.
    pub id: String,
    /// By name; each `{{name}}` of the instructions is replaced.
    pub variables: BTreeMap<String, String>,
    /// Profiles have no versions: always null.
    pub version: Option<String>,
}

impl RequestedLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn check(&self) -> Result<(), ParseError> {
        let whole = [
            ("max_turns", self.max_turns.map(u64::from)),
            ("max_total_tokens", self.max_total_tokens),
            ("max_identical_calls", self.max_identical_calls.map(u64::from)),
        ];
        if let Some((name, _)) = whole.iter().find(|(_, value)| *value == Some(0)) {
            return Err(
                ParseError::invalid(*name, "expected at least 1.").with_code("integer_below_min_value")
            );
        }
        let decimal = [("max_seconds", self.max_seconds), ("max_cost_usd", self.max_cost_usd)];
        match decimal.iter().find(|(_, value)| value.is_some_and(|value| value <= 0.0)) {
            Some((name, _)) => {
                Err(ParseError::invalid(*name, "expected more than 0.").with_code("decimal_below_min_value"))
            }
            None => Ok(()),
        }
    }
}

impl FromJson for RunOptions {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let options: Self = parse::read(raw)?;
        options.limits.check().map_err(|error| error.within("limits"))?;
        Ok(options)
    }
}

impl FromJson for PromptRef {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields<'a> {
            id: String,
            #[serde(default)]
            version: Option<String>,
            #[serde(borrow, default)]
            variables: Option<BTreeMap<String, &'a RawValue>>,
        }
        let fields: Fields<'_> = parse::read(raw)?;
        if fields.version.is_some() {
            return Err(ParseError::unsupported("version", "agent profiles have no versions."));
        }
        let mut variables = BTreeMap::new();
        for (name, value) in fields.variables.unwrap_or_default() {
            let text = variable(value).map_err(|error| error.within(&name).within("variables"))?;
            variables.insert(name, text);
        }
        Ok(Self { id: fields.id, variables, version: None })
    }
}

/// Text, plain or as an `input_text` part: instructions are text only.
fn variable(raw: &RawValue) -> Result<String, ParseError> {
    #[derive(Deserialize)]
    struct Part {
        text: String,
    }
    if raw.get().starts_with('"') {
        return parse::read(raw);
    }
    match parse::peek_discriminator(raw)?.kind.as_deref() {
        Some("input_text") => parse::read::<Part>(raw).map(|part| part.text),
        _ => Err(ParseError::unsupported("", "only text is supported in instructions.")),
    }
}
