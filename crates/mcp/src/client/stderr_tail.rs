//! The last lines that a program wrote to stderr, for operators: they mostly say why it has exited.
//!
//! They are sanitized as log lines, without the values of the program's environment, where its secrets are, and without
//! those of its arguments that look like secrets.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use super::notices::sanitize_for_log;
use antwort_util::secrets::{in_arguments, is_auth_scheme, is_key};

/// Maximum bytes of all lines.
const MAX_BYTES: usize = 2048;
/// Maximum bytes of one line, so that a long one leaves room for others.
const MAX_LINE_BYTES: usize = 1000;
/// Minimum length of a value that is treated as a secret.
const MIN_SECRET_BYTES: usize = 4;
/// Between two lines.
const SEPARATOR: &str = " | ";
/// In the place of a secret.
const MASK: &str = "[key]";

/// The last lines of a program.
#[derive(Debug)]
pub(super) struct StderrTail {
    /// Longest first, as one may be part of another.
    secrets: Vec<SecretString>,
    lines: Mutex<VecDeque<String>>,
}

impl StderrTail {
    /// Of a program with this environment and these arguments.
    pub(super) fn new(env: &BTreeMap<String, SecretString>, args: &[String]) -> Self {
        let in_arguments = in_arguments(args);
        let values = env.values().map(ExposeSecret::expose_secret);
        let values = values.chain(in_arguments.iter().map(String::as_str));
        // A secret of several lines is written as several lines.
        let values = values.flat_map(str::lines);
        let mut secrets: Vec<&str> =
            values.map(str::trim).filter(|value| value.len() >= MIN_SECRET_BYTES).collect();
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        let secrets = secrets.into_iter().map(SecretString::from).collect();
        Self { secrets, lines: Mutex::default() }
    }

    /// Takes a line; of one that was too long, its beginning.
    pub(super) fn push(&self, line: &[u8], is_cut: bool) {
        let masked = self.mask(&String::from_utf8_lossy(line), is_cut);
        if masked.trim().is_empty() {
            return;
        }
        let mut line = sanitize_for_log(masked.as_bytes());
        if line.len() > MAX_LINE_BYTES {
            line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
            line.push('…');
        }
        let mut lines = self.lines.lock();
        lines.push_back(line);
        while length(&lines) > MAX_BYTES {
            lines.pop_front();
        }
    }

    /// The lines, the last one last; `None` if there were none.
    pub(super) fn text(&self) -> Option<String> {
        let lines = self.lines.lock();
        (!lines.is_empty()).then(|| lines.iter().map(String::as_str).collect::<Vec<_>>().join(SEPARATOR))
    }

    fn mask(&self, line: &str, is_cut: bool) -> String {
        let mut masked = line.to_owned();
        for secret in self.secrets.iter().map(ExposeSecret::expose_secret) {
            if masked.contains(secret) {
                masked = masked.replace(secret, MASK);
            }
            let half = || {
                let ends = (MIN_SECRET_BYTES..secret.len()).rev();
                ends.filter_map(|end| secret.get(..end)).find(|half| masked.ends_with(half)).map(str::len)
            };
            if let Some(half) = is_cut.then(half).flatten() {
                masked.truncate(masked.len() - half);
                masked.push_str(MASK);
            }
        }
        let words = masked.split_inclusive(|c: char| c.is_whitespace() || "\"'=:,;()<>".contains(c));
        let mut follows_scheme = false;
        let mask = |piece| {
            let word = bare_word(piece);
            let is_credential = || may_be_credential(word) && !piece.starts_with(MASK);
            let is_secret = is_key(word) || (follows_scheme && is_credential());
            if !word.is_empty() {
                follows_scheme = is_auth_scheme(word);
            }
            match is_secret {
                true => Cow::Owned(format!("{MASK}{}", piece.get(word.len()..).unwrap_or_default())),
                false => Cow::Borrowed(piece),
            }
        };
        words.map(mask).collect()
    }
}

/// Whether a word behind the name of a scheme is a credential, and not the next word of a sentence.
fn may_be_credential(word: &str) -> bool {
    let is_random = word.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    word.len() >= MIN_SECRET_BYTES && (is_random || word.len() >= 16)
}

/// A word without what separates it from the next.
fn bare_word(piece: &str) -> &str {
    piece.trim_end_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation())
}

fn length(lines: &VecDeque<String>) -> usize {
    lines.iter().map(|line| line.len() + SEPARATOR.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(env: &[(&str, &str)]) -> StderrTail {
        with_args(env, &[])
    }

    fn with_args(env: &[(&str, &str)], args: &[&str]) -> StderrTail {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        StderrTail::new(&env, &args)
    }

    #[test]
    fn the_last_lines_are_kept_without_secrets() {
        let words = of(&[("TOKEN", "t0ken-of-ann"), ("KEY", "first line\nsecond line"), ("DEBUG", "1")]);
        assert_eq!(words.text(), None);
        for line in ["using t0ken-of-ann 1", "  ", "second line!", "\u{1b}[31mkey=sk-abcdefgh: refused"] {
            words.push(line.as_bytes(), false);
        }
        words.push(b"long t0ken-of", true);
        let text = words.text().unwrap();
        assert_eq!(text, "using [key] 1 | [key]! | \\u{1b}[31mkey=[key]: refused | long [key]");
    }

    #[test]
    fn secrets_of_the_arguments_and_credentials_are_left_out() {
        let args = ["--api-key", "abcd-efgh", "--header", "Authorization: Bearer s3cr3t", "--mode=fast"];
        let words = with_args(&[("TOKEN", "t0ken-of-ann")], &args);
        for line in [
            "using abcd-efgh and fast",
            "got s3cr3t",
            "sent 'authorization: bearer  xyz.123-45==' to x",
            "Bearer t0ken-of-ann, Basic: it",
        ] {
            words.push(line.as_bytes(), false);
        }
        let text = words.text().unwrap();
        assert_eq!(
            text,
            "using [key] and fast | got [key] | sent 'authorization: bearer  [key]==' to x | Bearer [key], Basic: it"
        );
    }

    #[test]
    fn however_much_is_written_little_is_kept() {
        let words = of(&[]);
        for number in 0..1000 {
            words.push(format!("{number} {}", "é".repeat(number * 7 % 3000)).as_bytes(), false);
        }
        words.push(b"the end", false);
        let text = words.text().unwrap();
        assert!(text.len() <= MAX_BYTES && text.ends_with(" | the end"), "{}", text.len());
    }
}
