//! `antwort prompt`: one prompt to a model from the command line, on the engine that serves requests.
//!
//! No listener is opened and nothing is stored. `setup` prepares the settings, `request` the request; `answer` follows
//! the run, `view` prints it. Messages with a prefix such as `prompt-agent:` are those of the Go program of the same
//! purpose, so that scripts that match them keep working.

mod answer;
mod embeddings;
mod images;
mod request;
mod setup;
mod tools_file;
mod unserved;
mod view;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::offline;
use crate::app::Assembly;
use crate::app::tools::ExtraTools;
use crate::config::import::go_duration;
use crate::config::{LoadOptions, MockTool, Settings};
use crate::tools::{MockExecutor, PolicySubject};
use setup::Setup;

/// Arguments of `antwort prompt`.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// Kind of answer
    #[arg(long, value_enum, default_value_t = Protocol::Chat)]
    protocol: Protocol,
    /// The prompt
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prompt: String,
    /// Instructions for the model; overrides the file
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Agent profile of the configuration [default: the only one]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Model [default: the agent's, or the first one of the provider]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Base URL of the provider; overrides the file
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// API key of the provider; overrides the file
    #[arg(long, value_name = "KEY")]
    token: Option<String>,
    /// JSON file with the tools that the model may call
    #[arg(long, value_name = "FILE")]
    tools_file: Option<PathBuf>,
    /// Run the tools of the gateway, and answer calls of other tools with an error; otherwise calls are only shown
    #[arg(long)]
    execute_tools: bool,
    /// Timeout of a tool call, such as 30s or 1m30s [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tool_timeout: Option<Duration>,
    /// JSON file with tools that have fixed results, instead of those of the file (tools.mock)
    #[arg(long, value_name = "FILE")]
    mock_tools: Option<PathBuf>,
    /// Delay of tools with fixed results, such as 100ms or 0 [default: the file's, or 100ms]
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    mock_delay: Option<Duration>,
    /// Print the answer while it is generated
    #[arg(long)]
    stream: bool,
    /// Images, separated by commas: paths or URLs
    #[arg(long, alias = "image", value_delimiter = ',', value_name = "PATHS")]
    images: Vec<String>,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// The parts of the gateway that answer, and the agent.
#[derive(Clone, Copy)]
struct Gateway<'a> {
    settings: &'a Settings,
    assembly: &'a Assembly,
    agent: Option<&'a str>,
}

impl Gateway<'_> {
    fn subject(&self) -> PolicySubject<'_> {
        PolicySubject { tenant: TENANT, agent: self.agent }
    }

    /// Whether this tool is available.
    fn serves(&self, name: &str) -> bool {
        let catalog = self.assembly.toolbox.catalog();
        let tool = catalog.get(name);
        tool.is_some_and(|tool| self.assembly.toolbox.check_access(self.subject(), tool.definition()).is_ok())
    }
}

/// The tenant of callers whose key has none.
const TENANT: &str = "default";

/// Kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
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
enum Output {
    /// For humans
    Text,
    /// For programs
    Json,
}

fn duration(text: &str) -> Result<Duration, String> {
    match go_duration(text) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err("expected a duration, such as 100ms, 30s or 1m30s".into()),
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    go_duration(text).ok_or_else(|| "expected a duration, such as 0, 100ms or 2s".into())
}

impl PromptArgs {
    /// Sends the prompt and prints the answer; exits with 1 if it failed.
    pub(super) fn run(&self, options: LoadOptions) -> ExitCode {
        match self.attempt(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                _ = writeln!(io::stderr(), "{}", message.trim_end());
                ExitCode::FAILURE
            }
        }
    }

    fn attempt(&self, options: LoadOptions) -> Result<(), String> {
        self.check()?;
        let mocks = self.mocks()?;
        let Setup { settings, agent, options } = setup::load(self, options)?;
        offline::run_with_settings(settings, async |settings: Settings| {
            let assembly = Assembly::build(&settings, ExtraTools { mocks, ..ExtraTools::default() })
                .await
                .map_err(|error| format!("Error: {error:#}"))?;
            let model = request::model(self, agent.as_deref(), &settings, &assembly).await?;
            if self.protocol == Protocol::Embeddings {
                return embeddings::show(self, &model, &assembly).await;
            }
            let gateway = Gateway { settings: &settings, assembly: &assembly, agent: agent.as_deref() };
            let body = request::body(self, &model, options, gateway)?;
            let done = answer::run(self, body, gateway).await;
            assembly.toolbox.shutdown().await;
            done
        })
        .map_err(with_prefix)
    }

    /// Checks that the flags for the protocol are present.
    fn check(&self) -> Result<(), String> {
        let missing = |flag: &str| {
            let protocol = self.protocol.name();
            Err(format!("Error: -{flag} flag is required for {protocol} protocol"))
        };
        if self.prompt.is_empty() {
            return missing("prompt");
        }
        match self.protocol {
            Protocol::Tools if self.tools_file.is_none() => missing("tools-file"),
            Protocol::Vision if self.images.is_empty() => missing("images"),
            _ => Ok(()),
        }
    }

    fn mocks(&self) -> Result<Option<BTreeMap<String, MockTool>>, String> {
        let Some(path) = &self.mock_tools else { return Ok(None) };
        let text = read(path)?;
        let mocks =
            MockExecutor::read(&text).map_err(|error| format!("Error: {}: {error}", path.display()))?;
        Ok(Some(mocks))
    }

    /// Whether the output is JSON.
    fn json(&self) -> bool {
        self.output == Output::Json || self.protocol == Protocol::Responses
    }
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Tools => "tools",
            Self::Vision => "vision",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
        }
    }
}

/// Errors of settings and setup do not have this command's prefix.
fn with_prefix(message: String) -> String {
    const ERROR_PREFIXES: [&str; 4] =
        ["Error: ", "Stream error: ", "Tools execution failed: ", "Tools stream execution"];
    if ERROR_PREFIXES.iter().any(|prefix| message.starts_with(prefix)) {
        message
    } else {
        format!("Error: {message}")
    }
}

fn read(path: &std::path::Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("Error: cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::PromptArgs;
    use crate::cli::arguments::{SWITCHES, WITH_VALUE};

    /// A flag that is missing in the lists could not be written with one dash.
    #[test]
    fn every_flag_is_understood_with_one_dash() {
        let command = PromptArgs::augment_args(clap::Command::new("prompt"));
        for argument in command.get_arguments() {
            let list = if argument.get_action().takes_values() { WITH_VALUE } else { SWITCHES };
            for name in argument.get_long().into_iter().chain(argument.get_all_aliases().unwrap_or_default())
            {
                assert!(list.contains(&name), "{name}");
            }
        }
    }
}
