//! Sends raw requests and reads the answers within bounds: of time, bytes and words.

use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, HeaderMap, HeaderName};
use reqwest::{Response, Url};
use serde_json::Value;

use super::excerpt::excerpt;
use super::exchange::{Cut, Exchange, is_error};
use super::question::Ask;
use antwort_config::ProviderSettings;
use antwort_net::sse::Decoder;
use antwort_provider as provider;

const AGENT: &str = concat!("antwort-doctor/", env!("CARGO_PKG_VERSION"));
/// Bytes that are read of an answer.
const MAX_ANSWER: usize = 1 << 20;
/// Bytes that are read of a list of models or of a server's properties.
const MAX_LIST: usize = 8 << 20;
/// Words after which an answer is cut: no question needs as many.
const MAX_WORDS: usize = 300;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers that say something about the server or its limits.
const HEADERS: [&str; 4] = ["server", "retry-after", "location", "x-litellm-version"];

/// A client of one server.
pub struct Client {
    http: reqwest::Client,
    headers: HeaderMap,
    base: String,
    settings: ProviderSettings,
    timeout: Duration,
}

/// A base URL as a person may give it: `/chat/completions` and the like are cut off.
///
/// # Errors
/// If it is no URL to which paths can be appended, with what to do instead.
pub fn base_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text.trim())
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or("expected an http or https URL, such as http://localhost:8000/v1")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must not hold a user or password: set ANTWORT_UPSTREAM_API_KEY".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the URL must not have `?` or `#`: paths are appended to it".to_owned());
    }
    let mut base = url.as_str().trim_end_matches('/');
    for end in ["/chat/completions", "/completions", "/responses", "/models"] {
        base = base.strip_suffix(end).unwrap_or(base);
    }
    Ok(base.trim_end_matches('/').to_owned())
}

impl Client {
    /// A client for the server of these settings.
    ///
    /// # Errors
    /// If the settings cannot be used, such as a key that fits in no header.
    pub fn new(settings: ProviderSettings, timeout: Duration) -> Result<Self, String> {
        let base = settings.url.clone();
        let url = Url::parse(&base).map_err(|error| error.to_string())?;
        let http = settings
            .http
            .builder_for(&url)
            .user_agent(AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { http, headers: provider::request_headers(&settings)?, base, settings, timeout })
    }

    /// The base URL that requests go to.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends requests to another base URL of the same server from now on.
    pub(super) fn set_base(&mut self, base: String) {
        self.settings.url.clone_from(&base);
        self.base = base;
    }

    pub(super) fn settings(&self) -> &ProviderSettings {
        &self.settings
    }

    /// What a server says, with its key and other secrets masked; also the beginning of one at the end of an excerpt.
    pub(super) fn mask(&self, text: &str) -> String {
        provider::mask_excerpt(&self.settings, text)
    }

    /// A GET of a whole URL: the outcome, and the body if it is JSON.
    pub(super) async fn get(&self, url: &str) -> (Exchange, Option<Value>) {
        let mut exchange = Exchange::default();
        let mut body = Vec::new();
        let asked = async {
            let response = self.http.get(url).headers(self.headers.clone()).send().await;
            let Some(mut response) = exchange.begin(response) else { return };
            while let Some(piece) = exchange.next(&mut response).await {
                body.extend_from_slice(&piece);
                if body.len() > MAX_LIST {
                    exchange.cut = Some(Cut::Bytes);
                    break;
                }
            }
        };
        if tokio::time::timeout(self.timeout, asked).await.is_err() {
            exchange.failure = Some(too_late(self.timeout));
        }
        let text = String::from_utf8_lossy(&body);
        if exchange.status.is_some() && !exchange.is_success() {
            exchange.error = Some(provider::read_error(&text, exchange.status, &self.settings));
        }
        let value = serde_json::from_str(&text).ok();
        if exchange.is_success() && value.is_none() {
            exchange.garbage = Some(text.chars().take(200).collect());
        }
        (exchange, value)
    }

    /// Asks for a chat completion.
    pub(super) async fn chat(&self, ask: &Ask) -> Exchange {
        let url = format!("{}/chat/completions", self.base);
        let body = ask.body.to_string();
        let mut reader = Reader::new(body.len(), ask.cut);
        let started = Instant::now();
        let asked = async {
            let accept = "text/event-stream, application/json";
            let request = self.http.post(url).headers(self.headers.clone()).header(ACCEPT, accept).body(body);
            let Some(mut response) = reader.exchange.begin(request.send().await) else { return };
            let is_stream = response
                .headers()
                .get("content-type")
                .and_then(|value| value.to_str().ok())
                .is_some_and(|value| value.to_ascii_lowercase().contains("event-stream"));
            reader.is_stream = is_stream && reader.exchange.is_success();
            while let Some(piece) = reader.exchange.next(&mut response).await {
                if !reader.take(&piece, started) {
                    return;
                }
            }
        };
        let in_time = tokio::time::timeout(self.timeout, asked).await.is_ok();
        let mut exchange = reader.finish(started, &self.settings);
        if !in_time {
            exchange.failure = Some(too_late(self.timeout));
        }
        exchange
    }
}

fn too_late(timeout: Duration) -> String {
    format!("no end of the answer within {} s", timeout.as_secs_f64())
}

