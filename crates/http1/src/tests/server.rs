//! A server that says what a test scripts.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use crate::{Http1Client, Http1Error, Http1Options, Http1Response};
use antwort_net::client::HttpClientOptions;

pub(super) const OPTIONS: Http1Options = Http1Options {
    connect_timeout: Duration::from_secs(5),
    max_idle: 2,
    idle_timeout: Duration::from_secs(30),
};
/// For what must not come: enough for loopback.
const QUIET: Duration = Duration::from_millis(200);

pub(super) struct Server(TcpListener);

/// A connection of the client.
pub(super) struct Peer(TcpStream);

impl Server {
    pub(super) async fn start() -> Self {
        Self::on("127.0.0.1:0").await
    }

    pub(super) async fn on(address: &str) -> Self {
        Self(TcpListener::bind(address).await.unwrap())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(super) fn client(&self) -> Http1Client {
        self.client_with(OPTIONS)
    }

    pub(super) fn client_with(&self, options: Http1Options) -> Http1Client {
        client(&format!("http://{}/v1/chat?q=1", self.address()), &HeaderMap::new(), options)
    }

    pub(super) async fn accept(&self) -> Peer {
        Peer(timeout(Duration::from_secs(5), self.0.accept()).await.unwrap().unwrap().0)
    }

    /// Whether nobody connects.
    pub(super) async fn is_left_alone(&self) -> bool {
        timeout(QUIET, self.0.accept()).await.is_err()
    }
}

impl Peer {
    /// Reads a request; returns its head.
    pub(super) async fn request(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        self.0.read_exact(&mut vec![0; length.parse().unwrap()]).await.unwrap();
        head
    }

    pub(super) async fn send(&mut self, bytes: &str) {
        self.0.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Reads a request and answers it.
    pub(super) async fn answer(&mut self, bytes: &str) -> String {
        let head = self.request().await;
        self.send(bytes).await;
        head
    }

    /// Whether the client closes the connection.
    pub(super) async fn is_closed(&mut self) -> bool {
        matches!(timeout(QUIET, self.0.read(&mut [0; 1])).await, Ok(Ok(0) | Err(_)))
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.0
    }
}

pub(super) fn client(url: &str, headers: &HeaderMap, options: Http1Options) -> Http1Client {
    Http1Client::new(&Url::parse(url).unwrap(), headers, &HttpClientOptions::default(), options).unwrap()
}

pub(super) async fn post(client: &Http1Client) -> Result<Http1Response, Http1Error> {
    let posting = client.post(
        &[("x-request-id", Some("req_1")), ("x-bad", Some("a\r\nb")), ("x-none", None)],
        Bytes::from_static(b"{}"),
    );
    timeout(Duration::from_secs(10), posting).await.unwrap()
}

/// The body of a response, to its end.
pub(super) async fn body(mut response: Http1Response) -> Result<String, Http1Error> {
    let mut body = Vec::new();
    while let Some(chunk) =
        timeout(Duration::from_secs(10), std::future::poll_fn(|cx| response.poll_chunk(cx))).await.unwrap()?
    {
        assert!(!chunk.is_empty());
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8(body).unwrap())
}

pub(super) async fn exchange(client: &Http1Client) -> Result<String, Http1Error> {
    body(post(client).await?).await
}

/// A request to a server that gives this answer to it, on a connection of its own.
pub(super) async fn answered(
    server: &Server,
    client: &Http1Client,
    answer: &str,
) -> (String, Result<String, Http1Error>) {
    tokio::join!(async { server.accept().await.answer(answer).await }, exchange(client))
}
