//! `/v1/agents`: the agent profiles that requests may name. Their instructions are not exposed.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::AppState;
use super::error::ErrorResponse;
use super::query::PathParam;
use antwort_config::{AgentSettings, LimitOverrides};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;

#[derive(Serialize)]
struct Agent<'a> {
    id: &'a str,
    object: &'static str,
    description: Option<&'a str>,
    model: Option<&'a str>,
    tools: &'a [String],
    /// The template variables of its instructions, and whether a request must provide each.
    variables: Vec<Variable<'a>>,
    limits: &'a LimitOverrides,
}

#[derive(Serialize)]
struct Variable<'a> {
    name: &'a str,
    required: bool,
}

impl<'a> Agent<'a> {
    fn new(id: &'a str, settings: &'a AgentSettings) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for part in settings.instructions.as_deref().unwrap_or_default().split("{{").skip(1) {
            if let Some((name, _)) = part.split_once("}}").filter(|(name, _)| !names.contains(&name.trim())) {
                names.push(name.trim());
            }
        }
        let variable = |name| Variable { name, required: !settings.variables.contains_key(name) };
        Self {
            id,
            object: "agent",
            description: settings.description.as_deref(),
            model: settings.model.as_deref(),
            tools: &settings.tools,
            variables: names.into_iter().map(variable).collect(),
            limits: &settings.limits,
        }
    }
}

/// `GET /v1/agents`
pub(super) async fn list(State(app): State<AppState>) -> Response {
    #[derive(Serialize)]
    struct List<'a> {
        object: &'static str,
        data: Vec<Agent<'a>>,
        has_more: bool,
    }
    let agents = app.services.agents.iter();
    let data = agents.map(|(id, settings)| Agent::new(id, settings)).collect();
    Json(List { object: "list", data, has_more: false }).into_response()
}

/// `GET /v1/agents/{id}`
pub(super) async fn retrieve(
    State(app): State<AppState>,
    PathParam(id): PathParam,
) -> Result<Response, ErrorResponse> {
    match app.services.agents.get_key_value(&id) {
        Some((id, settings)) => Ok(Json(Agent::new(id, settings)).into_response()),
        None => Err(ErrorResponse(
            ApiError::new(
                ErrorKind::NotFound,
                format!("There is no agent profile '{}'.", truncate_for_display(&id)),
            )
            .with_code("agent_not_found"),
        )),
    }
}
