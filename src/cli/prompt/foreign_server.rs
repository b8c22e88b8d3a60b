//! Keys of the environment that would go to the server of an agent file, because that gives its provider the name of ours.

use antwort_config::LoadOptions;

/// The provider that `--upstream-url` and `ANTWORT_UPSTREAM_URL` describe.
const DEFAULT: &str = "default";

/// Refuses variables with secrets of a provider whose address comes from the agent file.
///
/// # Errors
/// The message names the variable.
pub(super) fn check(provider: &str, options: &LoadOptions) -> Result<(), String> {
    let prefix = format!("ANTWORT__PROVIDERS__{}__", provider.to_ascii_uppercase().replace('-', "_"));
    let is_set = |name: &str| options.environment.get(name).is_some_and(|value| !value.is_empty());
    let is_default = provider.eq_ignore_ascii_case(DEFAULT);
    let has_own_address = is_set(&format!("{prefix}URL"))
        || is_default && (options.upstream_url.is_some() || is_set("ANTWORT_UPSTREAM_URL"));
    if provider.is_empty() || has_own_address {
        return Ok(());
    }
    let holds_secret = |name: &&String| {
        let key = name.to_ascii_uppercase();
        let key = key.strip_prefix(&prefix);
        let of_provider = key.is_some_and(|key| key == "API_KEY" || key.starts_with("HEADERS__"));
        is_set(name) && (of_provider || is_default && *name == "ANTWORT_UPSTREAM_API_KEY")
    };
    match options.environment.keys().find(holds_secret) {
        None => Ok(()),
        Some(name) => Err(format!(
            "its provider is named `{provider}`, so that {name} would be sent to the server that the file names: unset \
             the variable, set the address beside it, or allow it with --allow-files"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use antwort_config::LoadOptions;

    #[test]
    fn a_key_goes_to_no_server_that_an_agent_file_names() {
        for (provider, variables, refused) in [
            ("ollama", "ANTWORT_UPSTREAM_API_KEY", None),
            ("default", "ANTWORT_UPSTREAM_API_KEY", Some("ANTWORT_UPSTREAM_API_KEY")),
            ("default", "ANTWORT_UPSTREAM_API_KEY ANTWORT_UPSTREAM_URL", None),
            ("open-ai", "ANTWORT__PROVIDERS__OPEN_AI__API_KEY", Some("ANTWORT__PROVIDERS__OPEN_AI__API_KEY")),
            (
                "open-ai",
                "ANTWORT__PROVIDERS__open_ai__HEADERS__X",
                Some("ANTWORT__PROVIDERS__open_ai__HEADERS__X"),
            ),
            ("open-ai", "ANTWORT__PROVIDERS__OPEN_AI__API_KEY ANTWORT__PROVIDERS__OPEN_AI__URL", None),
            ("open-ai", "ANTWORT__PROVIDERS__OTHER__API_KEY ANTWORT__PROVIDERS__OPEN_AI__PRESET", None),
            ("", "ANTWORT_UPSTREAM_API_KEY", None),
        ] {
            let environment = variables.split(' ').map(|name| (name.to_owned(), "x".to_owned())).collect();
            let checked = check(provider, &LoadOptions { environment, ..LoadOptions::default() });
            match refused {
                None => assert_eq!(checked, Ok(()), "{provider} {variables}"),
                Some(name) => {
                    assert!(checked.is_err_and(|error| error.contains(name)), "{provider} {variables}");
                }
            }
        }
    }
}
