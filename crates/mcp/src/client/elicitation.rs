//! Questions of servers to the user: read from requests, results and errors of servers, and the answers written.

use std::collections::BTreeMap;

use reqwest::Url;
use rmcp::model::{ElicitResult, ElicitationAction as SdkAction};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::notices::sanitize_for_error;
use super::protocol_error::unsupported;
use crate::error::McpError;
use antwort_config::ElicitationPolicy;
use antwort_protocol::elicitation::{Elicitation, ElicitationAction, ElicitationAnswer, ElicitationModes};
use antwort_protocol::json::RawJson;
use antwort_tools::RequiredInput;
use antwort_util::display;

/// The method of questions to the user.
pub(super) const METHOD: &str = "elicitation/create";
/// The code of errors that ask the user to open an address first.
pub(super) const URL_REQUIRED: i64 = -32042;
/// Maximum bytes of a question.
const MAX_QUESTION_BYTES: usize = 64 * 1024;
/// Maximum number of questions that a result or an error asks at once.
const MAX_QUESTIONS: usize = 16;
/// Maximum bytes of the key of a question.
const MAX_KEY_BYTES: usize = 256;
/// Maximum bytes of an address.
const MAX_URL_BYTES: usize = 4096;

/// Input that a server requests before it continues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct InputRequests {
    /// The requests, by the key of their response.
    pub questions: BTreeMap<String, InputQuestion>,
    /// Opaque state, to be returned unchanged.
    pub state: Option<String>,
}

/// A request for input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InputQuestion {
    pub method: String,
    /// The question to the user, if it is a valid one.
    pub elicitation: Option<Elicitation>,
}

/// Reads the parameters of a question; `None` if they are not valid, or the address is not one of the web.
pub(super) fn read(params: &RawValue) -> Option<Elicitation> {
    if params.get().len() > MAX_QUESTION_BYTES {
        return None;
    }
    match serde_json::from_str(params.get()).ok()? {
        Elicitation::Form { message, requested_schema } => {
            let requested_schema = RawJson::object(requested_schema.as_raw()).ok()?;
            Some(Elicitation::Form { message, requested_schema })
        }
        Elicitation::Url { message, url, elicitation_id } => {
            let url = web_address(&url)?;
            let elicitation_id = elicitation_id.filter(|id| !id.is_empty());
            Some(Elicitation::Url { message, url, elicitation_id })
        }
    }
}

/// The address as a browser understands it, with the ASCII form of its host (`xn--…`): what is shown is what is opened. `None`
/// if it is not one of the web, has a user or password, which look like a host (`https://good.example@evil.example/`), or has
/// characters that change how it is shown.
fn web_address(url: &str) -> Option<String> {
    if url.len() > MAX_URL_BYTES || url.chars().any(display::is_unsafe) {
        return None;
    }
    let parsed = Url::parse(url).ok()?;
    let is_web = matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
    (is_web && !has_at_sign(url)).then(|| parsed.to_string())
}

/// Whether the host of an address comes behind an `@`: behind a user, or behind none, which is not kept when it is parsed.
fn has_at_sign(url: &str) -> bool {
    let behind_scheme = url.split_once(':').map_or(url, |(_, rest)| rest).trim_start_matches(['/', '\\']);
    behind_scheme.split(['/', '\\', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// A request for the SDK in place of one whose question was read.
pub(super) fn request_without_question(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{METHOD}","params":{{"message":"","requestedSchema":{{"type":"object","properties":{{}}}}}}}}"#
    )
}

/// Reads requests for input, by the key of their response.
pub(super) fn read_requests(raw: &RawValue) -> Result<InputRequests, String> {
    #[derive(Deserialize)]
    struct RawQuestion<'a> {
        method: String,
        #[serde(default, borrow)]
        params: Option<&'a RawValue>,
    }
    let questions: BTreeMap<String, RawQuestion<'_>> =
        serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    let question = |RawQuestion { method, params }: RawQuestion<'_>| {
        let params = params.filter(|_| method == METHOD);
        InputQuestion { elicitation: params.and_then(read), method }
    };
    let questions = questions.into_iter().map(|(key, asked)| (key, question(asked))).collect();
    Ok(InputRequests { questions, state: None })
}