impl Exchange {
    /// Takes in the head of a response, or why there is none.
    fn begin(&mut self, response: Result<Response, reqwest::Error>) -> Option<Response> {
        match response {
            Ok(response) => {
                self.status = Some(response.status().as_u16());
                let value = |(name, value): (&HeaderName, &reqwest::header::HeaderValue)| {
                    let name = name.as_str();
                    let is_kept = HEADERS.contains(&name) || name.contains("ratelimit");
                    is_kept.then(|| (name.to_owned(), excerpt(value.to_str().unwrap_or_default())))
                };
                self.headers = response.headers().iter().filter_map(value).take(32).collect();
                Some(response)
            }
            Err(error) => {
                self.failure = Some(failure(&error));
                None
            }
        }
    }

    /// The next piece of a body; a failure is noted.
    async fn next(&mut self, response: &mut Response) -> Option<bytes::Bytes> {
        response.chunk().await.unwrap_or_else(|error| {
            self.failure = Some(failure(&error));
            None
        })
    }
}

/// Why there is no answer, in words for the user.
fn failure(error: &reqwest::Error) -> String {
    let cause = excerpt(&antwort_net::causes::chain(error));
    if error.is_connect() {
        format!("the server cannot be reached: {cause}")
    } else {
        format!("the connection broke: {cause}")
    }
}

/// Puts an answer together as it comes in.
struct Reader {
    exchange: Exchange,
    decoder: Decoder,
    body: Vec<u8>,
    /// The JSON of an error with status 200.
    hidden_error: Option<String>,
    is_stream: bool,
    cut_at_first: bool,
}

impl Reader {
    fn new(sent: usize, cut_at_first: bool) -> Self {
        Self {
            exchange: Exchange { sent, ..Exchange::default() },
            decoder: Decoder::new(MAX_ANSWER),
            body: Vec::new(),
            hidden_error: None,
            is_stream: false,
            cut_at_first,
        }
    }

    /// Takes in a piece; whether to read on.
    fn take(&mut self, piece: &[u8], started: Instant) -> bool {
        self.body.extend_from_slice(piece);
        if self.is_stream {
            self.decoder.feed(piece);
            self.take_events();
        }
        if self.exchange.chunks > 0 && self.exchange.first.is_zero() {
            self.exchange.first = started.elapsed();
        }
        let exchange = &mut self.exchange;
        exchange.cut = if self.cut_at_first && !exchange.reply.choices.is_empty() {
            Some(Cut::Asked)
        } else if exchange.reply.words() > MAX_WORDS {
            Some(Cut::Words)
        } else {
            (self.body.len() > MAX_ANSWER).then_some(Cut::Bytes)
        };
        exchange.cut.is_none() && !exchange.done
    }

    fn take_events(&mut self) {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) if event.data.trim() == "[DONE]" => self.exchange.done = true,
                Ok(Some(event)) => {
                    let data = event.data.into_owned();
                    self.exchange.chunks += 1;
                    self.take_json(&data);
                }
                Ok(None) => return,
                Err(error) => {
                    self.exchange.garbage = Some(error.to_string());
                    return;
                }
            }
        }
    }

    /// Takes in a chunk, or a body.
    fn take_json(&mut self, text: &str) {
        let exchange = &mut self.exchange;
        match serde_json::from_str::<Value>(text) {
            Ok(chunk) if is_error(&chunk) => {
                let error = chunk.pointer("/choices/0/error").filter(|error| !error.is_null());
                self.hidden_error =
                    Some(error.map_or_else(|| text.to_owned(), |error| format!("{{\"error\":{error}}}")));
            }
            Ok(chunk) if chunk.is_object() => exchange.reply.take(&chunk),
            _ if exchange.garbage.is_none() => exchange.garbage = Some(text.chars().take(200).collect()),
            _ => {}
        }
    }

    fn finish(mut self, started: Instant, settings: &ProviderSettings) -> Exchange {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        let status = self.exchange.status;
        if self.is_stream {
            self.decoder.end();
            self.take_events();
            self.exchange.comments = text.lines().filter(|line| line.starts_with(':')).count();
        } else if self.exchange.is_success() {
            self.take_json(&text);
        } else if status.is_some() {
            self.exchange.error = Some(provider::read_error(&text, status, settings));
        }
        let mut exchange = self.exchange;
        if let Some(error) = &self.hidden_error {
            exchange.error = Some(provider::read_error(error, None, settings));
        }
        exchange.took = started.elapsed();
        if exchange.first.is_zero() {
            exchange.first = exchange.took;
        }
        exchange
    }
}

#[cfg(test)]
mod tests {
    use super::base_url;

    #[test]
    fn urls_as_people_give_them() {
        for (given, base) in [
            ("http://localhost:8000", "http://localhost:8000"),
            ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
            (" https://h/v1/chat/completions", "https://h/v1"),
            ("http://h/v1/models", "http://h/v1"),
        ] {
            assert_eq!(base_url(given).as_deref(), Ok(base), "{given}");
        }
        for wrong in ["", "localhost:8000", "ftp://h/", "http://u:p@h/v1", "http://h/v1?key=x", "file:///etc"]
        {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
    }
}
