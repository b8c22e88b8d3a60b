//! Masking of providers' messages before clients see them: addresses, keys and configured secrets are replaced.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::ProviderError;
use antwort_config::ProviderSettings;
use antwort_util::secrets::is_key;

/// Minimum length of a header value that is treated as a secret.
const MIN_SECRET_BYTES: usize = 4;

/// The configured secrets of one provider, which its messages may repeat.
pub(super) struct Secrets<'a>(Vec<&'a str>);

impl<'a> Secrets<'a> {
    /// The provider's key and header values; of `Bearer …` also the token alone.
    pub(super) fn from_settings(settings: &'a ProviderSettings) -> Self {
        let sent = settings.api_key.iter().chain(settings.headers.values()).map(ExposeSecret::expose_secret);
        let parts = sent.flat_map(|value: &str| [Some(value), value.split_once(' ').map(|(_, token)| token)]);
        let mut secrets: Vec<&str> =
            parts.flatten().filter(|secret| secret.len() >= MIN_SECRET_BYTES).collect();
        // Longest first, as one may be part of another.
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Replaces the secrets in an error's message, which is sanitized otherwise; removes a code that contains one.
    pub(super) fn mask_error(&self, error: &mut ProviderError) {
        if let Cow::Owned(masked) = self.replace_secrets(&error.message) {
            error.message = masked;
        }
        error.code.take_if(|code| matches!(self.replace_secrets(code), Cow::Owned(_)));
    }

    /// Masks the body of an error: its JSON structure is kept, its strings are masked.
    pub(super) fn mask_body(&self, body: String) -> String {
        match serde_json::from_str::<Value>(&body) {
            Ok(mut value) => {
                if self.mask_value(&mut value) {
                    value.to_string()
                } else {
                    body
                }
            }
            Err(_) => self.mask(&body).unwrap_or(body),
        }
    }

    /// Whether anything had to be masked.
    fn mask_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.mask(text) {
                Some(masked) => {
                    *text = masked;
                    true
                }
                None => false,
            },
            Value::Array(values) => values.iter_mut().fold(false, |any, value| self.mask_value(value) | any),
            Value::Object(fields) => {
                let mut any = false;
                let masked = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                    any |= self.mask_value(&mut value);
                    let masked = self.mask(&name);
                    any |= masked.is_some();
                    (masked.unwrap_or(name), value)
                });
                *fields = masked.collect::<Map<_, _>>();
                any
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The masked text, if anything had to be masked. White space is kept.
    fn mask(&self, text: &str) -> Option<String> {
        let known = self.replace_secrets(text);
        let mut masked = String::with_capacity(known.len());
        for piece in known.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            masked.push_str(mask_of(word).unwrap_or(word));
            masked.push_str(piece.get(word.len()..).unwrap_or_default());
        }
        (masked != text).then_some(masked)
    }

    fn replace_secrets<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| match text.contains(secret) {
            true => Cow::Owned(text.replace(secret, "[key]")),
            false => text,
        })
    }
}

/// A text of a provider with its secrets masked, and with the part of one that stands before an ellipsis.
pub fn mask_excerpt(settings: &ProviderSettings, text: &str) -> String {
    let secrets = Secrets::from_settings(settings);
    let mut masked = secrets.replace_secrets(text).into_owned();
    for secret in &secrets.0 {
        for part in (MIN_SECRET_BYTES..secret.len()).rev().filter_map(|end| secret.get(..end)) {
            masked = masked.replace(&format!("{part}…"), "[key]…");
        }
    }
    masked
}

/// A provider's message for a client: one line of bounded length, with addresses and keys masked.
pub(super) fn sanitize(message: &str, secret: Option<&str>) -> String {
    const MAX_CHARS: usize = 600;
    let message = match secret.filter(|secret| !secret.is_empty()) {
        Some(secret) => Cow::Owned(message.replace(secret, "[key]")),
        None => Cow::Borrowed(message),
    };
    let mut shown = String::new();
    for word in message.split_whitespace() {
        let word = mask_of(word).unwrap_or(word);
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.extend(word.chars().filter(|c| !c.is_control()));
        if let Some((end, _)) = shown.char_indices().nth(MAX_CHARS) {
            shown.truncate(end);
            shown.push('…');
            break;
        }
    }
    shown
}

/// The placeholder for a word that is an address or a key.
fn mask_of(word: &str) -> Option<&'static str> {
    let bare = word.trim_matches(|c: char| c.is_ascii_punctuation());
    if bare.contains("://") || is_address(bare) { Some("[address]") } else { is_key(bare).then_some("[key]") }
}

fn is_address(word: &str) -> bool {
    word.parse::<SocketAddr>().is_ok() || word.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::ProviderErrorKind;
    use antwort_config::Preset;

    #[test]
    fn an_excerpt_does_not_end_with_half_a_key() {
        let key = Some(SecretString::from("sk-secret-abcdef"));
        let settings = ProviderSettings { api_key: key, ..ProviderSettings::default() };
        let masked = |text| mask_excerpt(&settings, text);
        assert_eq!(masked("for sk-secret-abcdef, and sk-secret-ab…"), "for [key], and [key]…");
        assert_eq!(masked("sk-…"), "sk-…");
    }

    #[test]
    fn what_a_client_must_not_see_is_taken_out() {
        let words = "connect to http://10.0.0.5:8000/v1 (10.0.0.5:8000) failed\nwith 'sk-abcdefgh' and t0ken, see \u{1b}[1mdocs";
        assert_eq!(
            sanitize(words, Some("t0ken")),
            "connect to [address] [address] failed with [key] and [key], see [1mdocs"
        );
        assert_eq!(sanitize(&"word ".repeat(1000), None).chars().count(), 601);
        assert_eq!(sanitize(&"é".repeat(1000), None).chars().count(), 601);
    }

    #[test]
    fn a_body_keeps_its_shape_and_loses_its_secrets() {
        let mut settings = ProviderSettings::new(Preset::Generic, "http://localhost/v1");
        settings.api_key = Some(SecretString::from("hunter2"));
        settings.headers.insert("x-team".into(), SecretString::from("Basic dXNlcjpwdw"));
        settings.headers.insert("x-flag".into(), SecretString::from("on"));
        let secrets = Secrets::from_settings(&settings);
        let kept = r#"{"error" : {"message": "carry on", "code": 1e400}}"#;
        assert_eq!(secrets.mask_body(kept.to_owned()), kept, "byte for byte where there is nothing to hide");
        for (body, masked) in [
            (
                r#"{"error":{"message":"bad  key hunter2,\nsee https://a.example/?k=1","n":12}}"#,
                r#"{"error":{"message":"bad  key [key],\nsee [address]","n":12}}"#,
            ),
            (r#"{"headers":[{"hunter2":"dXNlcjpwdw"}]}"#, r#"{"headers":[{"[key]":"[key]"}]}"#),
            ("Basic dXNlcjpwdw at 10.0.0.1\n", "[key] at [address]\n"),
        ] {
            assert_eq!(secrets.mask_body(body.to_owned()), masked);
        }
        let mut error = ProviderError::new(ProviderErrorKind::Status(400), "hunter2 and Basic dXNlcjpwdw");
        error.code = Some("hunter2".into());
        secrets.mask_error(&mut error);
        assert_eq!((error.message.as_str(), error.code), ("[key] and [key]", None));
    }
}
