//! `antwort prompt`: one prompt to a model from the command line, on the engine that serves requests.
//!
//! No listener is opened and nothing is stored. `setup` prepares the settings, `request` the request; `answer` follows
//! the run, `view` prints it, `progress` tells a terminal what happens. What scripts of its predecessor rely on is in
//! `agent_file`, `calls` and `messages`.

mod agent_file;
mod answer;
mod arguments;
mod calls;
mod embeddings;
mod foreign_server;
mod images;
mod messages;
mod progress;
mod request;
mod setup;
mod tools_file;
mod unserved;
mod view;

use std::collections::BTreeMap;
use std::process::ExitCode;

use super::offline;
use super::output::print_to_stderr;
use crate::app::Assembly;
use crate::app::tools::ExtraTools;
use antwort_config::{LoadOptions, MockTool, Settings};
use antwort_tools::MockExecutor;
use antwort_util::display;
pub(crate) use arguments::PromptArgs;
use arguments::{Gateway, Protocol, read};
use setup::Setup;

impl PromptArgs {
    /// Sends the prompt and prints the answer; exits with 1 if it failed.
    pub(super) fn run(&self, options: LoadOptions) -> ExitCode {
        match self.attempt(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                print_to_stderr(&display::lines(message.trim_end()));
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
        .map_err(messages::with_prefix)
    }

    /// Checks that the flags for the protocol are present.
    fn check(&self) -> Result<(), String> {
        let missing = |flag: &str| Err(messages::missing_flag(flag, self.protocol.name()));
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
