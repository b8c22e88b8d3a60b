//! The command line: arguments, and the commands that need no gateway.
//!
//! `serve`, `demo` and `openapi` are only parsed here; `program` runs them.

pub(crate) mod arguments;
mod config;
mod connect;
#[cfg(feature = "doctor")]
mod doctor;
mod duration;
mod flags;
mod healthcheck;
mod import;
mod mcp;
mod offline;
mod output;
#[cfg(feature = "prompt")]
mod prompt;
mod runs;
mod store;
mod store_copy;
#[cfg_attr(not(feature = "postgres"), path = "cli/store_postgres_absent.rs")]
mod store_postgres;
mod tools;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::import::foreign_config::ForeignReads;
use antwort_config::LoadOptions;

#[cfg(feature = "doctor")]
pub(crate) use doctor::DoctorArgs;
pub(crate) use import::ImportFormat;
pub(crate) use mcp::McpServerArgs;
pub(crate) use output::{EXIT_INVALID_CONFIG, exit_code, print_error, print_line};
#[cfg(feature = "prompt")]
pub(crate) use prompt::PromptArgs;
pub(crate) use runs::RunsCommand;
pub(crate) use store_copy::CopyUrl;

/// An OpenResponses-compatible gateway in front of any OpenAI-compatible model server.
#[derive(Debug, Parser)]
#[command(name = "antwort", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Settings as flags.
    #[command(flatten)]
    pub overrides: Overrides,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Settings as flags, which override the environment and the file.
#[derive(Debug, Default, Args)]
pub(crate) struct Overrides {
    /// The configuration file [default: ANTWORT_CONFIG, else ./antwort.yaml or /etc/antwort/antwort.yaml if they exist]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address and port to listen on [default: ANTWORT_LISTEN, or 127.0.0.1:8080]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// What this process does: all, gateway, or worker, which makes background runs [default: ANTWORT_ROLE, or all]
    #[arg(long, global = true, value_name = "ROLE")]
    pub role: Option<String>,
    /// Log filter: a level, or directives such as info,antwort=debug [default: ANTWORT_LOG, or info]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
    /// Base URL of the model server, usually ending in /v1 [default: ANTWORT_UPSTREAM_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub upstream_url: Option<String>,
    /// Database of responses: sqlite:PATH, memory: or postgres://USER@HOST/DATABASE [default: ANTWORT_STORE_URL, or sqlite:antwort.db]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
    /// Serve the web page from this directory in place of the binary's own files, for work on the page [default: ANTWORT_UI_DIR]
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    pub ui_dir: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts the gateway
    Serve,
    /// Starts the gateway with a scripted model and shows a conversation; with an upstream URL, with that model server
    #[cfg(feature = "demo")]
    Demo,
    /// Asks a model server what it supports, and writes settings for it
    ///
    /// About sixty short requests are sent. Exits with 0 if the server works behind the gateway, with 1 if it works with gaps,
    /// with 2 if it does not work. ANTWORT_UPSTREAM_API_KEY is its key, unless a provider of the configuration has the same URL.
    #[cfg(feature = "doctor")]
    Doctor(DoctorArgs),
    /// Checks, shows, compares and imports configurations
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Lists and calls server-side tools, without a running gateway
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Lists MCP servers and calls their tools, without a running gateway
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Backs up and migrates the database (store.url), erases data from it, copies it to another
    #[command(subcommand)]
    Store(StoreCommand),
    /// Sends a prompt to a model; with --execute-tools, server-side tools are run
    ///
    /// Flags may have one or two dashes, and be written as -flag=value or -flag value. The configuration may also be an
    /// agent file of go-agents; without --config, config.ollama.json is read if it exists. Files and environment variables
    /// that an agent file names are read only with --allow-files.
    #[cfg(feature = "prompt")]
    #[command(alias = "prompt-agent")]
    Prompt(Box<PromptArgs>),
    /// Lists the responses of a running gateway, and draws what one of them has done, and when
    ///
    /// The key is that of ANTWORT_API_KEY, with the scope responses:read.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Prints the OpenAPI document of the API
    Openapi {
        /// Format of the document
        #[arg(long, value_enum, default_value_t = DocumentFormat::Yaml)]
        format: DocumentFormat,
    },
    /// Checks that a running gateway is alive; exits with 0 if it is, else with 1. For images without a shell
    ///
    /// Of the settings only `listen` is read: from flags, the environment, the file as far as it can be read, else port
    /// 8080.
    Healthcheck {
        /// The URL to call, /healthz if it has no path [default: /healthz at the address of `listen`]
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
}

impl Command {
    /// Whether it is `antwort demo`, which a binary may be built without.
    pub(crate) fn is_demo(&self) -> bool {
        #[cfg(feature = "demo")]
        if let Self::Demo = self {
            return true;
        }
        false
    }
}

/// Commands of `antwort tools`.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Prints the definitions of all tools as JSON
    List {
        /// Print JSON, with the definitions of the tools: the default
        #[arg(long, conflicts_with_all = ["summary", "count"])]
        json: bool,
        /// Print one line per tool: name and description
        #[arg(long, conflicts_with = "count")]
        summary: bool,
        /// Print the number of tools
        #[arg(long)]
        count: bool,
    },
    /// Calls a tool and prints its result as JSON; exits with 1 if it failed
    Call {
        /// Name of the tool
        name: String,
        /// Arguments, as a JSON object
        #[arg(default_value = "{}", value_name = "JSON")]
        arguments: String,
    },
}

