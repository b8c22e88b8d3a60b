//! Agent profiles: a request that names one takes from it what it does not set itself.

use std::collections::BTreeMap;

use antwort_config::AgentSettings;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::CreateResponse;

/// The agent profile that a request names.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgentProfile<'a> {
    pub name: &'a str,
    pub settings: &'a AgentSettings,
}

/// Finds the profile that the request names, and sets the fields that the request leaves open: the model, its options
/// and the instructions.
///
/// Returns the profile's instructions, which the model sees and the client does not.
pub(super) fn apply<'a>(
    agents: &'a BTreeMap<String, AgentSettings>,
    request: &mut CreateResponse,
) -> Result<(Option<AgentProfile<'a>>, Option<String>), ApiError> {
    let (name, param) = match (&request.prompt, &request.agent) {
        (Some(prompt), _) => (prompt.id.as_str(), "prompt.id"),
        (None, Some(agent)) => (agent.as_str(), "agent"),
        (None, None) => return Ok((None, None)),
    };
    let Some((name, settings)) = agents.get_key_value(name) else {
        return Err(ApiError::new(
            ErrorKind::NotFound,
            format!("There is no agent profile '{}'; GET /v1/agents lists them.", truncate_for_display(name)),
        )
        .with_code("agent_not_found")
        .with_param(param));
    };
    fill_in(request, settings);
    let given = request.prompt.as_ref().map(|prompt| &prompt.variables);
    let instructions = match (&request.instructions, &settings.instructions) {
        (None, Some(template)) => Some(render(template, given, &settings.variables)?),
        _ => None,
    };
    Ok((Some(AgentProfile { name, settings }), instructions))
}

/// Sets open fields from the profile; the response echoes what is in force.
fn fill_in(request: &mut CreateResponse, profile: &AgentSettings) {
    if request.model.is_none() {
        request.model.clone_from(&profile.model);
    }
    if request.text.format.is_none() {
        request.text.format.clone_from(&profile.text.format);
    }
    request.text.verbosity = request.text.verbosity.or(profile.text.verbosity);
    request.reasoning.effort = request.reasoning.effort.or(profile.reasoning.effort);
    request.reasoning.summary = request.reasoning.summary.or(profile.reasoning.summary);
    request.temperature = request.temperature.or(profile.temperature);
    request.top_p = request.top_p.or(profile.top_p);
    request.max_output_tokens = request.max_output_tokens.or(profile.max_output_tokens);
}

/// Replaces each `{{name}}` of the template; a variable without a value is an error of the request.
fn render(
    template: &str,
    given: Option<&BTreeMap<String, String>>,
    defaults: &BTreeMap<String, String>,
) -> Result<String, ApiError> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let Some((name, behind)) = after.split_once("}}") else {
            text.push_str("{{");
            rest = after;
            continue;
        };
        let name = name.trim();
        match given.and_then(|given| given.get(name)).or_else(|| defaults.get(name)) {
            Some(value) => text.push_str(value),
            None => {
                return Err(ApiError::invalid(
                    "missing_required_parameter",
                    format!("prompt.variables.{name}"),
                    format!("The agent's instructions need the variable '{name}'."),
                ));
            }
        }
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_once_and_missing_ones_refused() {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let given = map(&[("name", "{{tone}}")]);
        let text = render("Hi {{ name }}, be {{tone}}. {{", Some(&given), &map(&[("tone", "kind")])).unwrap();
        assert_eq!(text, "Hi {{tone}}, be kind. {{");
        let error = render("{{x}}", None, &BTreeMap::new()).unwrap_err();
        assert_eq!(error.body.param.as_deref(), Some("prompt.variables.x"));
    }
}
