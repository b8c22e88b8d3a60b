//! The authorization server: says where it is, and gives tokens for secrets, for signed assertions, and for
//! other tokens.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use uuid::Uuid;

use super::script::Script;

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// What it was told and what it gave.
#[derive(Default)]
pub struct Issuer {
    clients: HashMap<String, Client>,
    expires_in: Option<u64>,
    failures: Vec<(u16, Value)>,
    tokens: Vec<(String, Option<Instant>)>,
    requests: Vec<TokenRequest>,
    scopes: HashMap<String, String>,
    gives_not: Option<String>,
}

/// How a client shows who it is.
enum Client {
    Secret(String),
    /// An HMAC key, or a public key in PEM.
    Key(jsonwebtoken::Algorithm, Box<jsonwebtoken::DecodingKey>),
}

/// A request for a token.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its form.
    pub form: BTreeMap<String, String>,
    /// Who asked, once that is proven.
    pub client: Option<String>,
    /// The claims of the assertion that proved it.
    pub claims: Option<Value>,
}

impl Issuer {
    /// Whether a token was given with this scope.
    pub fn has_scope(&self, token: &str, scope: &str) -> bool {
        self.scopes.get(token).is_some_and(|given| given.split(' ').any(|given| given == scope))
    }

    /// Whether a token was given out and has not expired.
    pub fn is_valid(&self, token: &str) -> bool {
        let now = Instant::now();
        self.tokens.iter().any(|(known, until)| known == token && until.is_none_or(|until| now < until))
    }
}

/// What tests tell it and ask it.
pub struct OAuth<'a>(&'a Arc<Script>);

impl<'a> OAuth<'a> {
    pub(super) fn new(script: &'a Arc<Script>) -> Self {
        Self(script)
    }

    /// Where tokens are to be had.
    pub fn token_url(&self) -> String {
        format!("{}/token", self.0.base)
    }

    /// Knows this client by its secret.
    pub fn client(&self, id: &str, secret: &str) -> &Self {
        self.0.issuer().clients.insert(id.to_owned(), Client::Secret(secret.to_owned()));
        self
    }

    /// Knows this client by what it signs.
    pub fn signing_client(
        &self,
        id: &str,
        algorithm: jsonwebtoken::Algorithm,
        key: jsonwebtoken::DecodingKey,
    ) -> &Self {
        self.0.issuer().clients.insert(id.to_owned(), Client::Key(algorithm, Box::new(key)));
        self
    }

    /// Tokens live for so many seconds; until told so, they live for ever and that is not said.
    pub fn expires_in(&self, seconds: u64) -> &Self {
        self.0.issuer().expires_in = Some(seconds);
        self
    }

    /// Answers the next requests for tokens so, one each.
    pub fn fail(&self, status: u16, body: Value) -> &Self {
        self.0.issuer().failures.push((status, body));
        self
    }

    /// Gives no token with this scope.
    pub fn gives_not(&self, scope: &str) -> &Self {
        self.0.issuer().gives_not = Some(scope.to_owned());
        self
    }

    /// Takes no token any more that it has given out.
    pub fn revoke_all(&self) -> &Self {
        self.0.issuer().tokens.clear();
        self
    }

    /// Every request for a token.
    pub fn requests(&self) -> Vec<TokenRequest> {
        self.0.issuer().requests.clone()
    }

    /// The tokens that it gave and still takes or took until they expired, the oldest first.
    pub fn tokens(&self) -> Vec<String> {
        self.0.issuer().tokens.iter().map(|(token, _)| token.clone()).collect()
    }
}

/// Its routes.
pub fn routes() -> Router<Arc<Script>> {
    Router::new()
        .route("/.well-known/oauth-protected-resource", get(resource))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/token", post(token))
}

async fn resource(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap) -> Response {
    script.arrived(Method::GET, &uri, &headers, b"");
    if script.knobs().no_metadata {
        return StatusCode::NOT_FOUND.into_response();
    }
    let resource = format!("{}/mcp", script.base);
    Json(json!({"resource": resource, "authorization_servers": [script.base]})).into_response()
}

async fn metadata(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap) -> Response {
    script.arrived(Method::GET, &uri, &headers, b"");
    if script.knobs().no_metadata {
        return StatusCode::NOT_FOUND.into_response();
    }
    Json(json!({
        "issuer": script.base,
        "token_endpoint": format!("{}/token", script.base),
        "grant_types_supported": ["client_credentials", EXCHANGE],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "private_key_jwt"],
        "response_types_supported": [],
    }))
    .into_response()
}

