//! A lean HTTP/1.1 client for one URL: no task and no channel stand between a socket and the reader of a response.
//!
//! Whoever waits for a response reads its socket, so a waiting response costs no task and no buffer, and all chunks that
//! one read brings are there at once. Only what chat completions need is implemented: `POST` with a body that is known, no
//! redirects, no proxy, no upgrade. `docs/adr/0030-lean-http-client.md` says why it exists beside the HTTP library.

mod body;
mod chunked;
mod connect;
mod connection;
mod error;
mod head;
mod limits;
mod pool;
mod request;
mod response;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use url::Url;

use antwort_net::client::HttpClientOptions;
use connect::Connector;
use connection::Connection;
use pool::Pool;
use request::RequestHead;

pub use error::Http1Error;
pub use response::Http1Response;

/// Bounds of a client.
#[derive(Debug, Clone, Copy)]
pub struct Http1Options {
    /// Timeout of a connection, with name resolution and TLS.
    pub connect_timeout: Duration,
    /// Maximum number of idle connections that are pooled.
    pub max_idle: usize,
    /// How long idle connections are pooled.
    pub idle_timeout: Duration,
}

/// A client that sends requests to one URL.
pub struct Http1Client {
    connector: Connector,
    pool: Arc<Pool>,
    head: RequestHead,
}

impl Http1Client {
    /// A client for a URL with the scheme `http` or `https`, which sends these headers with every request. Makes no
    /// connection.
    pub fn new(
        url: &Url,
        headers: &HeaderMap,
        tls: &HttpClientOptions,
        options: Http1Options,
    ) -> Result<Self, String> {
        Ok(Self {
            connector: Connector::new(url, tls, options.connect_timeout)?,
            pool: Pool::new(options.max_idle, options.idle_timeout),
            head: RequestHead::new(url, headers)?,
        })
    }

    /// Whether a header can be one of [`Self::new`]: those that frame the message or concern the connection cannot.
    pub fn allows_header(name: &http::HeaderName) -> bool {
        RequestHead::allows(name)
    }

    /// Sends a request with these additional headers; returns the response when its head has arrived.
    ///
    /// Dropping the future, or the response before its end, closes the connection. A server may close an idle connection
    /// while a request is on its way, which cannot be known before: [`Http1Error::is_stale`].
    pub async fn post(
        &self,
        headers: &[(&'static str, Option<&str>)],
        body: Bytes,
    ) -> Result<Http1Response, Http1Error> {
        let head = self.head.encode(headers, body.len()).into();
        if let Some(reused) = self.pool.take() {
            return self.exchange(reused, head, body).await.map_err(Http1Error::on_reused);
        }
        // Boxed: most calls reuse a connection.
        let connection = Box::pin(self.connector.connect()).await?;
        self.exchange(connection, head, body).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        head: Bytes,
        body: Bytes,
    ) -> Result<Http1Response, Http1Error> {
        let received = connection.exchange(head, body).await?;
        Http1Response::new(received, connection, Arc::clone(&self.pool))
    }
}

#[cfg(test)]
impl Http1Client {
    fn idle(&self) -> usize {
        self.pool.idle()
    }
}
