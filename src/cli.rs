//! The command line: what can be said, and the commands that need no gateway.
//!
//! `serve`, `demo` and `openapi` are only understood here; `main` carries them out.

mod arguments;
mod config;
mod healthcheck;
mod import;
mod mcp;
mod offline;
mod prompt;
mod store;
mod tools;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::LoadOptions;

pub(crate) use arguments::normalize_arguments;
pub(crate) use mcp::McpServerArgs;
pub(crate) use prompt::PromptArgs;

/// The exit code for settings that are wrong.
pub(crate) const EXIT_INVALID_CONFIG: u8 = 2;
/// The exit code of `store migrate --check` for a database of an earlier version.
pub(crate) const EXIT_MIGRATION_NEEDED: u8 = 3;

/// An OpenResponses-compatible gateway in front of any OpenAI-compatible model server.
#[derive(Debug, Parser)]
#[command(name = "antwort", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Settings that are said on the command line.
    #[command(flatten)]
    pub overrides: Overrides,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Settings that are said on the command line; they beat the environment and the file.
#[derive(Debug, Default, Args)]
pub(crate) struct Overrides {
    /// The configuration file [default: ANTWORT_CONFIG, else ./antwort.yaml or /etc/antwort/antwort.yaml if they exist]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to serve [default: ANTWORT_LISTEN, or 127.0.0.1:8080]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// What to log: a level, or directives such as info,antwort=debug [default: ANTWORT_LOG, or info]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
    /// Base URL of the model server, usually ending in /v1 [default: ANTWORT_UPSTREAM_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub upstream_url: Option<String>,
    /// Where responses are kept: sqlite:PATH or memory: [default: ANTWORT_STORE_URL, or sqlite:antwort.db]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves until it is told to stop.
    Serve,
    /// Serves with a scripted model behind it and shows a conversation; with an upstream URL, that instead.
    Demo,
    /// Looks at the settings without serving.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Looks at the server-side tools, and calls them, without serving.
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Looks at MCP servers, and calls their tools, without serving.
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Backs up and migrates the database (store.url).
    #[command(subcommand)]
    Store(StoreCommand),
    /// Asks a model from the command line; with --execute-tools, server-side tools are run.
    ///
    /// Flags may be written with one dash or two, and -flag=value or -flag value. The configuration may be an agent
    /// file of go-agents too; without --config, config.ollama.json is read if it exists. --upstream-url, --listen
    /// and --store mean what they mean to other commands.
    #[command(alias = "prompt-agent")]
    Prompt(Box<PromptArgs>),
    /// Prints the OpenAPI document of what is served.
    Openapi {
        /// Form of the document.
        #[arg(long, value_enum, default_value_t = DocumentFormat::Yaml)]
        format: DocumentFormat,
    },
    /// Asks a running gateway whether it lives; exits with 0 if it does, else with 1. For images without a shell.
    ///
    /// Of the settings only `listen` is read: flags, environment, the file as far as it can be read, else port 8080.
    Healthcheck {
        /// What to ask, /healthz if it has no path [default: /healthz where the gateway listens]
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
}

/// What to do with the server-side tools.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Prints the tools: their definitions as JSON.
    List {
        /// A line a tool: name and description.
        #[arg(long, conflicts_with = "count")]
        summary: bool,
        /// How many there are.
        #[arg(long)]
        count: bool,
    },
    /// Calls a tool and prints its result as JSON; exits with 1 if it failed.
    Call {
        /// The tool.
        name: String,
        /// Its arguments, a JSON object.
        #[arg(default_value = "{}", value_name = "JSON")]
        arguments: String,
    },
}

/// What to do with the database.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copies the database to a new file, while a server uses it or not: one state of it, on the disk when this ends.
    ///
    /// The file must not exist, and its owner alone may read it. The key of the encrypted reasoning is not in it: the
    /// command says where that is. Exits with 1 if there is no copy.
    Backup {
        /// The copy.
        file: PathBuf,
    },
    /// Brings the database to the schema of this version, after a backup beside it; no server may use it.
    ///
    /// Exits with 0 if the database has that schema then, or if there is none yet; else with 1, and it is as it was.
    Migrate {
        /// Change nothing: exits with 0 if there is nothing to do, with 3 if a migration is needed, with 1 if the
        /// database is of a later version or cannot be read.
        #[arg(long)]
        check: bool,
        /// Migrate without a backup beside the database.
        #[arg(long, conflicts_with = "check")]
        no_backup: bool,
    },
}

/// What to do with MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Connects to the configured servers, or to one, and prints what they have; exits with 1 if one failed.
    List {
        /// The server [default: all]
        label: Option<String>,
        /// Print JSON, with the tools' definitions.
        #[arg(long)]
        json: bool,
        /// Which server it is.
        #[command(flatten)]
        server: McpServerArgs,
    },
    /// Calls a tool and prints its result as JSON; exits with 1 if it failed.
    Call {
        /// The server's label unless there is --url, the tool, its arguments as a JSON object.
        #[arg(required = true, num_args = 1..=3, value_name = "LABEL TOOL [JSON]")]
        words: Vec<String>,
        /// Which server it is.
        #[command(flatten)]
        server: McpServerArgs,
    },
}

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Says everything that is wrong with the settings; exits with 0 if nothing is, else with 2.
    Check,
    /// Prints the settings in force as YAML, secrets masked, and where they were said.
    Show {
        /// Print every key with its default and what it means instead.
        #[arg(long)]
        defaults: bool,
    },
    /// Says what differs between two files, and what a running gateway would take over or needs a restart for; exits
    /// with 0 if nothing differs, with 1 if something does, with 2 if one of them is wrong.
    ///
    /// A line a key: `reload` or `restart`, the key, and its values. Secrets are not shown. The environment and flags
    /// count on both sides.
    Diff {
        /// The file so far, and the new one; of one file, the new one, against the settings in force.
        #[arg(required = true, num_args = 1..=2, value_name = "OLD NEW")]
        files: Vec<PathBuf>,
    },
    /// Writes the configuration that a file of another program means.
    Import {
        /// The file.
        file: PathBuf,
        /// What file it is [default: by what is in it]
        #[arg(long, value_enum)]
        format: Option<ImportFormat>,
        /// Write there [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Files of other programs that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// JSON with name, system_prompt, transport and tools.
    GoAgents,
    /// JSON with mcpServers, as programs on the desktop have it.
    McpServers,
}

