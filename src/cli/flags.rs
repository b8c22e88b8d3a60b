//! Which commands take which settings as flags: a flag is shown where it has an effect, and refused elsewhere.
//!
//! It may stand on either side of the command.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Parser};

/// Commands that serve, or show what would be served.
const SERVERS: &[&str] = &["serve", "demo", "config check", "config show", "config diff"];
/// The commands beside those of [`SERVERS`] that take a flag, by its id; a name stands for its subcommands, too.
const ALSO: &[(&str, &[&str])] = &[
    ("config", &["doctor", "tools", "mcp", "store", "prompt", "runs", "healthcheck"]),
    ("listen", &["runs", "healthcheck"]),
    ("log", &["doctor", "tools", "mcp", "store", "prompt"]),
    ("role", &[]),
    ("store", &["store backup", "store migrate", "store erase"]),
    ("ui_dir", &[]),
    ("upstream_url", &["prompt"]),
];

/// The command line, each command with its own flags alone.
fn command<Cli: Parser>() -> Command {
    let command = Cli::command();
    let flags: Vec<Arg> = command.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    hide_where_unused(command, &flags, "")
}

/// Parses arguments as [`Parser::try_parse_from`] does, and refuses flags without effect.
pub(super) fn try_parse<Cli: Parser>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Cli, clap::Error> {
    let mut command = command::<Cli>();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let path = path_of(&matches);
    let unused = ALSO.iter().map(|(id, _)| *id).find(|id| is_given(&matches, id) && !takes(&path, id));
    if let Some(id) = unused {
        let flag = id.replace('_', "-");
        let message = format!("--{flag} has no effect on `antwort {path}`");
        return Err(command.error(ErrorKind::UnknownArgument, message));
    }
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// A hidden flag in the place of the one that all subcommands inherit.
fn hide_where_unused(command: Command, flags: &[Arg], path: &str) -> Command {
    command.mut_subcommands(|subcommand| {
        let path = format!("{path} {}", subcommand.get_name()).trim_start().to_owned();
        let unused = flags.iter().filter(|flag| !takes(&path, flag.get_id().as_str()));
        let hidden: Vec<_> = unused.map(|flag| flag.clone().hide(true)).collect();
        hide_where_unused(subcommand.args(hidden), flags, &path)
    })
}

/// Whether a command, or one of its subcommands, takes a flag.
fn takes(path: &str, id: &str) -> bool {
    let also = ALSO.iter().find(|(flag, _)| *flag == id).map(|(_, commands)| *commands).unwrap_or_default();
    SERVERS.iter().chain(also).any(|taker| is_within(path, taker) || is_within(taker, path))
}

fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The names of the command and its subcommand.
fn path_of(matches: &ArgMatches) -> String {
    match matches.subcommand() {
        Some((name, inner)) => format!("{name} {}", path_of(inner)).trim_end().to_owned(),
        None => String::new(),
    }
}

/// clap gives the value of a global flag to all levels, wherever it stands.
fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{ALSO, command, try_parse};
    use crate::cli::Cli;

    fn help(words: &[&str]) -> String {
        let words = ["antwort"].iter().chain(words).chain(&["--help"]);
        try_parse::<Cli>(words).expect_err("help").to_string()
    }

    /// Whether the binary is built without a command, as its cargo feature is off.
    fn is_left_out(command: &str) -> bool {
        match command {
            "demo" => !cfg!(feature = "demo"),
            "doctor" => !cfg!(feature = "doctor"),
            "prompt" => !cfg!(feature = "prompt"),
            _ => false,
        }
    }

    #[test]
    fn the_table_names_every_flag_and_only_commands_that_exist() {
        command::<Cli>().debug_assert();
        let mut flags: Vec<_> =
            Cli::command().get_arguments().map(|flag| flag.get_id().as_str().to_owned()).collect();
        flags.sort();
        assert_eq!(flags, ALSO.iter().map(|(id, _)| (*id).to_owned()).collect::<Vec<_>>());
        let takers = super::SERVERS.iter().chain(ALSO.iter().flat_map(|(_, commands)| *commands));
        for taker in takers.filter(|taker| !is_left_out(taker)) {
            let mut command = command::<Cli>();
            for name in taker.split(' ') {
                command = command.find_subcommand(name).expect(taker).clone();
            }
        }
    }

    #[test]
    fn flags_of_the_server_are_shown_by_commands_that_serve_and_by_no_others() {
        for (words, shown) in [
            (&["serve"][..], "config listen role log upstream-url store ui-dir"),
            (&["demo"], "config listen role log upstream-url store ui-dir"),
            (&["config", "check"], "config listen role log upstream-url store ui-dir"),
            (&["config", "import"], ""),
            (&["openapi"], ""),
            (&["tools", "list"], "config log"),
            (&["mcp", "call"], "config log"),
            (&["store", "backup"], "config log store"),
            (&["store", "copy"], "config log"),
            (&["runs", "list"], "config listen"),
            (&["healthcheck"], "config listen"),
            (&["prompt"], "config log upstream-url"),
        ] {
            if is_left_out(words[0]) {
                continue;
            }
            let help = help(words);
            let flags = ["config", "listen", "role", "log", "upstream-url", "store", "ui-dir"];
            let found = flags.into_iter().filter(|flag| help.contains(&format!("--{flag} <")));
            assert_eq!(found.collect::<Vec<_>>().join(" "), shown, "{words:?}");
        }
    }

    #[test]
    fn a_flag_without_effect_is_refused_on_either_side_of_the_command() {
        for words in [
            &["antwort", "tools", "list", "--role", "worker"][..],
            &["antwort", "--role", "worker", "tools", "list"],
            &["antwort", "tools", "--role", "worker", "list"],
            &["antwort", "config", "import", "f.json", "--role", "worker"],
        ] {
            let error = try_parse::<Cli>(words).expect_err("no effect");
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("--role has no effect on `antwort "), "{error}");
        }
    }
}
