//! The result of a tool call, split by audience: model, user, client, program.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::question::RequiredInput;
use antwort_protocol::item::hosted::ResultFile;

/// The outcome of an executed call. Non-exhaustive, so that others can be added.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ToolOutcome {
    /// The call finished.
    Done(ToolOutput),
    /// The work was started and goes on. Its result is reported to the call's [`Callback`](super::Callback).
    Async {
        /// The executor's name of the work, for logs.
        handle: String,
        /// What the model is told meanwhile.
        say: ToolOutput,
    },
    /// The call has ended with questions to the user. Only of a call with an [`Asker`](super::Asker), which is made again
    /// with the answers.
    RequiresInput(RequiredInput),
}

/// The result of a call.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// The text that the model reads; always present.
    pub for_model: String,
    /// Pictures and other files of the result: read by a model whose server takes them, and by it alone. `for_model`
    /// says what they are.
    pub files: Vec<ResultFile>,
    /// Text shown directly to the user; the model never sees it.
    pub for_user: Option<String>,
    /// Suppresses `for_user`.
    pub silent: bool,
    /// Shows `for_user` even where the configuration keeps tools from showing text to users.
    pub forces_user_output: bool,
    /// Shown to clients in place of `for_model`, if parts of that are for the model only.
    pub for_client: Option<String>,
    /// The tool reported an error; `for_model` describes it.
    pub is_error: bool,
    /// The work goes on, and `for_model` says so: the result is reported later.
    pub is_async: bool,
    /// Where the result of the work is looked for by the gateway, if nobody reports it.
    pub task: Option<Box<StartedTask>>,
    /// The call is to be made again with the user's answers to these questions.
    pub requires_input: Option<Box<RequiredInput>>,
    /// The same result as JSON, for programs.
    pub structured: Option<Value>,
    /// Sources, for annotations of the answer.
    pub citations: Vec<Citation>,
    /// Attempts, duration and executor of the call.
    pub meta: OutputMeta,
}

/// Work of a tool whose result the gateway looks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedTask {
    /// The executor, which is filled in when it has returned.
    #[serde(default)]
    pub executor: Arc<str>,
    /// What the executor needs to look for the result, opaque to others.
    pub state: String,
    /// After which time to look first.
    pub poll: Duration,
}

/// A web page used as a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    /// URL of the page.
    pub url: String,
    /// Title of the page.
    pub title: String,
}

/// How the call was executed; filled in by the layers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OutputMeta {
    /// Time from dispatch to result.
    pub duration_ms: u64,
    /// Served from the result cache.
    pub cached: bool,
    /// Id of the executor that ran the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Arc<str>>,
    /// Number of attempts; 0 for a cached result.
    pub attempts: u32,
    /// Truncated: the model sees only head and tail.
    pub truncated: bool,
    /// The call failed and `on_error: skip` applied: the model is told to answer without the result.
    pub skipped: bool,
    /// The preferred executor, which could not be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_from: Option<Arc<str>>,
    /// When the call and its attempts were made.
    #[serde(skip)]
    pub times: Option<CallTimes>,
}

/// When a call and its attempts were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTimes {
    /// When it was dispatched.
    pub began: Instant,
    /// When it had its result.
    pub ended: Instant,
    /// When each attempt behind the first was made.
    pub retried: Vec<Instant>,
}

impl ToolOutput {
    /// A text result for the model.
    pub fn text(for_model: impl Into<String>) -> Self {
        Self { for_model: for_model.into(), ..Self::default() }
    }

    /// Bytes of the files.
    pub(crate) fn file_bytes(&self) -> usize {
        self.files.iter().map(ResultFile::size).sum()
    }

    /// Leaves out the files, and says so.
    pub(crate) fn leave_out_files(&mut self, why: &str) {
        if !self.files.is_empty() {
            self.files = Vec::new();
            self.for_model = format!("{}\n[the files of this result are not shown: {why}]", self.for_model);
        }
    }

    /// The text alone, for where no files can be kept.
    pub fn into_text(mut self) -> String {
        self.leave_out_files("it came later");
        self.for_model
    }

    /// The same text for model and user.
    pub fn user(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { for_user: Some(text.clone()), ..Self::text(text) }
    }

    /// Text for the model only; the user sees nothing.
    pub fn silent(for_model: impl Into<String>) -> Self {
        Self { silent: true, ..Self::text(for_model) }
    }

    /// An error reported by the tool.
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(message) }
    }

    /// Work that was started and goes on, with what the model is told meanwhile.
    pub fn started(for_model: impl Into<String>) -> Self {
        Self { is_async: true, ..Self::text(for_model) }
    }

    /// A structured result: serialized for the model, as a value for programs.
    pub fn value(value: Value) -> Self {
        Self { for_model: value.to_string(), structured: Some(value), ..Self::default() }
    }
}