/// Form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// As written.
    Yaml,
    /// For programs.
    Json,
}

impl Cli {
    /// Where settings come from: these flags, and this process's environment and directory.
    pub(crate) fn load_options(&self) -> LoadOptions {
        let flags = &self.overrides;
        LoadOptions {
            file: flags.config.clone(),
            listen: flags.listen.clone(),
            log: flags.log.clone(),
            upstream_url: flags.upstream_url.clone(),
            store: flags.store.clone(),
            ..LoadOptions::from_process()
        }
    }

    /// Carries out a command that needs no gateway; `None`: it needs one.
    pub(crate) fn run_offline(&self) -> Option<ExitCode> {
        match &self.command {
            Command::Config(ConfigCommand::Check) => Some(config::check(&self.load_options())),
            Command::Config(ConfigCommand::Show { defaults: true }) => Some(config::show_defaults()),
            Command::Config(ConfigCommand::Show { defaults: false }) => {
                Some(config::show(&self.load_options()))
            }
            Command::Config(ConfigCommand::Diff { files }) => Some(config::diff(files, &self.load_options())),
            Command::Config(ConfigCommand::Import { file, format, output }) => {
                Some(import::write(file, *format, output.as_deref()))
            }
            Command::Healthcheck { url } => Some(healthcheck::run(url.as_deref(), &self.load_options())),
            Command::Tools(ToolsCommand::List { summary, count }) => {
                let view = match (summary, count) {
                    (true, _) => tools::View::Summary,
                    (false, true) => tools::View::Count,
                    (false, false) => tools::View::Full,
                };
                Some(tools::list(view, &self.load_options()))
            }
            Command::Tools(ToolsCommand::Call { name, arguments }) => {
                Some(tools::call(name, arguments, &self.load_options()))
            }
            Command::Mcp(McpCommand::List { label, json, server }) => {
                Some(mcp::list(label.as_deref(), *json, server, &self.load_options()))
            }
            Command::Mcp(McpCommand::Call { words, server }) => {
                Some(mcp::call(words, server, &self.load_options()))
            }
            Command::Store(StoreCommand::Backup { file }) => Some(store::backup(file, &self.load_options())),
            Command::Store(StoreCommand::Migrate { check: true, .. }) => {
                Some(store::check(&self.load_options()))
            }
            Command::Store(StoreCommand::Migrate { check: false, no_backup }) => {
                Some(store::migrate(!no_backup, &self.load_options()))
            }
            Command::Prompt(prompt) => Some(prompt.run(self.load_options())),
            Command::Serve | Command::Demo | Command::Openapi { .. } => None,
        }
    }
}

/// Writes to standard output. That nobody reads it any more is no error.
pub(crate) fn print_line(text: &str) {
    _ = writeln!(io::stdout(), "{}", text.trim_end());
}

/// Writes to standard output as it is, at once.
fn print_raw(text: &str) {
    if text.is_empty() {
        return;
    }
    let mut out = io::stdout();
    _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to standard error.
pub(crate) fn print_error(text: &str) {
    _ = writeln!(io::stderr(), "antwort: {}", text.trim_end());
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Cli, Command, ConfigCommand, DocumentFormat};

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_may_stand_on_either_side_of_the_command() {
        for words in [
            ["antwort", "--listen", "127.0.0.1:1", "--store", "memory:", "serve"],
            ["antwort", "serve", "--listen", "127.0.0.1:1", "--store", "memory:"],
        ] {
            let cli = Cli::try_parse_from(words).expect("understood");
            assert!(matches!(cli.command, Command::Serve));
            let options = cli.load_options();
            assert_eq!(
                (options.listen.as_deref(), options.store.as_deref()),
                (Some("127.0.0.1:1"), Some("memory:"))
            );
        }
    }

    #[test]
    fn every_command_is_understood() {
        let command = |words: &[&str]| Cli::try_parse_from(words).expect("understood").command;
        assert!(matches!(command(&["antwort", "demo"]), Command::Demo));
        assert!(matches!(command(&["antwort", "config", "check"]), Command::Config(ConfigCommand::Check)));
        assert!(matches!(
            command(&["antwort", "config", "show", "--defaults"]),
            Command::Config(ConfigCommand::Show { defaults: true })
        ));
        assert!(matches!(
            command(&["antwort", "openapi", "--format", "json"]),
            Command::Openapi { format: DocumentFormat::Json }
        ));
        assert!(matches!(command(&["antwort", "healthcheck"]), Command::Healthcheck { url: None }));
        assert!(Cli::try_parse_from(["antwort", "--version"]).is_err_and(|error| error.exit_code() == 0));
        assert!(Cli::try_parse_from(["antwort", "fly"]).is_err_and(|error| error.exit_code() == 2));
    }
}
