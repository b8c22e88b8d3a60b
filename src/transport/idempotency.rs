//! The header `Idempotency-Key` of creates, and the answer to one that was sent before.
//!
//! The answer is the stored body, or the logged stream, as it was sent the first time; while the run goes on it is waited
//! for, or followed.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use super::access::Authenticated;
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use super::response_budget::{self, ResponseBudget};
use super::{AppState, follow};
use antwort_engine::{Keyed, KnownResponse, RunContext, RunHandle};
use antwort_protocol::error::ApiError;
use antwort_protocol::request::CreateResponse;
use antwort_store::IdempotencyKey;
use antwort_telemetry::request_log::RequestLog;
use antwort_util::digest::FieldHasher;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks the answer to a request that was sent before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Longest key.
const MAX_KEY: usize = 255;

/// The key of a request; `None` without the header.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.any(|other| other != value) {
        return Err(invalid("The header 'Idempotency-Key' is there more than once, with different values."));
    }
    let key = value.to_str().ok().filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()));
    match key {
        Some("") => Err(invalid("The header 'Idempotency-Key' is empty.")),
        Some(key) if key.len() <= MAX_KEY => Ok(Some(key)),
        Some(_) => {
            Err(invalid(&format!("The header 'Idempotency-Key' is longer than {MAX_KEY} characters.")))
        }
        None => Err(invalid(
            "The header 'Idempotency-Key' must consist of visible ASCII characters, without spaces; a UUID, for example.",
        )),
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::invalid("invalid_value", KEY.as_str(), message)
}

/// Starts a create with a key, whose body has this hash.
pub(super) async fn start(
    app: &AppState,
    request: Box<CreateResponse>,
    caller: RunContext,
    context: (&RequestContext, &HeaderMap),
    (key, body): (&str, [u8; 32]),
) -> Result<Keyed<RunHandle>, ApiError> {
    let key = identity(context, (key, body));
    let started = app.engine.start_keyed(request, caller, key).await;
    note(app, &context.0.log, &started);
    started
}

/// Counts what a create with a key has led to.
pub(super) fn note<T>(app: &AppState, log: &RequestLog, made: &Result<Keyed<T>, ApiError>) {
    let outcome = match made {
        Ok(Keyed::New(_)) => "new",
        Ok(Keyed::Known(known)) if known.is_running() => "followed",
        Ok(Keyed::Known(_)) => "replayed",
        Err(error) if error.code() == "idempotency_key_reused" => "reused",
        Err(_) => return,
    };
    app.metrics.idempotency_key(outcome);
    log.update(|facts| facts.idempotency = Some(outcome));
}

/// A key with what its request is known by, whose body has this hash.
pub(super) fn identity(
    context: (&RequestContext, &HeaderMap),
    (key, body): (&str, [u8; 32]),
) -> IdempotencyKey {
    IdempotencyKey { key: key.into(), fingerprint: fingerprint(context, body) }
}

/// What makes two requests the same: the body, and the headers that change what is made of it.
fn fingerprint((request, headers): (&RequestContext, &HeaderMap), body: [u8; 32]) -> [u8; 32] {
    let client = request.client_profile.map(|client| client.name);
    fingerprint_of(body, headers.get("antwort-dialect"), client)
}

/// It is stored with the key, and compared across versions.
fn fingerprint_of(body: [u8; 32], dialect: Option<&HeaderValue>, client: Option<&str>) -> [u8; 32] {
    FieldHasher::new().field(body).option(dialect).option(client).finish()
}

/// The answer with the response that the key has led to before.
pub(super) async fn replay(
    app: &AppState,
    principal: &Authenticated,
    mut known: Box<KnownResponse>,
    stream: bool,
    log: &Arc<RequestLog>,
) -> Result<Response, ErrorResponse> {
    if stream {
        let budget = ResponseBudget::new(app, principal.requester());
        return follow::replay(known.follower, budget, app.requests.keepalive, log).await.map(replayed);
    }
    follow::note(&known.follower, log);
    known.ended().await?;
    stored_answer(app, principal, &known).await
}

/// The answer with the response as it is stored.
pub(super) async fn stored_answer(
    app: &AppState,
    principal: &Authenticated,
    known: &KnownResponse,
) -> Result<Response, ErrorResponse> {
    let (owner, id) = (&principal.0.owner, known.follower.id.as_str());
    let found = response_budget::read_response(app, &principal.requester(), owner, id).await?;
    match found {
        Some(found) => Ok(replayed(found)),
        None => Err(known.follower.gone().await.into()),
    }
}

/// Marks the answer to a request that was sent before.
fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_util::digest::sha256;

    /// Computed by hand: a gateway that is updated between a request and its retry knows the request.
    #[test]
    fn stored_fingerprints_stay_the_same() {
        let field = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes(), bytes].concat();
        let plain = [field(&[7; 32]), field(b"-"), field(b"-")].concat();
        assert_eq!(fingerprint_of([7; 32], None, None), sha256(&plain));
        let dialect = HeaderValue::from_static("openai");
        let both = [field(&[7; 32]), field(b"+"), field(b"openai"), field(b"+"), field(b"codex")].concat();
        assert_eq!(fingerprint_of([7; 32], Some(&dialect), Some("codex")), sha256(&both));
    }

    #[test]
    fn a_key_is_one_value_of_visible_ascii() {
        let key_of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(KEY, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
            }
            key(&headers).map(|key| key.map(str::to_owned)).map_err(|error| error.code().to_owned())
        };
        let longest = "k".repeat(MAX_KEY);
        for (values, expected) in [
            (&[][..], Ok(None)),
            (&["a-1_~"], Ok(Some("a-1_~"))),
            (&["a", "a"], Ok(Some("a"))),
            (&[&longest], Ok(Some(longest.as_str()))),
            (&[""], Err(())),
            (&["a", "b"], Err(())),
            (&["a b"], Err(())),
            (&["schlüssel"], Err(())),
            (&[&format!("{longest}k")], Err(())),
        ] {
            let expected =
                expected.map(|key| key.map(str::to_owned)).map_err(|()| "invalid_value".to_owned());
            assert_eq!(key_of(values), expected, "{values:?}");
        }
    }
}
