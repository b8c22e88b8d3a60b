//! Client profiles: clients that are detected by their headers, and the compatibility settings for each.
//!
//! One table. It lists clients whose types or default configuration cannot handle the standard behaviour. Settings of a key
//! or a request override a profile; `compat.client_profiles: off` disables detection.

use axum::http::{HeaderMap, header};

use antwort_engine::OnUnservedTool;
use antwort_protocol::request::ClientActionStatus;

/// A known client and its compatibility settings.
#[derive(Debug)]
pub(crate) struct ClientProfile {
    /// Name of the profile, sent in the response header `antwort-client-profile`.
    pub name: &'static str,
    /// Status of a response that waits for client-side function calls, if the client cannot parse the default one.
    pub client_action_status: Option<ClientActionStatus>,
    /// What to do with hosted tools that the gateway does not serve, if not what is done for other clients.
    pub unserved_tools: Option<OnUnservedTool>,
    /// Whether fields that have no effect here are listed instead of refused, as the client sends some by itself.
    pub lists_unserved_fields: bool,
    /// Whether it gives up a stream in which no event comes for some time, and does not count comments.
    pub counts_events: bool,
    matches: fn(&HeaderMap) -> bool,
}

/// All profiles; the first match applies.
pub(crate) static PROFILES: &[ClientProfile] = &[
    ClientProfile {
        name: "codex",
        // Reads items and the terminal event, not the status.
        client_action_status: None,
        // Its default configuration adds OpenAI's hosted tools to every request, also to those without other tools.
        unserved_tools: Some(OnUnservedTool::Omit),
        // It marks tools as deferred and gives them schemas of results where a model is said to know them.
        lists_unserved_fields: true,
        // `stream_idle_timeout_ms`.
        counts_events: true,
        matches: is_codex,
    },
    ClientProfile {
        name: "openai-node",
        // Its helpers parse arguments and text of `completed` responses only.
        client_action_status: Some(ClientActionStatus::Completed),
        unserved_tools: None,
        lists_unserved_fields: false,
        counts_events: false,
        matches: is_openai_node,
    },
    ClientProfile {
        name: "openai-dotnet",
        // Its status enum throws on unknown values.
        client_action_status: Some(ClientActionStatus::Completed),
        unserved_tools: None,
        lists_unserved_fields: false,
        counts_events: false,
        matches: is_openai_dotnet,
    },
    ClientProfile {
        name: "async-openai",
        // Its status enum fails to deserialize the whole response on unknown values.
        client_action_status: Some(ClientActionStatus::Completed),
        unserved_tools: None,
        lists_unserved_fields: false,
        counts_events: false,
        matches: is_async_openai,
    },
];

/// The profile of the client that sends these headers.
pub(crate) fn detect(headers: &HeaderMap) -> Option<&'static ClientProfile> {
    PROFILES.iter().find(|profile| (profile.matches)(headers))
}

/// Codex programs send their name (`codex_cli_rs`, `codex_exec`, `codex_vscode`, …) in `originator` and `User-Agent`.
fn is_codex(headers: &HeaderMap) -> bool {
    starts_with_ignoring_case(text(headers, "originator"), "codex")
        || starts_with_ignoring_case(user_agent(headers), "codex")
}

/// Its `User-Agent` is a class name that subclasses change and browsers do not let pages set, so `x-stainless-lang` is
/// checked, which is always sent. Also matches the Agents SDK for JavaScript and LangChain.js, which use this SDK; not
/// the AI SDK, which does not.
fn is_openai_node(headers: &HeaderMap) -> bool {
    text(headers, "x-stainless-lang").eq_ignore_ascii_case("js")
}

/// `OpenAI/2.9.1 (.NET 10.0.5; …)` or Azure's `azsdk-net-AI.OpenAI/2.1.0 (…)`, which the program's own name may precede.
fn is_openai_dotnet(headers: &HeaderMap) -> bool {
    let user_agent = user_agent(headers);
    let mut products = user_agent.split(' ');
    products.any(|product| product.starts_with("azsdk-net-AI.OpenAI/"))
        || (user_agent.contains("(.NET")
            && user_agent.split(' ').any(|product| product.starts_with("OpenAI/")))
}