async fn token(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    script.arrived(Method::POST, &uri, &headers, &body);
    let form: BTreeMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind != Some("application/x-www-form-urlencoded") {
        return refuse(StatusCode::BAD_REQUEST, "invalid_request", "a form is needed");
    }
    let proven = prove(&script, &headers, &form);
    let mut issuer = script.issuer();
    let (client, claims) = proven.clone().map_or((None, None), |(id, claims)| (Some(id), claims));
    issuer.requests.push(TokenRequest { headers, form: form.clone(), client, claims });
    if !issuer.failures.is_empty() {
        let (status, body) = issuer.failures.remove(0);
        return (StatusCode::from_u16(status).unwrap(), Json(body)).into_response();
    }
    if let Err(why) = proven {
        return refuse(StatusCode::UNAUTHORIZED, "invalid_client", &why);
    }
    let mut answer = json!({"token_type": "Bearer"});
    match form.get("grant_type").map(String::as_str) {
        Some("client_credentials") => (),
        Some(EXCHANGE) if form.contains_key("subject_token") && form.contains_key("subject_token_type") => {
            answer["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token".into();
        }
        Some(EXCHANGE) => return refuse(StatusCode::BAD_REQUEST, "invalid_request", "no subject_token"),
        other => {
            return refuse(StatusCode::BAD_REQUEST, "unsupported_grant_type", other.unwrap_or_default());
        }
    }
    let scope = form.get("scope").cloned().unwrap_or_default();
    if issuer.gives_not.as_ref().is_some_and(|denied| scope.split(' ').any(|scope| scope == denied)) {
        return refuse(StatusCode::BAD_REQUEST, "invalid_scope", &scope);
    }
    let token = format!("at-{}", Uuid::now_v7().simple());
    issuer.scopes.insert(token.clone(), scope);
    let expires_in = issuer.expires_in;
    issuer
        .tokens
        .push((token.clone(), expires_in.map(|seconds| Instant::now() + Duration::from_secs(seconds))));
    answer["access_token"] = token.into();
    if let Some(seconds) = expires_in {
        answer["expires_in"] = seconds.into();
    }
    if let Some(scope) = form.get("scope") {
        answer["scope"] = scope.as_str().into();
    }
    ([(header::CACHE_CONTROL, "no-store")], Json(answer)).into_response()
}

fn refuse(status: StatusCode, error: &str, why: &str) -> Response {
    (status, Json(json!({"error": error, "error_description": why}))).into_response()
}

/// Who asks, and the claims with which that was proven.
fn prove(
    script: &Script,
    headers: &HeaderMap,
    form: &BTreeMap<String, String>,
) -> Result<(String, Option<Value>), String> {
    if let Some(assertion) = form.get("client_assertion") {
        return prove_signed(script, form, assertion);
    }
    let (id, secret) = match headers.get(header::AUTHORIZATION) {
        Some(value) => {
            let basic = value.to_str().ok().and_then(|value| value.strip_prefix("Basic "));
            let pair = basic.and_then(|basic| STANDARD.decode(basic).ok()).ok_or("not Basic")?;
            let pair = String::from_utf8(pair).map_err(|error| error.to_string())?;
            let (id, secret) = pair.split_once(':').ok_or("no pair")?;
            (decoded(id), decoded(secret))
        }
        None => {
            let id = form.get("client_id").ok_or("no client_id")?;
            (id.clone(), form.get("client_secret").ok_or("no client_secret")?.clone())
        }
    };
    match script.issuer().clients.get(&id) {
        Some(Client::Secret(known)) if *known == secret => Ok((id, None)),
        _ => Err(format!("another secret than that of {id}")),
    }
}

fn prove_signed(
    script: &Script,
    form: &BTreeMap<String, String>,
    assertion: &str,
) -> Result<(String, Option<Value>), String> {
    if form.get("client_assertion_type").map(String::as_str) != Some(ASSERTION) {
        return Err("another client_assertion_type".to_owned());
    }
    let payload = assertion.split('.').nth(1).ok_or("no JWT")?;
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|error| error.to_string())?;
    let claims: Value = serde_json::from_slice(&payload).map_err(|error| error.to_string())?;
    let id = claims["sub"].as_str().unwrap_or_default();
    if claims["iss"] != claims["sub"] || !claims["jti"].is_string() {
        return Err("the claims iss and sub differ, or jti is missing".to_owned());
    }
    let issuer = script.issuer();
    let Some(Client::Key(algorithm, key)) = issuer.clients.get(id) else {
        return Err(format!("no key of {id}"));
    };
    let mut rules = jsonwebtoken::Validation::new(*algorithm);
    rules.set_audience(&[format!("{}/token", script.base), script.base.clone()]);
    jsonwebtoken::decode::<Value>(assertion, key, &rules).map_err(|error| error.to_string())?;
    Ok((id.to_owned(), Some(claims)))
}

/// In Basic, both parts are encoded as in forms.
fn decoded(part: &str) -> String {
    form_urlencoded::parse(format!("x={part}").as_bytes()).map(|(_, value)| value.into_owned()).collect()
}
