//! `antwort runs`: the stored responses of a running gateway as a table, and the account of one as bars on a time axis.
//!
//! `api` asks the gateway, `list` and `picture` draw. Names and codes come from models and servers: all
//! of it goes through `words::plain`.

mod api;
mod axis;
mod list;
mod picture;
mod terminal;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::api::{Api, Page, Trace};
use self::terminal::Terminal;
use super::output::{print_error, print_json, print_line};
use super::words;
use antwort_config::LoadOptions;

/// Commands of `antwort runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Prints the newest responses: status, model, tokens, cost and time
    List(ListArgs),
    /// Draws what a run has done, and when: turns, calls, waits and limits
    Show(ShowArgs),
}

/// The gateway, and the format.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Base URL of the gateway [default: the address of `listen`]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print the gateway's JSON instead
    #[arg(long)]
    json: bool,
    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// Arguments of `antwort runs list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only responses with this status
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only responses of this model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// How many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Only responses before this one, the last of the page before
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// The gateway.
    #[command(flatten)]
    which: RunsArgs,
}

/// Arguments of `antwort runs show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The response
    #[arg(value_name = "ID")]
    id: String,
    /// The gateway.
    #[command(flatten)]
    which: RunsArgs,
}

/// Runs a command; exits with 1 if the gateway gives no answer, or refuses.
pub(super) fn run(command: &RunsCommand, options: &LoadOptions) -> ExitCode {
    let text = match command {
        RunsCommand::List(args) => list_text(args, options),
        RunsCommand::Show(args) => show_text(args, options),
    };
    let is_json = match command {
        RunsCommand::List(ListArgs { which, .. }) | RunsCommand::Show(ShowArgs { which, .. }) => which.json,
    };
    match text {
        Ok(text) => {
            if is_json {
                print_json(&text);
            } else {
                print_line(&text);
            }
            ExitCode::SUCCESS
        }
        Err(problem) => {
            print_error(&words::plain(&problem));
            ExitCode::FAILURE
        }
    }
}

fn list_text(args: &ListArgs, options: &LoadOptions) -> Result<String, String> {
    let limit = args.limit.to_string();
    let mut query = vec![("view", "summary"), ("limit", &*limit)];
    for (name, value) in [("status", &args.status), ("model", &args.model), ("after", &args.after)] {
        query.extend(value.as_deref().map(|value| (name, value)));
    }
    let body = Api::new(args.which.url.as_deref(), options)?.get(&["responses"], &query)?;
    if args.which.json {
        return Ok(body);
    }
    let page: Page = api::parse(&body)?;
    Ok(list::table(&page, &Terminal::of_output(args.which.ascii, options)))
}

fn show_text(args: &ShowArgs, options: &LoadOptions) -> Result<String, String> {
    let api = Api::new(args.which.url.as_deref(), options)?;
    let body = api.get(&["responses", &args.id, "trace"], &[])?;
    if args.which.json {
        return Ok(body);
    }
    let trace: Trace = api::parse(&body)?;
    let response = api.outcome(&args.id)?;
    Ok(picture::draw(&trace, &response, &Terminal::of_output(args.which.ascii, options)))
}
