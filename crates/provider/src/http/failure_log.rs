//! A failed call to a provider: a log line with its cause, and a metric.

use std::time::Duration;

use reqwest::Url;

use super::server::Server;
use crate::errors::UNKNOWN_PATH;
use crate::{CallContext, ProviderError};
use antwort_telemetry::fields::{
    CAUSE, CODE, KIND, PROVIDER, REQUEST_ID, RESPONSE_ID, RETRY_IN_MS, UPSTREAM_STATUS, URL,
};
use antwort_telemetry::milliseconds;

impl Server {
    /// `retry_in`: the delay before the retry, if there is one.
    pub(super) fn log_failure(
        &self,
        path: &str,
        call: Option<&CallContext>,
        error: &ProviderError,
        retry_in: Option<Duration>,
    ) {
        self.metrics.provider_failure(&self.name, error.kind_name());
        // Of other paths a server may have none.
        let is_misplaced = path == "/chat/completions" && error.is_unknown_path();
        macro_rules! log {
            ($level:ident) => {
                tracing::event!(
                    tracing::Level::$level,
                    {
                        { REQUEST_ID } = call.map(|call| call.request_id.as_str()),
                        { RESPONSE_ID } = call.and_then(|call| call.response_id.as_ref()).map(|id| id.as_str()),
                        { PROVIDER } = self.name,
                        { URL } = format!("{}{path}", self.url_for_log),
                        { KIND } = error.kind_name(),
                        { CAUSE } = if is_misplaced { Some(UNKNOWN_PATH) } else { error.cause_for_log() },
                        { UPSTREAM_STATUS } = error.upstream_status(),
                        { CODE } = error.code.as_deref(),
                        { RETRY_IN_MS } = retry_in.map(milliseconds),
                    },
                    "the provider failed"
                )
            };
        }
        if error.is_about_request() && !is_misplaced { log!(INFO) } else { log!(WARN) }
    }

    /// A tokenizer that does not count is no failure: there is the estimate.
    pub(super) fn log_no_count(&self, call: &CallContext, error: &ProviderError) {
        tracing::debug!(
            {
                { REQUEST_ID } = call.request_id,
                { PROVIDER } = self.name,
                { KIND } = error.kind_name(),
                { CAUSE } = error.cause_for_log(),
                { UPSTREAM_STATUS } = error.upstream_status(),
            },
            "the provider's tokenizer did not count; the prompt is estimated"
        );
    }
}

/// A URL that holds no secrets: neither user, password, query nor fragment.
pub fn redact_url(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return String::new() };
    // Fails for URLs that can have neither.
    _ = url.set_username("");
    _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::redact_url;

    #[test]
    fn a_logged_url_has_no_secrets() {
        let url = "https://ann:pass@models.example:8443/v1/?key=secret#secret";
        assert_eq!(redact_url(url), "https://models.example:8443/v1");
    }
}
