//! A scripted MCP server on a real port: streamable HTTP at `/mcp`, HTTP with SSE at `/sse`, single JSON-RPC
//! requests at `/rpc`, and an authorization server beside them. It fails in the ways that servers in the field
//! do, when a test tells it to, and remembers all that it saw.

mod answer;
pub mod content;
mod http;
pub mod oauth;
mod script;
mod seen;
mod sessions;
mod sse;
pub mod tasks;
pub mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::oauth::OAuth;
pub use self::script::{Answers, Auth, UnknownSessionReply};
use self::script::{Failure, Script};
use super::gateway::{Builder, Gateway};
use super::upstream::{Upstream, serve};

/// A gateway that may reach servers on this machine.
pub fn before(upstream: &Upstream) -> Builder {
    Gateway::with_upstream(upstream).set(|settings| settings.egress.allow = vec!["127.0.0.1".into()])
}

/// The server; ends with the test.
pub struct McpServer {
    /// Without a path; what single JSON-RPC requests are sent to `/rpc` of.
    pub base: String,
    script: Arc<Script>,
    server: tokio::task::JoinHandle<()>,
}

impl McpServer {
    /// A server with the tools of [`tools::base`] that anybody may use.
    pub async fn spawn() -> Self {
        Self::spawn_on("127.0.0.1:0").await
    }

    /// A server at a given address, for those that come back after a crash.
    pub async fn spawn_on(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Script::new(base.clone()));
        let router = Router::new()
            .route("/mcp", post(http::post).get(http::stream).delete(http::delete))
            .route("/sse", get(sse::stream))
            .route("/messages", post(sse::message))
            .route("/rpc", post(http::rpc))
            .merge(oauth::routes())
            .with_state(Arc::clone(&script));
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        let server = tokio::spawn(serve(listener, router));
        Self { base, script, server }
    }

    /// Where it speaks streamable HTTP.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// Where it speaks HTTP with SSE.
    pub fn sse_url(&self) -> String {
        format!("{}/sse", self.base)
    }

    /// Its authorization server.
    pub fn oauth(&self) -> OAuth<'_> {
        OAuth::new(&self.script)
    }

    /// Stops at once, as a crash would: every connection breaks.
    pub async fn kill(&self) {
        self.server.abort();
        while !self.server.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}

/// What tests tell it about requests.
impl McpServer {
    /// Forgets all sessions, as a restart would: streams end, and whoever names one gets a 404.
    pub fn restart(&self) -> &Self {
        self.script.sessions().forget();
        self
    }

    /// Answers requests so that name a session which it does not know; until told so, with 404.
    pub fn on_unknown_session(&self, lost: UnknownSessionReply) -> &Self {
        self.script.knobs().lost = lost;
        self
    }

    /// Answers the next `times` POST requests with this status.
    pub fn status(&self, status: u16, times: usize) -> &Self {
        self.fail(None, times, (status, &[], ""))
    }

