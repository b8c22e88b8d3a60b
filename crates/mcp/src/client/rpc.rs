//! The `json_rpc` transport: stateless JSON-RPC requests to `{url}/rpc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;
use serde_json::value::RawValue;

use super::http::{self, HttpEndpoint, Outgoing};
use super::listing::{self, Page};
use super::message_router::Envelope;
use super::notices::sanitize_for_error;
use super::protocol_error::{error_in, protocol_error, unsupported};
use super::results::{self, CallAnswer};
use crate::connection::{
    CallMeta, Connection, RemoteCall, RemoteResult, RemoteTools, ServerInfo, TaskLook, TaskState,
};
use crate::context::{CallerContext, callback_value};
use crate::error::{McpError, TimeoutKind};
use crate::task::RemoteTask;
use antwort_tools::{Arguments, Progress};

/// A stateless server.
pub(super) struct JsonRpcConnection {
    http: Arc<HttpEndpoint>,
    url: Url,
    next: AtomicU64,
    info: ServerInfo,
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: CallArguments<'a>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    meta: Meta<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CallArguments<'a> {
    Parsed(&'a Arguments),
    Exact(&'a RawValue),
}

#[derive(Default, Serialize)]
struct Meta<'a> {
    #[serde(rename = "antwort/idempotency-key", skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(rename = "antwort/context", skip_serializing_if = "Option::is_none")]
    context: Option<&'a Arguments>,
    #[serde(rename = "antwort/callback", skip_serializing_if = "Option::is_none")]
    callback: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct ListParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    meta: Meta<'a>,
}

impl Meta<'_> {
    fn is_empty(&self) -> bool {
        self.idempotency_key.is_none()
            && self.traceparent.is_none()
            && self.context.is_none()
            && self.callback.is_none()
    }
}

impl JsonRpcConnection {
    /// Makes no request yet.
    pub(super) fn new(http: Arc<HttpEndpoint>) -> Arc<Self> {
        let mut url = http.url.clone();
        let path = format!("{}/rpc", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let info = ServerInfo { transport: "json_rpc", ..ServerInfo::default() };
        Arc::new(Self { http, url, next: AtomicU64::new(1), info })
    }

    async fn request<P: Serialize, T>(
        &self,
        method: &str,
        params: P,
        traceparent: Option<&str>,
        read: impl FnOnce(&RawValue) -> Result<T, McpError>,
    ) -> Result<T, McpError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let request = serde_json::to_vec(&Request { jsonrpc: "2.0", id, method, params })
            .map_err(|error| McpError::Malformed(sanitize_for_error(&error.to_string())))?;
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)]);
        http::add_trace(&mut headers, traceparent);
        let request = Outgoing { method: Method::POST, headers, body: Some(Bytes::from(request)) };
        let response = self.http.send(&self.url, request).await?;
        if !response.status().is_success() {
            let client_error = response.status().is_client_error();
            let error = http::status_error(&response);
            let body = self.http.error_body(response).await.filter(|_| client_error);
            return Err(body.and_then(|body| error_in(&body)).unwrap_or(error));
        }
        let body = self.http.body(response).await?;
        let answer: Envelope<'_> = serde_json::from_slice(&body)
            .map_err(|error| McpError::Malformed(sanitize_for_error(&error.to_string())))?;
        match (answer.result, answer.error) {
            (Some(result), _) => read(result),
            (None, Some(error)) => Err(protocol_error(error)),
            (None, None) => Err(McpError::Malformed("the response has neither result nor error".to_owned())),
        }
    }

    async fn page(&self, cursor: Option<String>, context: Option<&CallerContext>) -> Result<Page, McpError> {
        let meta = Meta { context: context.map(CallerContext::members), ..Meta::default() };
        self.request("tools/list", ListParams { cursor: cursor.as_deref(), meta }, None, listing::read).await
    }
}

#[async_trait]
impl Connection for JsonRpcConnection {
    fn server(&self) -> &ServerInfo {
        &self.info
    }

    async fn list_tools(&self, max: usize, context: Option<&CallerContext>) -> Result<RemoteTools, McpError> {
        let server = self.http.url.host_str().unwrap_or_default();
        listing::fetch_all(max, self.http.limit, server, |cursor| self.page(cursor, context)).await
    }

    async fn call_tool(&self, call: RemoteCall<'_>, _progress: &Progress) -> Result<RemoteResult, McpError> {
        let CallMeta { idempotency_key, traceparent, context, callback } = call.meta;
        let (context, callback) = (context.map(CallerContext::members), callback.map(callback_value));
        let meta = Meta { idempotency_key, traceparent, context, callback };
        let arguments =
            call.exact_arguments.map_or(CallArguments::Parsed(call.arguments), CallArguments::Exact);
        let params = CallParams { name: call.name, arguments, meta };
        match with_timeout(call.idle, self.request("tools/call", params, traceparent, results::read)).await? {
            CallAnswer::Done(result) => Ok(result),
            CallAnswer::Task(_) => Err(unsupported("makes tasks, which this transport does not support")),
            CallAnswer::InputRequired(_) | CallAnswer::UrlsRequired(..) => {
                Err(unsupported("requests input during the call, which this transport does not support"))
            }
        }
    }

    async fn task_state(&self, _look: TaskLook<'_>) -> Result<TaskState, McpError> {
        Ok(TaskState::Failed(unsupported("makes tasks, which this transport does not support")))
    }

    fn cancel_task(&self, _task: &RemoteTask) {}

    fn tools_version(&self) -> u64 {
        0
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn has_sessions(&self) -> bool {
        false
    }

    async fn close(&self) {}
}

async fn with_timeout<T>(
    after: Duration,
    answer: impl Future<Output = Result<T, McpError>>,
) -> Result<T, McpError> {
    tokio::time::timeout(after, answer)
        .await
        .unwrap_or(Err(McpError::Timeout { after, limit: TimeoutKind::Idle }))
}
