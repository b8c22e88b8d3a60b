//! An MCP client as small as one can be: what it takes to try servers out without the gateway.

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

/// A client of a server that speaks streamable HTTP.
#[derive(Clone)]
pub struct McpClient {
    http: reqwest::Client,
    url: String,
    /// The session, once there is one.
    pub session: Option<String>,
    /// The version of the protocol that is said with every request, once that is agreed on.
    pub protocol: Option<String>,
    /// Goes along as a bearer token.
    pub token: Option<String>,
    next: u64,
}

/// Server-sent events as they come.
pub struct Events {
    response: Response,
    buffer: String,
}

impl McpClient {
    /// A client that has said nothing yet.
    pub fn new(url: impl Into<String>) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, url: url.into(), session: None, protocol: None, token: None, next: 0 }
    }

    /// Shakes hands; the server's answer.
    pub async fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "tests", "version": "0"}});
        let message = self.message("initialize", params);
        let response = self.post(&message).await;
        assert_eq!(response.status(), 200);
        self.session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let answer = messages(response).await.pop().unwrap();
        self.protocol = answer["result"]["protocolVersion"].as_str().map(str::to_owned);
        let ready = self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(ready.status(), 202);
        answer["result"].clone()
    }

    /// A request with an id of its own.
    pub fn message(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
    }

    /// Sends something.
    pub async fn post(&self, message: &Value) -> Response {
        let request = self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").body(message.to_string());
        self.dressed(request).send().await.unwrap()
    }

    /// Asks something; all that is said to it, the answer last.
    pub async fn ask(&mut self, method: &str, params: Value) -> Vec<Value> {
        let message = self.message(method, params);
        messages(self.post(&message).await).await
    }

    /// Asks something that is refused with a status.
    pub async fn status(&mut self, method: &str) -> StatusCode {
        let message = self.message(method, json!({}));
        self.post(&message).await.status()
    }

    /// Calls a tool; the JSON-RPC answer.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await.pop().unwrap()
    }

    /// The names of the tools of one page.
    pub async fn names(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({})).await.pop().unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Opens the stream on which the server speaks unasked.
    pub async fn listen(&self) -> Events {
        let request = self.http.get(&self.url).header("accept", "text/event-stream");
        let response = self.dressed(request).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Events::new(response)
    }

    /// Ends the session.
    pub async fn delete(&self) -> StatusCode {
        self.dressed(self.http.delete(&self.url)).send().await.unwrap().status()
    }

    fn dressed(&self, mut request: RequestBuilder) -> RequestBuilder {
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(protocol) = &self.protocol {
            request = request.header("mcp-protocol-version", protocol);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request
    }
}

impl Events {
    /// Those of a response.
    pub fn new(response: Response) -> Self {
        Self { response, buffer: String::new() }
    }

    /// The next one's name and data; `None` at the end.
    pub async fn next(&mut self) -> Option<(String, String)> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let field = |name: &str| {
                    let found = event.lines().find_map(|line| line.strip_prefix(name));
                    found.map(|value| value.trim().to_owned())
                };
                let (name, data) = (field("event:"), field("data:"));
                self.buffer = rest.to_owned();
                // Pings are comments, and what starts a stream may have an id alone.
                if let Some(data) = data.filter(|data| !data.is_empty()) {
                    return Some((name.unwrap_or_else(|| "message".to_owned()), data));
                }
            }
            let chunk = self.response.chunk().await.ok()??;
            self.buffer.push_str(&String::from_utf8_lossy(&chunk).replace("\r\n", "\n"));
        }
    }

    /// The next message.
    pub async fn message(&mut self) -> Option<Value> {
        self.next().await.map(|(_, data)| serde_json::from_str(&data).unwrap())
    }
}

/// Every message of a response, whether it is one body or a stream.
pub async fn messages(response: Response) -> Vec<Value> {
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    if !kind.starts_with("text/event-stream") {
        return vec![serde_json::from_str(&response.text().await.unwrap()).unwrap()];
    }
    let (mut events, mut messages) = (Events::new(response), Vec::new());
    while let Some(message) = events.message().await {
        messages.push(message);
    }
    messages
}
