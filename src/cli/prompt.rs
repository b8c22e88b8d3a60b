//! `antwort prompt`: one question to a model from the command line, by the engine that serves requests.
//!
//! No listener is opened and nothing is kept. What is asked is in `request`, with what it is asked in `setup`;
//! `answer` follows the run, `view` shows it. Messages that begin with a dash's name are those of the Go
//! program of this purpose, so that scripts that look for them go on working.

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

/// What to ask, and how.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// What is asked for
    #[arg(long, value_enum, default_value_t = Protocol::Chat)]
    protocol: Protocol,
    /// The question
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prompt: String,
    /// Instructions for the model; beats those of the file
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// The agent profile of the configuration [default: the only one, if there is one]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model [default: the agent's, or the first that the provider lists]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Base URL of the provider; beats the file's
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The provider's key; beats the file's
    #[arg(long, value_name = "KEY")]
    token: Option<String>,
    /// JSON with the tools that the model may call
    #[arg(long, value_name = "FILE")]
    tools_file: Option<PathBuf>,
    /// Run the tools that the gateway has, and tell the model of those that it has not; otherwise calls are only shown
    #[arg(long)]
    execute_tools: bool,
    /// How long a tool may take, such as 30s or 1m30s [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tool_timeout: Option<Duration>,
    /// JSON with tools that give fixed answers, in place of those of the file (tools.mock)
    #[arg(long, value_name = "FILE")]
    mock_tools: Option<PathBuf>,
    /// How long tools with fixed answers wait before they answer, such as 100ms or 0 [default: the file's, or 100ms]
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    mock_delay: Option<Duration>,
    /// Show the answer while it is made
    #[arg(long)]
    stream: bool,
    /// Pictures, separated by commas: paths or URLs
    #[arg(long, alias = "image", value_delimiter = ',', value_name = "PATHS")]
    images: Vec<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// What answers, and as which agent.
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

    /// Whether a tool of this name is there and may be used.
    fn serves(&self, name: &str) -> bool {
        let catalog = self.assembly.toolbox.catalog();
        let tool = catalog.get(name);
        tool.is_some_and(|tool| self.assembly.toolbox.check_access(self.subject(), tool.definition()).is_ok())
    }
}

/// Whose tools they are: of callers whose key says nothing else.
const TENANT: &str = "default";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// An answer.
    Chat,
    /// An answer, or calls of tools.
    Tools,
    /// An answer about pictures.
    Vision,
    /// The vector of a text.
    Embeddings,
    /// The whole response object.
    Responses,
}

/// Form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For programs.
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
    /// Asks, and shows the answer; exits with 1 if there is none.
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
            let done = answer::show(self, body, gateway).await;
            assembly.toolbox.shutdown().await;
            done
        })
        .map_err(with_prefix)
    }

    /// What has to be said for what is asked for.
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

    /// Whether programs read the answer.
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

/// Errors of what surrounds the question know nothing of how this command says its own.
fn with_prefix(message: String) -> String {
    const OURS: [&str; 4] =
        ["Error: ", "Stream error: ", "Tools execution failed: ", "Tools stream execution"];
    if OURS.iter().any(|prefix| message.starts_with(prefix)) { message } else { format!("Error: {message}") }
}

fn read(path: &std::path::Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("Error: cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::PromptArgs;
    use crate::cli::arguments::{SWITCHES, WITH_VALUE};

    /// Flags that are missing in those lists could not be written with one dash.
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
