//! `/v1/admin`: what operators do with stored data.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::AppState;
use super::access::Authenticated;
use super::error::ErrorResponse;
use super::query::Query;
use antwort_config::Scope;
use antwort_identity::Principal;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_store::{ErasedCounts, ErasureTarget};

/// `DELETE /v1/admin/data?tenant=&owner=`: deletes all that a tenant, or one owner of it, has stored.
pub(super) async fn erase(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
    query: Query,
) -> Result<Response, ErrorResponse> {
    #[derive(Serialize)]
    struct Erased<'a> {
        object: &'static str,
        tenant: &'a str,
        owner: Option<&'a str>,
        responses: u64,
        conversations: u64,
    }
    query.reject_unknown(&["tenant", "owner"])?;
    query.reject_lists()?;
    let target = target(&query)?;
    check_own(&caller.0, &target)?;
    let (store, wanted) = (Arc::clone(&app.services.store), target.clone());
    #[expect(
        clippy::disallowed_methods,
        reason = "a half of an erasure is none: it goes on when its client disconnects"
    )]
    let erasing = tokio::spawn(async move { store.erase(&wanted).await });
    let ErasedCounts { responses, conversations } = erasing.await.map_err(|_| ApiError::internal())??;
    let (tenant, owner) = (&*target.tenant, target.principal.as_deref());
    tracing::info!(key = %caller.0.name, tenant, owner, responses, conversations, "data was erased");
    let answer = Erased { object: "data.erased", tenant, owner, responses, conversations };
    Ok(Json(answer).into_response())
}

fn target(query: &Query) -> Result<ErasureTarget, ApiError> {
    let Some(tenant) = query.get("tenant") else {
        let message =
            "Name the tenant whose data is erased: '?tenant=…', and '&owner=…' for one owner of it alone.";
        return Err(ApiError::invalid("missing_required_parameter", "tenant", message));
    };
    // `owner=` would erase the whole tenant.
    if query.is_on("owner") && query.get("owner").is_none() {
        let message = "'owner' is empty; leave it out to erase the whole tenant.";
        return Err(ApiError::invalid("invalid_value", "owner", message));
    }
    Ok(ErasureTarget { tenant: tenant.into(), principal: query.get("owner").map(Into::into) })
}

/// The data of others is erased only by keys that name the scope: `*` is what keys have by default.
fn check_own(caller: &Principal, target: &ErasureTarget) -> Result<(), ApiError> {
    let own = &caller.owner;
    let is_own = target.tenant == own.tenant && target.principal.as_ref() == Some(&own.principal);
    if is_own || caller.scopes.names(Scope::DataAdmin) {
        return Ok(());
    }
    let message = format!(
        "This API key has the scope `*`, which allows it to erase its own data only (tenant={}&owner={}). To erase that \
         of others, the key must name the scope `{}`.",
        own.tenant,
        own.principal,
        Scope::DataAdmin.name()
    );
    Err(ApiError::new(ErrorKind::PermissionDenied, message))
}
