//! What a file of somebody else would make the gateway read, and send to a server that the same file names: files
//! (`file:/path`) and environment variables (`${NAME}`). None of it is read unless that is allowed.

use serde_json::{Map, Value};

use antwort_config::named_sources;

/// What becomes of values that name files or environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignReads {
    /// They are kept, and read when the configuration is loaded.
    Allowed,
    /// They are left out, with a note.
    LeftOut,
    /// They are an error.
    Refused,
}

/// The flag that allows them.
const FLAG: &str = "--allow-files";
/// Variables whose values go to the service that they are for, whatever the file says; they are read without a file, too.
const OF_SERVICES: [(&str, &str); 2] = [
    ("tools.builtin.get_weather.api_key", "WEATHER_API_KEY"),
    ("tools.builtin.web_search.api_key", "SEARCH_API_KEY"),
];
/// Without one of these a server is not the one of the file.
const ESSENTIAL: [&str; 4] = ["url", "command", "args", "cwd"];

/// A value that names a file or a variable.
struct Found {
    path: Vec<String>,
    sources: String,
}

impl ForeignReads {
    /// Applies this to the translation of a file.
    ///
    /// # Errors
    /// If such values are refused and there are some; the message names their keys.
    pub(super) fn apply(
        self,
        config: &mut Map<String, Value>,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        if self == Self::Allowed {
            return Ok(());
        }
        let mut found = Vec::new();
        for (key, value) in &*config {
            search(value, &mut vec![key.clone()], &mut found);
        }
        let is_refused = |found: &&Found| self == Self::Refused || found.restricts();
        let refused: Vec<_> = found
            .iter()
            .filter(is_refused)
            .map(|found| format!("{} names {}", found.key(), found.sources))
            .collect();
        if !refused.is_empty() {
            return Err(format!(
                "{}; such a file could send what they hold to a server of its choice: they are read only with {FLAG}",
                refused.join("; ")
            ));
        }
        for found in &found {
            let (path, what) = found.left_out();
            remove(config, path);
            notes.push(format!("{} names {}: {what} left out; {FLAG} keeps it", found.key(), found.sources));
        }
        if let Some(allowed) = config.get_mut("tools").and_then(|tools| tools.get_mut("allow_file_access"))
            && *allowed == Value::Bool(true)
        {
            *allowed = Value::Bool(false);
            notes.push(format!(
                "tools.security_policy.allow_file_access: the model reads files of this machine only with {FLAG}"
            ));
        }
        Ok(())
    }
}

impl Found {
    /// The key in the file, or ours if none is known.
    fn key(&self) -> String {
        match *self.steps() {
            ["mcp", "servers", ref rest @ ..] => return format!("mcpServers.{}", rest.join(".")),
            ["agents", _, "instructions" | "variables", ..] => "system_prompt",
            ["agents", _, "model"] => "transport.provider.model.name",
            ["agents", ..] => "transport.provider.model.options",
            ["providers", _, "url"] => "transport.provider.base_url",
            ["providers", _, "api_key"] => "transport.provider.options.token",
            ["tools", "builtin", "get_weather", "api_key"] => "tools.api_keys.weather",
            ["tools", "builtin", "web_search", "api_key"] => "tools.api_keys.search",
            ["tools", "builtin", "file_read", ..] => "tools.security_policy.allowed_paths",
            ["egress", ..] => "tools.security_policy.allowed_domains",
            ["tools", list, ..] => return format!("tools.{list}"),
            _ => return self.path.join("."),
        }
        .to_owned()
    }

