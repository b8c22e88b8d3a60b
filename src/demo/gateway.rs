//! The gateway as the demo calls it.

use reqwest::{Method, RequestBuilder};

/// Where the gateway is, and the key of the demo's own requests, if it wants one.
pub(super) struct Gateway {
    /// Its address with `/v1`.
    pub base: String,
    pub key: Option<String>,
}

impl Gateway {
    /// A request to a path below its address.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = reqwest::Client::new().request(method, format!("{}/{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }
}
