//! Unknown fields: which are passed to the provider, and what their sender may have meant.

use super::field_table::refused_request_field;
use super::{CreateResponse, FIELDS};
use crate::error::ApiError;
use crate::parse::truncate_for_display;

/// Names of other APIs for fields of this one.
const ALIASES: &[(&str, &str)] = &[
    ("conversation_id", "conversation"),
    ("function_call", "tool_choice"),
    ("functions", "tools"),
    ("json_schema", "text.format"),
    ("logprobs", "include: [\"message.output_text.logprobs\"]"),
    ("max_completion_tokens", "max_output_tokens"),
    ("max_new_tokens", "max_output_tokens"),
    ("max_tokens", "max_output_tokens"),
    ("messages", "input"),
    ("reasoning_effort", "reasoning.effort"),
    ("response_format", "text.format"),
    ("system", "instructions"),
    ("system_prompt", "instructions"),
    ("thinking", "reasoning"),
    ("verbosity", "text.verbosity"),
];

impl CreateResponse {
    /// Refuses unknown fields, except for those that `allowed` passes to the provider.
    pub fn check_unknown_fields(&self, allowed: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        match self.extra.iter().find(|(name, _)| !allowed(name)) {
            Some((name, _)) => Err(unknown(name)),
            None => Ok(()),
        }
    }
}

fn unknown(name: &str) -> ApiError {
    let shown = truncate_for_display(name);
    if let Some(why) = refused_request_field(name) {
        let message = format!(
            "Unsupported '{shown}': {why} With the gateway's setting 'compat.unknown_fields: ignore' the field is ignored."
        );
        return ApiError::unsupported(shown, message);
    }
    let message = match suggestion(name) {
        Some(other) => format!("Unknown parameter '{shown}'. Did you mean '{other}'?"),
        None => format!("Unknown parameter '{shown}'."),
    };
    ApiError::invalid("unknown_parameter", shown, message)
}

/// The field that was probably meant.
fn suggestion(name: &str) -> Option<&'static str> {
    // Longer than any field: not a misspelling, and expensive to compare.
    const MAX_LENGTH: usize = 40;
    if let Some((_, known)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Some(known);
    }
    if name.len() > MAX_LENGTH {
        return None;
    }
    let tolerated = (name.len() / 3).min(2);
    FIELDS
        .iter()
        .map(|field| (strsim::levenshtein(name, field), *field))
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, field)| field)
}

#[cfg(test)]
mod tests {
    use super::{suggestion, unknown};

    #[test]
    fn misspellings_and_names_of_other_apis_are_recognised() {
        assert_eq!(suggestion("max_tokens"), Some("max_output_tokens"));
        assert_eq!(suggestion("temprature"), Some("temperature"));
        assert_eq!(suggestion("tool"), Some("tools"));
        assert_eq!(suggestion("top_k"), Some("top_p"));
        assert_eq!(suggestion("chat_template_kwargs"), None);
        assert_eq!(suggestion("x"), None);
    }

    #[test]
    fn the_error_for_a_field_of_the_api_names_the_setting_that_ignores_it() {
        let error = unknown("image");
        assert_eq!((error.code(), error.body.param.as_deref()), ("unsupported_parameter", Some("image")));
        assert!(error.body.message.contains("'compat.unknown_fields: ignore'"), "{}", error.body.message);
    }
}
