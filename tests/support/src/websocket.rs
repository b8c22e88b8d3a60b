//! A client over WebSocket that holds what it receives against the documents.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::gateway::Gateway;
use super::{openapi, stream_validator};

/// How long a test waits for a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open connection.
pub struct WebSocket {
    /// What is spoken over.
    pub socket: WebSocketStream<TcpStream>,
}

/// A turn, found legal.
#[derive(Debug)]
pub struct Turn {
    /// All its messages.
    pub messages: Vec<Value>,
    /// The response of the terminal event, or the error that stands for it.
    pub end: Value,
}

impl WebSocket {
    /// Opens a connection.
    pub async fn connect(gateway: &Gateway) -> Self {
        Self::connect_with(&gateway.base, "/v1/responses", &[]).await.unwrap()
    }

    /// Opens a connection with these headers; the error is the answer to its handshake.
    pub async fn connect_with(
        base: &str,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, Error> {
        let address = base.strip_prefix("http://").unwrap();
        let mut request = format!("ws://{address}{path}").into_client_request()?;
        request.headers_mut().insert("user-agent", HeaderValue::from_static("antwort-tests"));
        for (name, value) in headers {
            request.headers_mut().insert(HeaderName::from_static(name), value.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        let (socket, response) = client_async(request, stream).await?;
        assert!(response.headers().contains_key("x-request-id"), "every answer has a request id");
        Ok(Self { socket })
    }

    /// Sends a request.
    pub async fn create(&mut self, body: Value) {
        let mut message = json!({"type": "response.create", "model": "test-model"});
        message.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        self.send(&message.to_string()).await;
    }

    /// Sends a text.
    pub async fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next JSON message; an error is the code with which the connection was closed.
    pub async fn next(&mut self) -> Result<Value, Option<u16>> {
        loop {
            match tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("a message comes") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// Reads a turn to its end.
    pub async fn read_turn(&mut self) -> Turn {
        let mut messages = Vec::new();
        loop {
            let message =
                self.next().await.unwrap_or_else(|code| panic!("closed with {code:?} after {messages:#?}"));
            let kind = message["type"].as_str().unwrap().to_owned();
            messages.push(message);
            if kind == "error" {
                let end = messages[messages.len() - 1].clone();
                assert!(end["status"].as_u64().is_some_and(|status| status >= 400), "{end}");
                assert!(end["error"]["code"].is_string() && end["error"]["message"].is_string(), "{end}");
                return Turn { messages, end };
            }
            if ["response.completed", "response.failed", "response.incomplete"].contains(&&*kind) {
                break;
            }
        }
        let mut events = messages.clone();
        for event in &mut events {
            event.as_object_mut().unwrap().remove("stream_id");
            openapi::assert_event(event);
        }
        let is_failed = messages[messages.len() - 1]["type"] == "response.failed";
        // Over HTTP, `response.failed` follows an event `error`.
        let end = match is_failed {
            true => events[events.len() - 1]["response"].clone(),
            false => stream_validator::assert_valid_stream(&events).response,
        };
        let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
        Turn { messages, end }
    }

    /// Makes a response.
    pub async fn turn(&mut self, body: Value) -> Turn {
        self.create(body).await;
        self.read_turn().await
    }

    /// Makes a response, and expects its status.
    pub async fn response(&mut self, body: Value, status: &str) -> Value {
        let turn = self.turn(body).await;
        assert_eq!(turn.end["status"], status, "{:#}", turn.end);
        turn.end
    }

    /// Expects an error of this status and code, without any event before it.
    pub async fn refuse(&mut self, body: Value, status: u16, code: &str) -> Value {
        let turn = self.turn(body).await;
        turn.assert_refused(status, code);
        turn.end["error"].clone()
    }
}

impl Turn {
    /// Checks that it is an error and nothing else.
    pub fn assert_refused(&self, status: u16, code: &str) {
        let end = &self.end;
        assert_eq!((&end["status"], &end["error"]["code"]), (&json!(status), &json!(code)), "{end:#}");
        assert_eq!(self.messages.len(), 1, "{:#?}", self.messages);
    }
}
