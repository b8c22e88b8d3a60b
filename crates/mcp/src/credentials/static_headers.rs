//! Credentials that are fixed headers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::HeaderMap;

use super::fingerprint;
use super::{Credentials, Fingerprint, WwwAuthenticate};
use crate::error::McpError;

/// Fixed headers.
pub struct StaticHeaders {
    headers: Arc<HeaderMap>,
    fingerprint: Fingerprint,
}

impl StaticHeaders {
    /// Marks the values as sensitive.
    pub fn new(mut headers: HeaderMap) -> Self {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        let hasher = fingerprint::add_headers(fingerprint::hasher("fixed"), &headers);
        Self { headers: Arc::new(headers), fingerprint: Fingerprint(hasher.finish()) }
    }
}

#[async_trait]
impl Credentials for StaticHeaders {
    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    async fn headers(&self) -> Result<Arc<HeaderMap>, McpError> {
        Ok(Arc::clone(&self.headers))
    }

    async fn rejected(&self, _refused: &HeaderMap, _challenged: &WwwAuthenticate) -> bool {
        false
    }
}

impl fmt::Debug for StaticHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.headers.keys()).finish()
    }
}