/// What the user is asked of the questions of a result, and what the policy answers to the others.
pub(super) fn split(
    requests: InputRequests,
    modes: ElicitationModes,
    policy: ElicitationPolicy,
) -> Result<RequiredInput, McpError> {
    if requests.questions.len() > MAX_QUESTIONS {
        return Err(unsupported("requests more than 16 inputs at once"));
    }
    let is_too_long = |text: &str| text.len() > MAX_QUESTION_BYTES;
    if requests.state.as_deref().is_some_and(is_too_long)
        || requests.questions.keys().any(|key| key.len() > MAX_KEY_BYTES)
    {
        return Err(unsupported(
            "requests input with a state of more than 64 KiB or a key of more than 256 bytes",
        ));
    }
    let mut required = RequiredInput { state: requests.state, ..RequiredInput::default() };
    for (key, question) in requests.questions {
        if question.method != METHOD {
            let what = format!("requests {} during the call, which is not supported", question.method);
            return Err(unsupported(&what));
        }
        match question.elicitation.filter(|asked| modes.can_show(asked)) {
            Some(asked) => _ = required.questions.insert(key, asked),
            None => _ = required.answered.insert(key, by_policy(policy)?),
        }
    }
    Ok(required)
}

/// The addresses to be opened before a call can be made, of the `data` of an error.
pub(super) fn required_urls(error: &RawValue) -> Option<Vec<Elicitation>> {
    #[derive(Deserialize)]
    struct UrlError<'a> {
        code: i64,
        #[serde(borrow)]
        data: Data<'a>,
    }
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        elicitations: Vec<&'a RawValue>,
    }
    let error: UrlError<'_> = serde_json::from_str(error.get()).ok()?;
    let asked = error.data.elicitations;
    if error.code != URL_REQUIRED || asked.is_empty() || asked.len() > MAX_QUESTIONS {
        return None;
    }
    let asked: Option<Vec<_>> = asked.into_iter().map(read).collect();
    asked.filter(|asked| asked.iter().all(|asked| matches!(asked, Elicitation::Url { .. })))
}

/// What is answered without asking the user.
fn by_policy(policy: ElicitationPolicy) -> Result<ElicitationAnswer, McpError> {
    policy_action(policy)
        .map(ElicitationAnswer::without_content)
        .ok_or_else(|| unsupported("requests input during the call, but elicitation is off"))
}

/// The answer of the policy; `None`: elicitation is not offered.
pub(super) fn policy_action(policy: ElicitationPolicy) -> Option<ElicitationAction> {
    match policy {
        ElicitationPolicy::Decline => Some(ElicitationAction::Decline),
        ElicitationPolicy::Cancel => Some(ElicitationAction::Cancel),
        ElicitationPolicy::Off => None,
    }
}

/// Answers as members of a request that repeats a call.
pub(super) fn replies<'a>(
    answers: impl IntoIterator<Item = (&'a String, &'a ElicitationAnswer)>,
) -> BTreeMap<String, Value> {
    let reply = |answer: &ElicitationAnswer| serde_json::to_value(answer).unwrap_or_default();
    answers.into_iter().map(|(key, answer)| (key.clone(), reply(answer))).collect()
}

/// An answer as the response to a server's request.
pub(super) fn result(answer: &ElicitationAnswer) -> ElicitResult {
    let result = ElicitResult::new(match answer.action {
        ElicitationAction::Accept => SdkAction::Accept,
        ElicitationAction::Decline => SdkAction::Decline,
        ElicitationAction::Cancel => SdkAction::Cancel,
    });
    match content(answer) {
        Some(content) => result.with_content(content),
        None => result,
    }
}

