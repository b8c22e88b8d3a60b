//! Path and query parameters.

use axum::extract::{FromRequestParts, Path, RawQuery};
use axum::http::request::Parts;

use super::error::ErrorResponse;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::Include;
use antwort_store::PageRequest;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// The one path parameter of a route, percent-decoded.
pub(super) struct PathParam(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathParam {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(ErrorResponse(
                ApiError::new(
                    ErrorKind::InvalidRequest,
                    "The URL cannot be read: its percent-encoded bytes are not UTF-8.",
                )
                .with_code("invalid_url"),
            )),
        }
    }
}

/// The query parameters, decoded, in order.
pub(super) struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        let RawQuery(query) = RawQuery::from_request_parts(parts, state).await.unwrap_or(RawQuery(None));
        let query = query.unwrap_or_default();
        Ok(Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Query {
    /// Refuses unknown parameters, but for `api-version` and `beta`, which Azure's SDKs send to every endpoint.
    pub(super) fn reject_unknown(&self, known: &[&str]) -> Result<(), ApiError> {
        let unknown = self
            .0
            .iter()
            .map(|(name, _)| name.trim_end_matches("[]"))
            .find(|name| !known.contains(name) && !matches!(*name, "api-version" | "beta"));
        match unknown {
            None => Ok(()),
            Some(name) => Err(ApiError::invalid(
                "unknown_parameter",
                truncate_for_display(name),
                format!(
                    "Unknown query parameter '{}'; this endpoint accepts {}.",
                    truncate_for_display(name),
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                ),
            )),
        }
    }

    /// Refuses parameters that are given twice, and lists (`owner[]=`): for what must not go by one of several values.
    pub(super) fn reject_lists(&self) -> Result<(), ApiError> {
        let name = |place: usize| self.0.get(place).map(|(name, _)| name.trim_end_matches("[]"));
        let repeated = self.0.iter().enumerate().find_map(|(place, (given, _))| {
            let own = name(place)?;
            (given != own || (0..place).any(|before| name(before) == Some(own))).then_some(own)
        });
        match repeated {
            None => Ok(()),
            Some(name) => {
                let name = truncate_for_display(name);
                let message = format!("'{name}' takes one value, and may be given once only.");
                Err(ApiError::invalid("invalid_value", name, message))
            }
        }
    }

    /// Whether a switch is on: present, and not `false`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.0.iter().any(|(known, value)| known == name && value != "false")
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A boolean parameter: `true` or `1`, `false` or `0`, in any case, as clients write them.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => {
                Err(ApiError::invalid("invalid_value", name, format!("'{name}' must be 'true' or 'false'.")))
            }
        }
    }

    /// `include`, in the forms that clients send: `include[]=a`, `include=a`, `include=a,b`.
    pub(super) fn include(&self) -> Result<Include, ApiError> {
        let mut include = Include::default();
        let given = self.0.iter().filter(|(name, _)| name == "include" || name == "include[]");
        for (i, name) in given.flat_map(|(_, value)| value.split(',')).enumerate() {
            if !include.add(name.trim()) {
                return Err(ApiError::invalid(
                    "invalid_value",
                    format!("include[{i}]"),
                    format!("Unknown value '{}' for 'include'.", truncate_for_display(name)),
                ));
            }
        }
        Ok(include)
    }

    /// `limit`, `order`, `after`, `before`.
    pub(super) fn page(&self) -> Result<PageRequest, ApiError> {
        let limit = match self.get("limit").map(str::parse::<usize>) {
            None => DEFAULT_LIMIT,
            Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
            Some(_) => {
                return Err(ApiError::invalid(
                    "invalid_value",
                    "limit",
                    format!("'limit' must be a whole number from 1 to {MAX_LIMIT}."),
                ));
            }
        };
        let ascending = match self.get("order") {
            None | Some("desc") => false,
            Some("asc") => true,
            Some(_) => {
                return Err(ApiError::invalid("invalid_value", "order", "'order' must be 'asc' or 'desc'."));
            }
        };
        let (after, before) = (self.get("after"), self.get("before"));
        if after.is_some() && before.is_some() {
            return Err(ApiError::invalid(
                "mutually_exclusive_parameters",
                "before",
                "'after' and 'before' cannot be used together.",
            ));
        }
        let (after, before) = (after.map(Into::into), before.map(Into::into));
        Ok(PageRequest { limit, ascending, after, before, max_bytes: u64::MAX })
    }
}
