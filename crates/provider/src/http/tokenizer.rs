//! Has a server's own tokenizer count a prompt.
//!
//! Its routes are beside those of the API: at the server's root, not below `/v1`. What they answer is not trusted, and
//! not needed: whatever goes wrong, the prompt is estimated instead.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, HeaderValue};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::server::Server;
use super::timer::Timer;
use crate::{CallContext, ProviderError, ProviderErrorKind};
use antwort_config::TokenizerApi;
use antwort_limits::run_on_bytes;
use antwort_net::FailureCause;

/// Timeout of a count in total: the client waits for it, and there is the estimate.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A count beyond this is an error: no context window is that large.
const MAX_COUNT: u64 = u32::MAX as u64;

/// Counts a prompt that `chat::encode_prompt` has encoded.
pub(super) async fn count(
    server: &Server,
    api: TokenizerApi,
    prompt: Bytes,
    call: &CallContext,
) -> Result<u64, ProviderError> {
    let counting = async {
        match api {
            TokenizerApi::Vllm => ask_vllm(server, prompt, call).await,
            TokenizerApi::LlamaCpp => ask_llama_cpp(server, prompt, call).await,
        }
    };
    let tokens = tokio::time::timeout(TIMEOUT, counting).await.unwrap_or_else(|_| {
        let cause = FailureCause::from_timeout("total_timeout", "the timeout for counting tokens", TIMEOUT);
        let late = ProviderError::new(ProviderErrorKind::TotalTimeout, "the provider took too long");
        Err(ProviderError { cause: Some(Box::new(cause)), ..late })
    })?;
    // No prompt is empty.
    if (1..=MAX_COUNT).contains(&tokens) { Ok(tokens) } else { Err(malformed()) }
}

/// `/tokenize` applies the chat template and counts.
async fn ask_vllm(server: &Server, prompt: Bytes, call: &CallContext) -> Result<u64, ProviderError> {
    #[derive(Deserialize)]
    struct Counted {
        count: u64,
    }
    let Counted { count } = ask(server, "/tokenize", prompt, call).await?;
    Ok(count)
}

/// `/apply-template` makes the prompt, of which `/tokenize` makes tokens.
async fn ask_llama_cpp(server: &Server, prompt: Bytes, call: &CallContext) -> Result<u64, ProviderError> {
    #[derive(Deserialize)]
    struct Templated {
        prompt: String,
    }
    #[derive(serde::Serialize)]
    struct Text {
        content: String,
        // As the server tokenizes the prompt of a completion.
        add_special: bool,
        parse_special: bool,
    }
    #[derive(Deserialize)]
    struct Tokenized {
        tokens: Vec<IgnoredAny>,
    }
    let Templated { prompt } = ask(server, "/apply-template", prompt, call).await?;
    let text = Text { content: prompt, add_special: true, parse_special: true };
    let text = run_on_bytes(text.content.len(), || serde_json::to_vec(&text)).map_err(|_| malformed())?;
    let Tokenized { tokens } = ask(server, "/tokenize", text.into(), call).await?;
    Ok(tokens.len() as u64)
}

async fn ask<T: DeserializeOwned>(
    server: &Server,
    path: &str,
    body: Bytes,
    call: &CallContext,
) -> Result<T, ProviderError> {
    let url = format!("{}{path}", root(&server.settings.url));
    let mut headers = server.call_headers(call);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let limits = &server.settings.timeouts;
    let sent = Instant::now();
    let request = server.http.post(url).headers(headers).body(body).send();
    let response = Timer::default()
        .run(limits.first_byte, ProviderErrorKind::FirstByteTimeout, limits.total, request)
        .await?;
    let response = response.map_err(|error| server.proxy_mode.send_error(&error))?;
    let response = server.check_status(response).await?;
    let answer = server.upstream_body(response, sent).read_to_end(server.settings.max_answer_bytes).await?;
    run_on_bytes(answer.len(), || serde_json::from_str(&answer)).map_err(|_| malformed())
}

/// The server's root: the base URL without the `/v1` of the API.
fn root(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix("/v1").unwrap_or(url)
}

fn malformed() -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::Malformed,
        "The answer of the model provider's tokenizer cannot be read.",
    )
}