fn content(answer: &ElicitationAnswer) -> Option<Value> {
    serde_json::from_str(answer.content.as_ref()?.get()).ok()
}

/// The error of a call that the user did not agree to prepare.
pub(super) fn refused(message: &str) -> McpError {
    McpError::Protocol { code: URL_REQUIRED, message: sanitize_for_error(message) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_value(value: &Value) -> Option<Elicitation> {
        read(&serde_json::value::to_raw_value(value).unwrap())
    }

    #[test]
    fn questions_are_read_as_they_are_and_addresses_must_be_of_the_web() {
        let schema = json!({ "type": "object", "properties": { "z": { "x-own": 1 }, "a": {} } });
        let form = read_value(&json!({ "message": "Size?", "requestedSchema": schema }));
        let Some(Elicitation::Form { message, requested_schema }) = form else { panic!("{form:?}") };
        assert_eq!((message.as_str(), requested_schema.get()), ("Size?", schema.to_string().as_str()));
        let url = |url: &str| read_value(&json!({ "mode": "url", "message": "m", "url": url }));
        assert!(url("https://login.example.com/x?y=1").is_some());
        let long = format!("https://a/{}", "x".repeat(MAX_URL_BYTES));
        for bad in ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://", "", &long] {
            assert_eq!(url(bad), None, "{bad}");
        }
        for bad in [
            "https://good.example@evil.example/",
            "https://good.example:x@evil.example/",
            "https://:x@evil.example/",
            "https://@evil.example/",
            "https:\\\\good.example@evil.example",
            "https://evil.example/\u{202e}elpmaxe.doog",
            "https://evil.example/\u{2066}x",
            "https://evil\u{200b}.example/",
            "https://evil.example/\u{7}",
            "https://evil.example/a\nb",
        ] {
            assert_eq!(url(bad), None, "{bad:?}");
        }
        let shown = |asked: &str| match url(asked) {
            Some(Elicitation::Url { url, .. }) => url,
            other => panic!("{asked}: {other:?}"),
        };
        // The first letter is Cyrillic; full-width letters and digits are the ordinary ones.
        assert_eq!(shown("https://\u{430}pple.example/"), "https://xn--pple-43d.example/");
        assert_eq!(shown("https://\u{ff45}vil.example/a@b"), "https://evil.example/a@b");
        assert_eq!(shown("http://0x7f.1/"), "http://127.0.0.1/");
        assert_eq!(read_value(&json!({ "message": "m" })), None);
        assert_eq!(read_value(&json!({ "mode": "url", "message": "m" })), None);
        assert_eq!(read_value(&json!({ "mode": "voice", "message": "m" })), None);
        let long = "x".repeat(MAX_QUESTION_BYTES);
        assert_eq!(read_value(&json!({ "message": long, "requestedSchema": {} })), None);
    }

    #[test]
    fn an_error_asks_for_addresses_only_by_its_code() {
        let error = |code: i64, data: Value| {
            let raw = json!({ "code": code, "message": "m", "data": data });
            required_urls(&serde_json::value::to_raw_value(&raw).unwrap())
        };
        let url =
            json!({ "mode": "url", "message": "m", "url": "https://a.example/", "elicitationId": "e1" });
        let form = json!({ "mode": "form", "message": "m", "requestedSchema": {} });
        assert_eq!(error(URL_REQUIRED, json!({ "elicitations": [url] })).map(|asked| asked.len()), Some(1));
        assert_eq!(error(-32602, json!({ "elicitations": [url] })), None);
        assert_eq!(error(URL_REQUIRED, json!({ "elicitations": [url, form] })), None);
        assert_eq!(error(URL_REQUIRED, json!({ "elicitations": [] })), None);
        assert_eq!(error(URL_REQUIRED, json!(null)), None);
    }
}
