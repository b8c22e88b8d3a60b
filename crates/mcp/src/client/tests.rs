//! The client against small servers on the loopback and small programs.

mod auto;
mod calls;
mod floods;
mod legacy;
mod lists;
mod reading;
mod rpc;
mod server;
mod stdio;
mod streamable;

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::*;
use crate::connection::{CallMeta, RemoteCall, RemoteContent, RemotePart, RemoteResult};
use crate::credentials::{Fingerprint, WwwAuthenticate};
use antwort_net::client::HttpClientOptions;
use antwort_net::egress::{Egress, EgressOptions};
use antwort_tools::{Arguments, Progress};

const MIB: usize = 1 << 20;

fn client() -> Client {
    client_with(ElicitationPolicy::Decline, None)
}

fn client_with(elicitation: ElicitationPolicy, sampler: Option<Arc<dyn Sampler>>) -> Client {
    Client::new(ClientOptions { elicitation, sampler, ..options() })
}

fn options() -> ClientOptions {
    let connect_timeout = Duration::from_secs(20);
    ClientOptions {
        max_message_bytes: MIB,
        connect_timeout,
        elicitation: ElicitationPolicy::Decline,
        sampler: None,
    }
}

/// A client that soon gives up.
fn hasty(connect_timeout: Duration) -> Client {
    Client::new(ClientOptions { connect_timeout, ..options() })
}

fn egress() -> Arc<Egress> {
    Arc::new(
        Egress::new(&EgressOptions {
            allow: vec!["127.0.0.1".to_owned()],
            allowed_domains: None,
            max_redirects: 3,
            max_response_bytes: MIB,
            timeout: Duration::from_secs(20),
            http: HttpClientOptions::default(),
        })
        .unwrap(),
    )
}

fn at(url: &str, kind: HttpKind) -> Endpoint {
    Endpoint {
        name: "test".into(),
        address: ServerAddress::Http { url: Url::parse(url).unwrap(), kind, egress: egress() },
        is_configured: true,
        may_sample: true,
        shows: Default::default(),
    }
}

async fn connect(url: &str) -> Arc<dyn Connection> {
    client().connect(&at(url, HttpKind::Streamable), Token::named("t0")).await.unwrap()
}

fn call<'a>(name: &'a str, arguments: &'a Arguments) -> RemoteCall<'a> {
    RemoteCall {
        name,
        arguments,
        exact_arguments: None,
        meta: CallMeta::default(),
        idle: Duration::from_secs(20),
        asker: None,
        input: None,
        detach: None,
        asks_for_task: false,
    }
}

async fn call_tool(connection: &dyn Connection, name: &str) -> Result<RemoteResult, McpError> {
    connection.call_tool(call(name, &Arguments::new()), &Progress::none()).await
}

fn says(result: &RemoteResult) -> &str {
    match result.content.as_slice() {
        [RemotePart { content: RemoteContent::Text(text), .. }] => text,
        other => panic!("no single text: {other:?}"),
    }
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// Waits until something holds.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// A bearer token; a new one whenever the last is refused, as often as it has any.
struct Token {
    names: Mutex<Vec<&'static str>>,
    refusals: AtomicUsize,
    challenges: Mutex<Vec<String>>,
}

impl Token {
    fn named(name: &'static str) -> Arc<Self> {
        Self::in_turn(&[name])
    }

    fn in_turn(names: &[&'static str]) -> Arc<Self> {
        let names = Mutex::new(names.iter().rev().copied().collect());
        Arc::new(Self { names, refusals: AtomicUsize::new(0), challenges: Mutex::default() })
    }
}

#[async_trait]
impl Credentials for Token {
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint([0; 32])
    }

    async fn headers(&self) -> Result<Arc<HeaderMap>, McpError> {
        let value = format!("Bearer {}", self.names.lock().last().unwrap());
        Ok(Arc::new(HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&value).unwrap())])))
    }

    async fn rejected(&self, refused: &HeaderMap, challenged: &WwwAuthenticate) -> bool {
        self.refusals.fetch_add(1, Ordering::SeqCst);
        self.challenges.lock().push(challenged.scopes.join(" "));
        let mut names = self.names.lock();
        assert_eq!(refused[AUTHORIZATION], format!("Bearer {}", names.last().unwrap()));
        names.len() > 1 && names.pop().is_some()
    }
}
