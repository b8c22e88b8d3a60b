//! The model's options of an agent file: some become part of the agent profile, the others stay options of requests.

use serde_json::{Map, Value, json};

use antwort_config::AgentSettings;

/// Takes the options that an agent profile has, as its keys and values. The others stay, under their names in requests.
pub(super) fn take(options: &mut Map<String, Value>) -> Map<String, Value> {
    let mut profile = Map::new();
    let mut rest = Map::new();
    for (name, value) in std::mem::take(options) {
        let (path, value) = map_option(name, value);
        match profile_with(&profile, &path, &value) {
            Some(longer) => profile = longer,
            None => _ = rest.insert(path.join("."), value),
        }
    }
    *options = rest;
    escaped(profile)
}

/// The key of an option here: chat completions name some of them differently.
fn map_option(name: String, value: Value) -> (Vec<String>, Value) {
    let path: &[&str] = match name.as_str() {
        "max_tokens" | "max_completion_tokens" => &["max_output_tokens"],
        "reasoning_effort" => &["reasoning", "effort"],
        "verbosity" => &["text", "verbosity"],
        "response_format" => &["text", "format"],
        _ => return (vec![name], value),
    };
    // Go writes whole numbers of type `float64` with a decimal point.
    let integer = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=4e9).contains(number));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "integer and in range")]
    let value = integer.map_or(value, |number| Value::from(number as u64));
    (path.iter().map(|step| (*step).to_owned()).collect(), value)
}

/// The profile with one more option; `None`: profiles do not have it, or not with this value.
fn profile_with(profile: &Map<String, Value>, path: &[String], value: &Value) -> Option<Map<String, Value>> {
    const KEYS: [&str; 5] = ["temperature", "top_p", "max_output_tokens", "reasoning", "text"];
    let (first, below) = path.split_first()?;
    if !KEYS.contains(&first.as_str()) {
        return None;
    }
    let mut longer = profile.clone();
    match below {
        [] => _ = longer.insert(first.clone(), value.clone()),
        [key, ..] => {
            let section = longer.entry(first.clone()).or_insert_with(|| json!({}));
            section.as_object_mut()?.insert(key.clone(), value.clone());
        }
    }
    let read: AgentSettings = serde_json::from_value(longer.clone().into()).ok()?;
    read.invalid_model_options().is_empty().then_some(longer)
}

/// A configuration expands `${…}`: such texts are escaped.
fn escaped(profile: Map<String, Value>) -> Map<String, Value> {
    profile.into_iter().map(|(key, value)| (key, escape(value))).collect()
}

fn escape(value: Value) -> Value {
    match value {
        Value::String(text) => text.replace("${", "$${").into(),
        Value::Array(values) => values.into_iter().map(escape).collect(),
        Value::Object(values) => values.into_iter().map(|(key, value)| (key, escape(value))).collect(),
        other => other,
    }
}
