//! The address that a gateway with this configuration listens on, whatever else is wrong with it: a health check must
//! not fail because of an edit of the file since the gateway started.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;

use super::error::ConfigErrors;
use super::load::find_file;
use super::tree::Tree;
use super::{LoadOptions, Settings, interpolate, resolve, sources};

/// From flags or the environment, else the file, else the default.
///
/// # Errors
/// If a flag or a variable is set to an invalid address.
pub fn listen_address(options: &LoadOptions) -> Result<SocketAddr, ConfigErrors> {
    let (flags, environment) =
        (sources::from_flags(options), sources::from_environment(options, &Tree::default()));
    if let Some(text) = flags.text(&["listen"]).or_else(|| environment.text(&["listen"])) {
        return resolve::parse_listen(text).ok_or_else(|| {
            ConfigErrors::single(format!("listen: expected an address and a port, found \"{text}\""))
        });
    }
    let in_file = in_file(options).and_then(|text| resolve::parse_listen(&text));
    Ok(in_file.unwrap_or_else(|| Settings::default().listen))
}

/// From the file, as far as it can be read.
fn in_file(options: &LoadOptions) -> Option<String> {
    let lookup = |name: &str| options.environment.get(name).filter(|value| !value.is_empty()).cloned();
    let text = fs::read_to_string(find_file(options, &lookup)?).ok()?;
    let listen = match serde_norway::from_str::<serde_norway::Value>(&text) {
        Ok(file) => file.get("listen")?.as_str()?.to_owned(),
        // Invalid YAML, but the line may still be there.
        Err(_) => text.lines().filter(|line| line.starts_with("listen:")).find_map(value)?,
    };
    let filled = interpolate::variables(&listen, &lookup).ok()?.unwrap_or(listen);
    Some(interpolate::file(&filled).ok()?.unwrap_or(filled))
}

/// The value of a line `key: value`.
fn value(line: &str) -> Option<String> {
    serde_norway::from_str::<BTreeMap<String, String>>(line).ok()?.into_values().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(file: Option<&str>, environment: &[(&str, &str)], flag: Option<&str>) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = file {
            fs::write(folder.path().join("antwort.yaml"), text).unwrap();
        }
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let options = LoadOptions {
            listen: flag.map(str::to_owned),
            environment,
            directory: Some(folder.path().to_owned()),
            ..LoadOptions::default()
        };
        listen_address(&options).ok().map(|address| address.to_string())
    }

    #[test]
    fn the_address_is_found_whatever_else_is_wrong_with_the_file() {
        for file in [
            "listen: 0.0.0.0:9",
            "listen: '0.0.0.0:9' # everywhere\nsever: {max_runs: many}",
            "providers: {a: {url: nowhere}}\nlisten: ${HOST:-0.0.0.0}:9",
            "listen: 0.0.0.0:9\nproviders: {a: [",
            "listen: \"0.0.0.0:9\"\nlog: x\nlog: y",
            "server:\n\tmax_runs: 1\nlisten: 0.0.0.0:9",
        ] {
            assert_eq!(address(Some(file), &[], None).as_deref(), Some("0.0.0.0:9"), "{file}");
        }
    }

    #[test]
    fn flags_count_before_the_environment_the_file_and_the_default() {
        let file = Some("listen: 0.0.0.0:9");
        let variable = [("ANTWORT_LISTEN", "localhost:7")];
        assert_eq!(address(file, &variable, Some("[::1]:8")).as_deref(), Some("[::1]:8"));
        assert_eq!(address(file, &variable, None).as_deref(), Some("127.0.0.1:7"));
        assert_eq!(
            address(file, &[("ANTWORT__LISTEN", "127.0.0.1:6")], None).as_deref(),
            Some("127.0.0.1:6")
        );
        for nothing in [None, Some(""), Some("listen: [1]"), Some("listen: everywhere"), Some("\u{0}")] {
            assert_eq!(address(nothing, &[], None).as_deref(), Some("127.0.0.1:8080"), "{nothing:?}");
        }
        assert_eq!(address(file, &[], Some("everywhere")), None, "what was just said is not guessed at");
    }
}
