//! What the server saw, for tests to look at.

use serde_json::Value;

use super::McpServer;
use super::script::{Call, Request};

impl McpServer {
    /// Every HTTP request, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.script.seen().requests.clone()
    }

    /// JSON-RPC requests and notifications of this method that came as far as to be worked on.
    pub fn count(&self, method: &str) -> usize {
        self.script.seen().methods.get(method).copied().unwrap_or(0)
    }

    /// Every call of a tool that was worked on.
    pub fn calls(&self) -> Vec<Call> {
        self.script.seen().calls.clone()
    }

    /// What came along with each request for a list.
    pub fn list_metas(&self) -> Vec<Value> {
        self.script.seen().list_metas.clone()
    }

    /// How often a tool was called.
    pub fn count_calls(&self, tool: &str) -> usize {
        self.script.seen().calls.iter().filter(|call| call.tool == tool).count()
    }

    /// The ids of requests that clients said are cancelled.
    pub fn cancelled(&self) -> Vec<Value> {
        self.script.seen().cancelled.clone()
    }

    /// What clients answered when they were asked something.
    pub fn client_answers(&self) -> Vec<Value> {
        self.script.seen().answers.clone()
    }

    /// Sessions that were made.
    pub fn sessions_made(&self) -> usize {
        self.script.sessions().made
    }

    /// Sessions that clients ended.
    pub fn sessions_deleted(&self) -> usize {
        self.script.sessions().deleted
    }

    /// Sessions that were made and neither ended nor forgotten.
    pub fn open_sessions(&self) -> usize {
        self.script.sessions().count()
    }

    /// Streams that clients listen on for what the server has to say.
    pub fn open_streams(&self) -> usize {
        self.script.sessions().streams()
    }

    /// JSON-RPC requests that are being worked on.
    pub fn in_flight(&self) -> usize {
        self.script.seen().in_flight
    }

    /// What clients did that the protocol forbids; none of it is left, so that the test does not fail of it.
    pub fn take_faults(&self) -> Vec<String> {
        std::mem::take(&mut self.script.seen().faults)
    }
}