    fn steps(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Whether more is allowed without the value than with it.
    fn restricts(&self) -> bool {
        matches!(*self.steps(), ["egress", ..] | ["tools", "allowed_tools" | "blocked_tools", ..])
    }

    /// The path of what is left out, and its name: a list as a whole, and a server without its address or program, too.
    fn left_out(&self) -> (&[String], &'static str) {
        match self.path.as_slice() {
            [mcp, servers, _, key, ..]
                if mcp == "mcp" && servers == "servers" && ESSENTIAL.contains(&key.as_str()) =>
            {
                (self.path.get(..3).unwrap_or_default(), "the server was")
            }
            [before @ .., last] if last.parse::<usize>().is_ok() => (before, "the list was"),
            whole => (whole, "it was"),
        }
    }
}

/// Adds the values that name something to read.
fn search(value: &Value, path: &mut Vec<String>, found: &mut Vec<Found>) {
    let mut below = |step: String, value: &Value| {
        path.push(step);
        search(value, path, found);
        path.pop();
    };
    match value {
        Value::String(text) => {
            let is_own = |(key, name): &(&str, &str)| {
                path.join(".") == *key && [format!("${{{name}}}"), format!("${{{name}:-}}")].contains(text)
            };
            if let Some(sources) = named_sources(text).filter(|_| !OF_SERVICES.iter().any(is_own)) {
                found.push(Found { path: path.clone(), sources });
            }
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| below(index.to_string(), value));
        }
        Value::Object(values) => values.iter().for_each(|(key, value)| below(key.clone(), value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn remove(config: &mut Map<String, Value>, path: &[String]) {
    let Some((last, before)) = path.split_last() else { return };
    let Some((first, rest)) = before.split_first() else {
        config.shift_remove(last);
        return;
    };
    let parent = config.get_mut(first).and_then(|value| {
        rest.iter().try_fold(value, |value, step| match value {
            Value::Array(values) => values.get_mut(step.parse::<usize>().ok()?),
            other => other.get_mut(step),
        })
    });
    if let Some(Value::Object(parent)) = parent {
        parent.shift_remove(last);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ForeignReads;

    fn apply(reads: ForeignReads, config: Value) -> (Result<(), String>, Value, String) {
        let Value::Object(mut config) = config else { panic!("an object") };
        let mut notes = Vec::new();
        let applied = reads.apply(&mut config, &mut notes);
        (applied, config.into(), notes.join("\n"))
    }

    #[test]
    fn what_names_a_file_or_a_variable_is_left_out_and_said_by_its_key() {
        let config = json!({
            "agents": {"a": {"instructions": "file:/s", "model": "m$${X}", "text": {"format": {"schema":
                {"anyOf": [{"description": "${X:-y}"}, {"type": "null"}]}}}}},
            "providers": {"p": {"url": "http://h/v1", "api_key": "${KEY}"}},
            "tools": {"allow_file_access": true, "builtin": {
                "get_weather": {"api_key": "${WEATHER_API_KEY:-}"},
                "web_search": {"api_key": "${SEARCH_API_KEY:-file:/s}"},
                "file_read": {"allowed_paths": ["/a", "${HOME}"]}}},
            "mcp": {"servers": {"kept": {"url": "http://h", "headers": {"A": "Bearer ${KEY}", "B": "b"}},
                "gone": {"command": "x", "args": ["file:/s"]}}},
        });
        let (applied, left, notes) = apply(ForeignReads::LeftOut, config.clone());
        assert_eq!(applied, Ok(()));
        assert_eq!(
            left,
            json!({
                "agents": {"a": {"model": "m$${X}", "text": {"format": {"schema": {"anyOf": [{}, {"type": "null"}]}}}}},
                "providers": {"p": {"url": "http://h/v1"}},
                "tools": {"allow_file_access": false, "builtin": {
                    "get_weather": {"api_key": "${WEATHER_API_KEY:-}"}, "web_search": {}, "file_read": {}}},
                "mcp": {"servers": {"kept": {"url": "http://h", "headers": {"B": "b"}}}},
            })
        );
        for part in [
            "system_prompt names the file /s: it was left out; --allow-files keeps it",
            "transport.provider.model.options names the variable X",
            "transport.provider.options.token names the variable KEY",
            "tools.api_keys.search names the variable SEARCH_API_KEY",
            "tools.security_policy.allowed_paths names the variable HOME: the list was",
            "mcpServers.kept.headers.A names the variable KEY",
            "mcpServers.gone.args.0 names the file /s: the server was",
            "tools.security_policy.allow_file_access",
        ] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        assert_eq!(notes.lines().count(), 8, "{notes}");
        let (applied, kept, notes) = apply(ForeignReads::Allowed, config.clone());
        assert_eq!((applied, kept, notes.as_str()), (Ok(()), config.clone(), ""));
        let error = apply(ForeignReads::Refused, config).0.unwrap_err();
        assert!(
            error.starts_with("system_prompt names the file /s; ") && error.contains("--allow-files"),
            "{error}"
        );
    }

    #[test]
    fn a_list_that_restricts_is_not_left_out() {
        for config in [
            json!({"egress": {"allowed_domains": ["${D}"]}}),
            json!({"tools": {"blocked_tools": ["file:/s"]}}),
        ] {
            let error = apply(ForeignReads::LeftOut, config).0.unwrap_err();
            assert!(error.contains("--allow-files"), "{error}");
        }
    }
}
