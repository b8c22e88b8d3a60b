//! The arguments of `antwort prompt`, and what answers them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::app::Assembly;
use crate::cli::duration;
use antwort_config::Settings;
use antwort_tools::PolicySubject;

/// Arguments of `antwort prompt`.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// Kind of answer
    #[arg(long, value_enum, default_value_t = Protocol::Chat)]
    pub(super) protocol: Protocol,
    /// The prompt
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) prompt: String,
    /// Instructions for the model; overrides the file
    #[arg(long, value_name = "TEXT")]
    pub(super) system_prompt: Option<String>,
    /// Agent profile of the configuration [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Model [default: the agent's, or the first one of the provider]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Base URL of the provider; overrides the file
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// API key of the provider; overrides the file
    #[arg(long, value_name = "KEY")]
    pub(super) token: Option<String>,
    /// Read the files and environment variables that an agent file names, and let its tools read files: what they hold may be
    /// sent to the server that it names
    #[arg(long)]
    pub(super) allow_files: bool,
    /// JSON file with the tools that the model may call
    #[arg(long, value_name = "FILE")]
    pub(super) tools_file: Option<PathBuf>,
    /// Run the tools of the gateway, and answer calls of other tools with an error; otherwise calls are only shown
    #[arg(long)]
    pub(super) execute_tools: bool,
    /// Timeout of a tool call, such as 30s or 1m30s [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = tool_timeout)]
    pub(super) tool_timeout: Option<Duration>,
    /// JSON file with tools that have fixed results, instead of those of the file (tools.mock)
    #[arg(long, value_name = "FILE")]
    pub(super) mock_tools: Option<PathBuf>,
    /// Delay of tools with fixed results, such as 100ms or 0 [default: the file's, or 100ms]
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub(super) mock_delay: Option<Duration>,
    /// Print the answer while it is generated
    #[arg(long)]
    pub(super) stream: bool,
    /// Images, separated by commas: paths or URLs
    #[arg(long, alias = "image", value_delimiter = ',', value_name = "PATHS")]
    pub(super) images: Vec<String>,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

/// The parts of the gateway that answer, and the agent.
#[derive(Clone, Copy)]
pub(super) struct Gateway<'a> {
    pub settings: &'a Settings,
    pub assembly: &'a Assembly,
    pub agent: Option<&'a str>,
}

impl Gateway<'_> {
    pub(super) fn subject(&self) -> PolicySubject<'_> {
        PolicySubject { tenant: TENANT, agent: self.agent }
    }

    /// Whether this tool is available.
    pub(super) fn serves(&self, name: &str) -> bool {
        let catalog = self.assembly.toolbox.catalog();
        let tool = catalog.get(name);
        tool.is_some_and(|tool| self.assembly.toolbox.check_access(self.subject(), tool.definition()).is_ok())
    }
}

/// The tenant of callers whose key has none.
pub(super) const TENANT: &str = "default";

/// Kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    /// Text
    Chat,
    /// Text, or tool calls
    Tools,
    /// Text about images
    Vision,
    /// The embedding of a text
    Embeddings,
    /// The complete response object
    Responses,
}

/// Format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For humans
    Text,
    /// For programs
    Json,
}

fn tool_timeout(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err("expected a duration, such as 100ms, 30s or 1m30s".into()),
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "expected a duration, such as 0, 100ms or 2s".into())
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Tools => "tools",
            Self::Vision => "vision",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
        }
    }
}

impl PromptArgs {
    /// Whether the output is JSON.
    pub(super) fn json(&self) -> bool {
        self.output == Output::Json || self.protocol == Protocol::Responses
    }
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("Error: cannot read {}: {error}", path.display()))
}
