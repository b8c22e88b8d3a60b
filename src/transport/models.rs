//! `/v1/models`: what the providers serve, under the names that requests use.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::AppState;
use super::error::ErrorResponse;
use super::query::PathParam;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_provider::ModelInfo;

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'a str,
}

impl<'a> From<&'a ModelInfo> for Model<'a> {
    fn from(model: &'a ModelInfo) -> Self {
        Self { id: &model.id, object: "model", created: model.created, owned_by: &model.owned_by }
    }
}

/// `GET /v1/models`
pub(super) async fn list(State(app): State<AppState>) -> Result<Response, ErrorResponse> {
    #[derive(Serialize)]
    struct List<'a> {
        object: &'static str,
        data: Vec<Model<'a>>,
        first_id: Option<&'a str>,
        last_id: Option<&'a str>,
        has_more: bool,
    }
    let models = app.services.catalog.list().await?;
    app.metrics.known_models(models.iter().map(|model| model.id.as_str()));
    Ok(Json(List {
        object: "list",
        data: models.iter().map(Model::from).collect(),
        first_id: models.first().map(|model| model.id.as_str()),
        last_id: models.last().map(|model| model.id.as_str()),
        has_more: false,
    })
    .into_response())
}

/// `GET /v1/models/{model}`. Model ids may contain slashes and colons, percent-encoded or not.
pub(super) async fn retrieve(
    State(app): State<AppState>,
    PathParam(id): PathParam,
) -> Result<Response, ErrorResponse> {
    let models = app.services.catalog.list().await?;
    match models.iter().find(|model| model.id == id) {
        Some(model) => Ok(Json(Model::from(model)).into_response()),
        None => Err(ErrorResponse(
            ApiError::new(
                ErrorKind::NotFound,
                format!("The model '{}' does not exist.", truncate_for_display(&id)),
            )
            .with_code("model_not_found")
            .with_param("model"),
        )),
    }
}
