//! The API of a running gateway, as far as runs are read from it.

use std::io::{self, BufReader, ErrorKind, Read};
use std::time::Duration;

use reqwest::Url;
use reqwest::blocking::{Client, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::healthcheck::reachable;
use crate::cli::words::between;
use antwort_config::{LoadOptions, listen_address};

/// Longer than the gateway takes for any read of its store.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Larger than any list of summaries, account of a run or error of a gateway.
const MAX_BODY_BYTES: u64 = 8 << 20;
/// Larger than any response that a gateway stores. Of it only a few short fields are kept.
const MAX_RESPONSE_BYTES: u64 = 256 << 20;

/// A gateway.
pub(super) struct Api {
    base: Url,
    key: Option<String>,
}

impl Api {
    /// The gateway at this URL, or at the address of `listen`; the key is that of `ANTWORT_API_KEY`.
    pub(super) fn new(url: Option<&str>, options: &LoadOptions) -> Result<Self, String> {
        let base = match url {
            Some(url) => url.trim_end_matches('/').trim_end_matches("/v1").to_owned(),
            None => {
                let address = listen_address(options).map_err(|errors| errors.to_string())?;
                format!("http://{}", reachable(address))
            }
        };
        let base = Url::parse(&base).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let base = base.ok_or("--url: expected an http:// or https:// URL")?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(
                "--url: the URL must not hold a user or password: ANTWORT_API_KEY sets the key".to_owned()
            );
        }
        let key = options.environment.get("ANTWORT_API_KEY").filter(|key| !key.is_empty());
        Ok(Self { base, key: key.cloned() })
    }

    /// The body of a GET below `/v1`.
    ///
    /// # Errors
    /// What the gateway says, or that it does not answer.
    pub(super) fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<String, String> {
        self.text(self.accepted(path, query)?)
    }

    /// How a response ended. Its output is passed over as it is received.
    ///
    /// # Errors
    /// What the gateway says, or that it does not answer.
    pub(super) fn outcome(&self, id: &str) -> Result<Outcome, String> {
        let answer = self.accepted(&["responses", id], &[])?;
        let answer = BufReader::new(Bounded { from: answer, left: MAX_RESPONSE_BYTES });
        serde_json::from_reader(answer).map_err(|error| match error.is_io() {
            true => self.unread(&error.into()),
            false => not_ours(&error),
        })
    }

    /// The answer to a GET below `/v1` that the gateway does not refuse.
    fn accepted(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Response, String> {
        let answer = self.send(path, query)?;
        let status = answer.status();
        if status.is_success() { Ok(answer) } else { Err(refusal(status.as_u16(), &self.text(answer)?)) }
    }

    fn text(&self, answer: Response) -> Result<String, String> {
        let mut body = Vec::new();
        let read = Bounded { from: answer, left: MAX_BODY_BYTES }.read_to_end(&mut body);
        read.map_err(|error| self.unread(&error))?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Why an answer could not be read to its end.
    fn unread(&self, error: &io::Error) -> String {
        match error.kind() {
            ErrorKind::FileTooLarge => format!("{} sends more than any gateway does", self.name()),
            _ => format!("no answer from {}: {}", self.name(), innermost(error)),
        }
    }

    /// The gateway, for errors.
    fn name(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    fn send(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Response, String> {
        let mut url = self.base.clone();
        url.path_segments_mut().map_err(|()| "--url: it has no path")?.pop_if_empty().push("v1").extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let no_answer =
            |error: reqwest::Error| format!("no answer from {}: {}", self.name(), innermost(&error));
        let client = Client::builder().no_proxy().timeout(TIMEOUT).build().map_err(no_answer)?;
        let mut request = client.get(url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        request.send().map_err(no_answer)
    }
}

/// Reads to a bound, and fails with [`ErrorKind::FileTooLarge`] beyond.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(to)?;
        self.left = self.left.checked_sub(count as u64).ok_or(ErrorKind::FileTooLarge)?;
        Ok(count)
    }
}

/// The cause, without the URL, which the caller has named.
fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

fn refusal(status: u16, body: &str) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: Problem,
    }
    match serde_json::from_str::<Refusal>(body) {
        Ok(Refusal { error }) => {
            let message = error.message.unwrap_or_default();
            format!("the gateway refuses: {status} {}: {message}", error.code.unwrap_or_default())
        }
        Err(_) => format!("status {status}, not from a gateway"),
    }
}

/// Reads an answer.
pub(super) fn parse<T: DeserializeOwned>(body: &str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| not_ours(&error))
}

fn not_ours(error: &serde_json::Error) -> String {
    format!("the answer is not a gateway's: {error}")
}

/// A page of summaries.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub data: Vec<Summary>,
    pub last_id: Option<String>,
    pub has_more: bool,
}

/// What a list says about a response.
#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub id: String,
    pub created_at: i64,
    pub duration_ms: Option<u64>,
    pub cost_usd: Option<f64>,
    pub turns: Option<u64>,
    pub calls: Option<u64>,
    pub text: Option<String>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// How a response ended: part of a summary, and of the response itself.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    pub status: String,
    pub model: String,
    pub usage: Option<Usage>,
    pub error: Option<Problem>,
    pub incomplete_details: Option<Incomplete>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    pub code: Option<String>,
    pub message: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Incomplete {
    pub reason: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub input_tokens_details: Option<Cached>,
}

impl Usage {
    /// `in 120 (64 cached), out 42`
    pub(super) fn words(&self) -> String {
        let Self { input_tokens, output_tokens, .. } = self;
        match self.input_tokens_details.map_or(0, |details| details.cached_tokens) {
            0 => format!("in {input_tokens}, out {output_tokens}"),
            cached => format!("in {input_tokens} ({cached} cached), out {output_tokens}"),
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Cached {
    #[serde(default)]
    pub cached_tokens: u64,
}

/// The account of a run; times in milliseconds since the epoch.
#[derive(Debug, Deserialize)]
pub(super) struct Trace {
    pub id: String,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub turns: Vec<Turn>,
    pub waits: Vec<Wait>,
    pub limits: Vec<Limit>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    #[serde(default)]
    pub is_compaction: bool,
    pub provider: String,
    pub model: String,
    pub attempts: u64,
    pub retried_at: Vec<i64>,
    #[serde(default)]
    pub retry_reasons: Vec<String>,
    pub sent_at: i64,
    pub first_byte_at: Option<i64>,
    pub first_token_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
    pub calls: Vec<Call>,
}

impl Turn {
    /// Tokens a second from the first one on, of a turn that was streamed.
    pub(super) fn rate(&self) -> Option<u64> {
        let took = between(self.first_token_at?, self.ended_at?);
        let tokens = self.usage?.output_tokens;
        (tokens > 1 && took > 0).then(|| tokens.saturating_mul(1000) / took)
    }

    /// Whether it is a turn of the loop: neither calls that were approved before, nor a compaction.
    pub(super) fn is_counted(&self) -> bool {
        self.attempts > 0 && !self.is_compaction
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Call {
    pub name: String,
    pub executor: Option<String>,
    pub attempts: u64,
    pub retried_at: Vec<i64>,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub outcome: String,
    pub error: Option<String>,
    pub cached: bool,
    pub fallback: Option<String>,
    pub truncated: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Wait {
    pub kind: String,
    pub from: i64,
    pub to: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Limit {
    pub name: String,
    pub at: i64,
}