/// Commands of `antwort store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copies the database to a new file, also while a server uses it: a consistent snapshot, synced to disk
    ///
    /// The file must not exist, and only its owner can read it. The key of encrypted reasoning is not part of it: the
    /// command prints where that is. Exits with 1 if there is no copy.
    Backup {
        /// The copy
        file: PathBuf,
    },
    /// Migrates the database to the schema of this version, after a backup beside it; no server may be using it
    ///
    /// Exits with 0 if the database has that schema now, or does not exist yet; else with 1, and the database is
    /// unchanged.
    Migrate {
        /// Change nothing: exits with 0 if the schema is current, with 3 if a migration is needed, with 1 if the
        /// database is of a later version or cannot be read
        #[arg(long)]
        check: bool,
        /// Migrate without a backup beside the database
        #[arg(long, conflicts_with = "check")]
        no_backup: bool,
    },
    /// Deletes all stored data of a tenant, or of one owner; no server may be using the database
    ///
    /// Beside a running server, send `DELETE /v1/admin/data` to it instead. Backups keep what they have.
    Erase {
        /// The tenant: `default` unless the keys name others
        #[arg(long)]
        tenant: String,
        /// The owner within the tenant: the name of a key, or its setting `owner` [default: all]
        #[arg(long)]
        owner: Option<String>,
    },
    /// Copies all data from one database to another, of SQLite or PostgreSQL, and compares them; no gateway may be using
    /// either
    ///
    /// The target is created, or gets its tables, if it is empty. Nothing is deleted. A copy that was stopped goes on when
    /// the command is run again. The number and the hash of the rows of each table are printed; exits with 0 if they are the
    /// same in both databases, else with 1. What is encrypted stays so: the gateway on the copy needs the same keys.
    Copy {
        /// The database to copy: sqlite:PATH or postgres://USER@HOST/DATABASE
        #[arg(value_name = "FROM")]
        from: CopyUrl,
        /// The database to copy to, likewise
        #[arg(value_name = "TO")]
        to: CopyUrl,
    },
}

/// Commands of `antwort mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Connects to the configured servers, or to one, and prints their tools; exits with 1 if one failed
    List {
        /// Label of the server [default: all]
        label: Option<String>,
        /// Print JSON, with the definitions of the tools
        #[arg(long)]
        json: bool,
        /// The server.
        #[command(flatten)]
        server: McpServerArgs,
    },
    /// Calls a tool and prints its result as JSON; exits with 1 if it failed
    Call {
        /// Label of the server (unless there is --url), name of the tool, arguments as a JSON object
        #[arg(required = true, num_args = 1..=3, value_name = "LABEL TOOL [JSON]")]
        words: Vec<String>,
        /// The server.
        #[command(flatten)]
        server: McpServerArgs,
    },
}

/// Commands of `antwort config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Prints all errors of the settings; exits with 0 if there are none, else with 2
    Check {
        /// Ask each provider for its models, too, and print a line for each; exits with 1 if one cannot serve
        #[arg(long)]
        connect: bool,
    },
    /// Prints the settings in force as YAML, secrets masked, with the origins of non-default values
    Show {
        /// Print every key with its default and a comment instead
        #[arg(long)]
        defaults: bool,
    },
    /// Compares two files: which changes a running gateway can reload, and which need a restart; exits with 0 without
    /// differences, with 1 with differences, with 2 if a file is invalid
    ///
    /// One line per key: `reload` or `restart`, the key, and its values. Secrets are not shown. The environment and
    /// flags apply to both sides.
    Diff {
        /// The old file and the new one; a single file is compared with the settings in force
        #[arg(required = true, num_args = 1..=2, value_name = "OLD NEW")]
        files: Vec<PathBuf>,
    },
    /// Translates a file of another program into a configuration
    Import {
        /// The file
        file: PathBuf,
        /// Format of the file [default: detected]
        #[arg(long, value_enum)]
        format: Option<ImportFormat>,
        /// File to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Keep values that name files and environment variables, which the gateway would read and may send to a server
        /// that the same file names; otherwise they are left out
        #[arg(long)]
        allow_files: bool,
    },
}

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

