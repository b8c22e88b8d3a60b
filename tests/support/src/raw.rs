//! A client that writes requests byte by byte, as no library would.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gateway::Gateway;

/// A connection to the gateway on which nothing was said yet.
pub async fn connect(gateway: &Gateway) -> TcpStream {
    TcpStream::connect(gateway.base.trim_start_matches("http://")).await.unwrap()
}

/// Sends these bytes, which must end the connection, and reads status and body of the answer.
pub async fn exchange(gateway: &Gateway, request: &str) -> (u16, Value) {
    let mut stream = connect(gateway).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::String(body.to_owned())))
}