/// Sends a `User-Agent` only if the program sets one; by default it looks like plain `reqwest` with a key. Other programs
/// that look the same are not harmed by OpenAI's status.
fn is_async_openai(headers: &HeaderMap) -> bool {
    if headers.contains_key(header::USER_AGENT) {
        return starts_with_ignoring_case(user_agent(headers), "async-openai");
    }
    text(headers, "accept") == "*/*" && text(headers, "authorization").starts_with("Bearer ")
}

fn user_agent(headers: &HeaderMap) -> &str {
    text(headers, "user-agent")
}

/// A header's value; `""` if it is absent or not text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn starts_with_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::{PROFILES, detect};

    type Header = (&'static str, &'static str);

    /// The headers that real clients send.
    #[test]
    fn clients_are_recognised_by_what_they_really_send() {
        let bearer: Header = ("authorization", "Bearer sk-x");
        let any = ("accept", "*/*");
        let rows: &[(&[Header], Option<&str>)] = &[
            (
                &[("originator", "codex_cli_rs"), ("user-agent", "codex_cli_rs/0.169.0 (Debian 12)")],
                Some("codex"),
            ),
            (&[("originator", "codex_exec")], Some("codex")),
            (&[("user-agent", "codex_vscode/0.9")], Some("codex")),
            (&[("originator", "Codex Desktop")], Some("codex")),
            (&[("user-agent", "OpenAI/JS 7.57.0"), ("x-stainless-lang", "js"), bearer], Some("openai-node")),
            (&[("user-agent", "AzureOpenAI/JS 7.57.0"), ("x-stainless-lang", "js")], Some("openai-node")),
            (&[("user-agent", "Agents/JavaScript 0.20.0"), ("x-stainless-lang", "js")], Some("openai-node")),
            (&[("user-agent", "Mozilla/5.0"), ("x-stainless-lang", "js"), any], Some("openai-node")),
            (
                &[("user-agent", "OpenAI/2.9.1 (.NET 10.0.5; Microsoft Windows 10.0.26200)")],
                Some("openai-dotnet"),
            ),
            (&[("user-agent", "My-App OpenAI/2.8.0 (.NET 9.0.11; Debian 12)")], Some("openai-dotnet")),
            (&[("user-agent", "OpenAI/2.2.0 (.NET Framework 4.8; Windows) MEAI/9.5")], Some("openai-dotnet")),
            (&[("user-agent", "azsdk-net-AI.OpenAI/2.1.0 (.NET 8.0.1; Linux)")], Some("openai-dotnet")),
            (&[any, bearer], Some("async-openai")),
            (&[("user-agent", "async-openai"), ("accept", "*/*"), bearer], Some("async-openai")),
            (&[("user-agent", "OpenAI/Python 3.54.0"), ("x-stainless-lang", "python"), bearer], None),
            (&[("user-agent", "AsyncOpenAI/Python 3.54.0"), ("x-stainless-lang", "python")], None),
            (&[("user-agent", "Agents/Python 0.24.0"), ("x-stainless-lang", "python")], None),
            (&[("user-agent", "OpenAI/Java 4.0.0"), ("x-stainless-lang", "java")], None),
            (&[("user-agent", "OpenAI/Go 3.0.0"), ("x-stainless-lang", "go")], None),
            (&[("user-agent", "ai-sdk/openai/3.0.141 runtime/node.js/20"), bearer, any], None),
            (&[("user-agent", "curl/8.5.0"), any, bearer], None),
            (&[("user-agent", "MyTool/1.0 (.NET 8.0)"), bearer], None),
            (&[any], None),
            (&[bearer], None),
            (&[("originator", "code"), ("user-agent", "cod")], None),
            (&[], None),
        ];
        for (headers, expected) in rows {
            let headers =
                headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            assert_eq!(detect(&headers).map(|profile| profile.name), *expected, "{headers:?}");
        }
    }

    #[test]
    fn the_page_on_compatibility_has_every_client_profile() {
        let page = include_str!("../../docs/compatibility.md");
        let (_, table) = page.split_once("## Client profiles").unwrap();
        for profile in PROFILES {
            assert!(table.contains(&format!("| `{}` |", profile.name)), "{}", profile.name);
        }
    }
}