    /// Answers the next `times` requests of a JSON-RPC method so: with a status, headers and a body.
    pub fn status_of(
        &self,
        method: &str,
        times: usize,
        answer: (u16, &[(&'static str, &str)], &str),
    ) -> &Self {
        self.fail(Some(method), times, answer)
    }

    /// Answers the next `times` POST requests with 429 and a time to come back after.
    pub fn too_many(&self, times: usize, retry_after: &str) -> &Self {
        self.fail(None, times, (429, &[("retry-after", retry_after)], "Too many requests"))
    }

    fn fail(
        &self,
        method: Option<&str>,
        times: usize,
        answer: (u16, &[(&'static str, &str)], &str),
    ) -> &Self {
        let failure = Failure {
            method: method.map(str::to_owned),
            status: answer.0,
            headers: answer.1.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            body: answer.2.to_owned(),
        };
        self.script.knobs().failures.extend(std::iter::repeat_n(failure, times));
        self
    }

    /// Never answers requests of this method, such as `initialize` or `tools/list`, until [`Self::resume`].
    pub fn hang(&self, method: &str) -> &Self {
        self.script.knobs().hangs.insert(method.to_owned());
        self
    }

    /// Answers requests of this method again; those that hang already go on hanging.
    pub fn resume(&self, method: &str) -> &Self {
        self.script.knobs().hangs.remove(method);
        self
    }

    /// Lets this time pass before requests of a method are answered.
    pub fn delay(&self, method: &str, time: Duration) -> &Self {
        self.script.knobs().delays.insert(method.to_owned(), time);
        self
    }

    /// How requests at `/mcp` are answered.
    pub fn answers(&self, answers: Answers) -> &Self {
        self.script.knobs().answers = answers;
        self
    }

    /// Hands out no sessions and asks for none.
    pub fn sessionless(&self) -> &Self {
        self.script.knobs().sessionless = true;
        self.script.sessions().open_shared();
        self
    }

    /// Speaks only this version of the protocol.
    pub fn protocol(&self, version: &str) -> &Self {
        self.script.knobs().protocol = Some(version.to_owned());
        self
    }

    /// Answers 405 at `/mcp`, as servers do that know HTTP with SSE only.
    pub fn only_sse(&self) -> &Self {
        self.script.knobs().only_sse = true;
        self
    }

    /// The same, and nobody may open the stream.
    pub fn only_sse_guarded(&self) -> &Self {
        self.only_sse().auth(Auth::Tokens(Vec::new()))
    }

    /// Who may come.
    pub fn auth(&self, auth: Auth) -> &Self {
        self.script.knobs().auth = auth;
        self
    }

    /// Takes no token that was not given with this scope, and says so with 401.
    pub fn wants_scope(&self, scope: &str) -> &Self {
        self.script.knobs().scope = Some(scope.to_owned());
        self
    }

    /// Calls of this tool need a token that was given with this scope; it says so with 403.
    pub fn wants_scope_for(&self, tool: &str, scope: &str) -> &Self {
        self.script.knobs().tool_scopes.insert(tool.to_owned(), scope.to_owned());
        self
    }

    /// Says nowhere where tokens are, as servers of 2025-03-26.
    pub fn without_metadata(&self) -> &Self {
        self.script.knobs().no_metadata = true;
        self
    }

    /// Where its metadata are.
    pub fn metadata_url(&self) -> String {
        self.script.metadata()
    }

    /// From the next call of a tool on, takes the token no more that comes with it.
    pub fn expire_token(&self) -> &Self {
        self.script.knobs().expires_next = true;
        self
    }
}

/// What tests tell it about tools.
impl McpServer {
    /// The tools that it has.
    pub fn tools(&self) -> Vec<Value> {
        self.script.knobs().tools.clone()
    }

    /// Has these tools as well for a user of whom it is told.
    pub fn add_tools_of(&self, user: &str, tools: Vec<Value>) -> &Self {
        self.script.knobs().tools_of.insert(user.to_owned(), tools);
        self
    }

    /// Has these tools from now on, without telling anybody.
    pub fn set_tools(&self, tools: Vec<Value>) -> &Self {
        self.script.knobs().tools = tools;
        self
    }

    /// Has these tools as well, without telling anybody.
    pub fn add_tools(&self, tools: Vec<Value>) -> &Self {
        self.script.knobs().tools.extend(tools);
        self
    }

    /// Has these tools from now on, and says so on every open stream.
    pub fn change_tools(&self, tools: Vec<Value>) -> &Self {
        self.set_tools(tools);
        self.notify(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
    }

    /// Changes a tool's definition without telling anybody.
    pub fn redefine(&self, name: &str, change: impl Fn(&mut Value)) -> &Self {
        self.script.knobs().tools.iter_mut().filter(|tool| tool["name"] == name).for_each(change);
        self
    }

    /// Says this on every stream; in sessions that have none, when they open one.
    pub fn notify(&self, message: Value) -> &Self {
        self.script.sessions().push_all(&message);
        self
    }

    /// Lists so many tools per page.
    pub fn per_page(&self, tools: usize) -> &Self {
        self.script.knobs().per_page = Some(tools);
        self
    }

    /// Every page of tools has a next one.
    pub fn endless_pages(&self) -> &Self {
        self.script.knobs().endless_pages = true;
        self
    }

    /// Adds these members to every list of tools.
    pub fn list_with(&self, members: Value) -> &Self {
        self.script.knobs().list_extra = members;
        self
    }

    /// What calls of a tool return: a whole result.
    pub fn returns(&self, tool: &str, result: Value) -> &Self {
        self.script.knobs().results.insert(tool.to_owned(), Ok(result));
        self
    }

    /// What calls of a tool return: pieces of [`content`].
    pub fn says(&self, tool: &str, content: Vec<Value>) -> &Self {
        self.returns(tool, json!({"content": content, "isError": false}))
    }

    /// Calls of a tool fail with a JSON-RPC error.
    pub fn errors(&self, tool: &str, code: i64, message: &str) -> &Self {
        self.script.knobs().results.insert(tool.to_owned(), Err((code, message.to_owned())));
        self
    }

    /// In the middle of calls of a tool, asks the client this: `elicitation/create`, `sampling/createMessage`.
    /// The call goes on once the client has answered.
    pub fn asks(&self, tool: &str, method: &str) -> &Self {
        self.script.knobs().asks.insert(tool.to_owned(), method.to_owned());
        self
    }

    /// Asks this with `elicitation/create`.
    pub fn asks_this(&self, tool: &str, question: Value) -> &Self {
        self.script.knobs().question = Some(question);
        self.asks(tool, "elicitation/create")
    }

    /// What the next call of a tool returns, before [`Self::returns`] and the rest.
    pub fn returns_first(&self, tool: &str, result: Value) -> &Self {
        self.script.knobs().first.entry(tool.to_owned()).or_default().push_back(Ok(result));
        self
    }

    /// The next call of a tool fails with a JSON-RPC error that has data.
    pub fn errors_first(&self, tool: &str, (code, message): (i64, &str), data: Value) -> &Self {
        let mut knobs = self.script.knobs();
        knobs.error_data.insert(code, data);
        knobs.first.entry(tool.to_owned()).or_default().push_back(Err((code, message.to_owned())));
        drop(knobs);
        self
    }

    /// Works on calls of a tool and never says what came of them: the stream ends, or the body is empty.
    pub fn withholds(&self, tool: &str) -> &Self {
        self.script.knobs().withheld.insert(tool.to_owned());
        self
    }

    /// Calls of `slow` give so many signs of life, each after this time, and then end.
    pub fn slow(&self, notifications: u32, interval: Duration) -> &Self {
        self.script.knobs().slow = (notifications, interval);
        self
    }

    /// Calls of `big` return so many bytes of text.
    pub fn big(&self, bytes: usize) -> &Self {
        self.script.knobs().big = bytes;
        self
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.server.abort();
        self.script.end_spawned();
        let faults = self.take_faults();
        if !std::thread::panicking() {
            assert!(faults.is_empty(), "the gateway did what a strict server refuses: {faults:#?}");
        }
    }
}