impl Cli {
    /// Parses arguments; help and errors are printed, and end the process.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Self {
        flags::try_parse(arguments).unwrap_or_else(|error: clap::Error| error.exit())
    }

    /// The options to load settings with: these flags, and this process's environment and directory.
    pub(crate) fn load_options(&self) -> LoadOptions {
        let flags = &self.overrides;
        LoadOptions {
            file: flags.config.clone(),
            listen: flags.listen.clone(),
            role: flags.role.clone(),
            log: flags.log.clone(),
            upstream_url: flags.upstream_url.clone(),
            store: flags.store.clone(),
            ui_dir: flags.ui_dir.clone(),
            ..LoadOptions::from_process()
        }
    }

    /// Runs a command that needs no gateway; `None`: it needs one.
    pub(crate) fn run_offline(&self) -> Option<ExitCode> {
        match &self.command {
            Command::Config(ConfigCommand::Check { connect }) => {
                Some(config::check(*connect, &self.load_options()))
            }
            Command::Config(ConfigCommand::Show { defaults: true }) => Some(config::show_defaults()),
            Command::Config(ConfigCommand::Show { defaults: false }) => {
                Some(config::show(&self.load_options()))
            }
            Command::Config(ConfigCommand::Diff { files }) => Some(config::diff(files, &self.load_options())),
            Command::Config(ConfigCommand::Import { file, format, output, allow_files }) => {
                let reads = if *allow_files { ForeignReads::Allowed } else { ForeignReads::LeftOut };
                Some(import::write(file, *format, output.as_deref(), reads))
            }
            #[cfg(feature = "doctor")]
            Command::Doctor(doctor) => Some(doctor.run(&self.load_options())),
            Command::Healthcheck { url } => Some(healthcheck::run(url.as_deref(), &self.load_options())),
            Command::Tools(ToolsCommand::List { summary, count, json: _ }) => {
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
                Some(store::check(self.load_options()))
            }
            Command::Store(StoreCommand::Migrate { check: false, no_backup }) => {
                Some(store::migrate(!no_backup, &self.load_options()))
            }
            Command::Store(StoreCommand::Erase { tenant, owner }) => {
                Some(store::erase(tenant, owner.as_deref(), self.load_options()))
            }
            Command::Store(StoreCommand::Copy { from, to }) => {
                Some(store_copy::copy(from, to, &self.load_options()))
            }
            Command::Runs(command) => Some(runs::run(command, &self.load_options())),
            #[cfg(feature = "prompt")]
            Command::Prompt(prompt) => Some(prompt.run(self.load_options())),
            Command::Serve | Command::Openapi { .. } => None,
            #[cfg(feature = "demo")]
            Command::Demo => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::flags::try_parse;
    use super::{Cli, Command, ConfigCommand, DocumentFormat, ToolsCommand};

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
            let cli = try_parse::<Cli>(words).expect("understood");
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
        let command = |words: &[&str]| try_parse::<Cli>(words).expect("understood").command;
        #[cfg(feature = "demo")]
        assert!(matches!(command(&["antwort", "demo"]), Command::Demo));
        assert!(matches!(
            command(&["antwort", "config", "check"]),
            Command::Config(ConfigCommand::Check { connect: false })
        ));
        assert!(matches!(
            command(&["antwort", "config", "show", "--defaults"]),
            Command::Config(ConfigCommand::Show { defaults: true })
        ));
        assert!(matches!(
            command(&["antwort", "openapi", "--format", "json"]),
            Command::Openapi { format: DocumentFormat::Json }
        ));
        let list = command(&["antwort", "tools", "list", "--json"]);
        assert!(matches!(
            list,
            Command::Tools(ToolsCommand::List { json: true, summary: false, count: false })
        ));
        assert!(matches!(command(&["antwort", "healthcheck"]), Command::Healthcheck { url: None }));
        assert!(try_parse::<Cli>(["antwort", "--version"]).is_err_and(|error| error.exit_code() == 0));
        assert!(try_parse::<Cli>(["antwort", "fly"]).is_err_and(|error| error.exit_code() == 2));
    }
}
