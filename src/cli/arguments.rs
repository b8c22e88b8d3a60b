//! Flags in Go's style for `antwort prompt`: `-prompt x`, `-stream=true`, with one or two dashes.
//!
//! Scripts for the Go program of the same purpose keep working. Other commands are unchanged: `-h` and `-V` keep their
//! meaning.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Flags of `prompt` with a value.
pub(crate) const WITH_VALUE: &[&str] = &[
    "agent",
    "base-url",
    "config",
    "image",
    "images",
    "listen",
    "log",
    "mock-delay",
    "mock-tools",
    "model",
    "output",
    "prompt",
    "protocol",
    "store",
    "system-prompt",
    "token",
    "tool-timeout",
    "tools-file",
    "upstream-url",
];
/// Flags of `prompt` without a value.
pub(crate) const SWITCHES: &[&str] = &["allow-files", "execute-tools", "stream"];
/// Names of the command.
pub(crate) const COMMANDS: &[&str] = &["prompt", "prompt-agent"];

/// Normalizes the process's arguments for clap.
pub(crate) fn normalize_arguments(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut normalized: Vec<OsString> = arguments.by_ref().take(1).collect();
    let is_command =
        |word: Option<&OsStr>| word.is_some_and(|word| COMMANDS.iter().any(|name| word == *name));
    // A link to the binary named `prompt-agent` is that program.
    if normalized
        .first()
        .is_some_and(|program| Path::new(program).file_stem() == Some(OsStr::new("prompt-agent")))
    {
        normalized.push("prompt".into());
    } else {
        // The value of a flag before the command is not the command.
        let mut value_follows = false;
        for argument in arguments.by_ref() {
            let found = !value_follows && is_command(Some(&argument));
            value_follows = argument
                .to_str()
                .is_some_and(|text| text.strip_prefix("--").is_some_and(|name| WITH_VALUE.contains(&name)));
            normalized.push(argument);
            if found {
                break;
            }
        }
    }
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            normalized.push(argument);
            break;
        }
        match argument.to_str().and_then(flag) {
            Some(Flag::Valued(name, Some(value))) => normalized.push(format!("--{name}={value}").into()),
            Some(Flag::Valued(name, None)) => {
                // One argument, so that a value may begin with a dash.
                let mut word = OsString::from(format!("--{name}"));
                if let Some(value) = arguments.next() {
                    word.push("=");
                    word.push(value);
                }
                normalized.push(word);
            }
            Some(Flag::Switch(name, true)) => normalized.push(format!("--{name}").into()),
            Some(Flag::Switch(_, false)) => {}
            None => normalized.push(argument),
        }
    }
    normalized.extend(arguments);
    normalized
}

/// A flag as it was written.
enum Flag<'a> {
    Valued(&'a str, Option<&'a str>),
    Switch(&'a str, bool),
}

/// `None`: not a flag of `prompt`; left to clap.
fn flag(text: &str) -> Option<Flag<'_>> {
    let word = text.strip_prefix('-')?;
    let word = word.strip_prefix('-').unwrap_or(word);
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    if WITH_VALUE.contains(&name) {
        return Some(Flag::Valued(name, value));
    }
    let on = match value {
        None | Some("true" | "t" | "1" | "T" | "TRUE" | "True") => true,
        Some("false" | "f" | "0" | "F" | "FALSE" | "False") => false,
        Some(_) => return None,
    };
    SWITCHES.contains(&name).then_some(Flag::Switch(name, on))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::normalize_arguments;

    fn normalized(words: &str) -> String {
        let words = normalize_arguments(words.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        for (given, expected) in [
            ("antwort prompt -prompt hi -stream", "antwort prompt --prompt=hi --stream"),
            ("antwort prompt-agent --prompt -5 -h", "antwort prompt-agent --prompt=-5 -h"),
            (
                "antwort --config prompt prompt -stream=false -execute-tools=true",
                "antwort --config prompt prompt --execute-tools",
            ),
            ("antwort prompt -tools-file=a=b", "antwort prompt --tools-file=a=b"),
            ("antwort prompt -- -prompt", "antwort prompt -- -prompt"),
            ("antwort prompt -prompt", "antwort prompt --prompt"),
            ("antwort prompt -stream=perhaps", "antwort prompt -stream=perhaps"),
            ("antwort serve -prompt hi", "antwort serve -prompt hi"),
            ("/usr/bin/prompt-agent -prompt hi", "/usr/bin/prompt-agent prompt --prompt=hi"),
            ("antwort", "antwort"),
        ] {
            assert_eq!(normalized(given), expected, "{given}");
        }
    }
}
