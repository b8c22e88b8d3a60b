//! Ids belong to whoever made them: whatever clients see, the provider has each call back under the id that it gave it, in
//! the next turn and however a client goes on.

use antwort::config::{Preset, ProviderSettings};
use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Upstream, call_ids, chunk, done, finish};
use antwort_test_support::websocket::WebSocket;

/// Mistral's form, that of a model that counts by name, and one that holds a signature.
fn ids() -> [String; 3] {
    ["D681PevKs".into(), "functions.noop:0".into(), format!("call_1__thought__{}", "s".repeat(300))]
}

/// What a call is to its client.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shown {
    McpCall,
    Items,
    Hidden,
    Extension,
    Function,
    CustomTool,
}

/// How the client goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Continued {
    ById,
    InConversation,
    /// It sends what it was sent; the response is stored.
    ByReplay,
    /// It carries what is sealed.
    Unstored,
    OnTheConnection,
}

use Continued::{ById, ByReplay, InConversation, OnTheConnection, Unstored};

const SHOWN: [Shown; 6] =
    [Shown::McpCall, Shown::Items, Shown::Hidden, Shown::Extension, Shown::Function, Shown::CustomTool];
const CONTINUED: [Continued; 5] = [ById, InConversation, ByReplay, Unstored, OnTheConnection];

/// One call, streamed.
fn calling(id: &str, name: &str) -> Reply {
    calls(&[(id, name)])
}

fn calls(made: &[(&str, &str)]) -> Reply {
    let call = |(index, (id, name)): (usize, &(&str, &str))| {
        json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": format!("{{\"input\":\"{index}\"}}")}})
    };
    let calls: Vec<_> = made.iter().enumerate().map(call).collect();
    Reply::Stream(vec![chunk(json!({"tool_calls": calls})), finish("tool_calls"), done()])
}

fn ask(shown: Shown) -> Value {
    let visibility = match shown {
        Shown::Hidden => "hidden",
        Shown::Items => "items",
        _ => "full",
    };
    json!({"model": "test-model", "input": [{"role": "user", "content": "Go."}],
        "antwort": {"stream_visibility": visibility},
        "tools": [{"type": "mcp", "server_label": "antwort"}, {"type": "custom", "name": "c"},
            {"type": "function", "name": "f", "parameters": {"type": "object"}}]})
}

/// The tool that is called.
fn tool(shown: Shown) -> &'static str {
    match shown {
        Shown::Function => "f",
        Shown::CustomTool => "c",
        _ => "noop",
    }
}

/// The request that goes on from a response.
fn next(first: &Value, continued: Continued, response: &Value) -> Value {
    let items = response["output"].as_array().unwrap();
    let output = |item: &Value| match item["type"].as_str()? {
        kind @ ("function_call" | "custom_tool_call") => Some(json!({"type": format!("{kind}_output"),
            "call_id": item["call_id"], "output": "ok"})),
        _ => None,
    };
    let waits = response["status"] == "requires_action";
    let mut more: Vec<Value> = items.iter().filter(|_| waits).filter_map(output).collect();
    more.push(json!({"role": "user", "content": "And?"}));
    let mut body = first.clone();
    match continued {
        ById | OnTheConnection => body["previous_response_id"] = response["id"].clone(),
        InConversation => {}
        ByReplay | Unstored => {
            let mut input = first["input"].as_array().unwrap().clone();
            input.extend(items.iter().cloned());
            input.append(&mut more);
            more = input;
        }
    }
    body["input"] = more.into();
    body
}

/// Makes the first response and goes on from it, and returns what the provider was asked at the end.
async fn run(
    gateway: &Gateway,
    upstream: &Upstream,
    continued: Continued,
    mut first: Value,
) -> (Value, Value) {
    if continued == InConversation {
        first["conversation"] = gateway.post("/v1/conversations", &json!({})).await.body["id"].clone();
    }
    if continued == Unstored || continued == OnTheConnection {
        first["store"] = false.into();
    }
    if continued == Unstored {
        first["include"] = json!(["reasoning.encrypted_content"]);
    }
    let response = if continued == OnTheConnection {
        let mut socket = WebSocket::connect(gateway).await;
        let response = socket.turn(first.clone()).await.end;
        upstream.text("So.");
        socket.response(next(&first, continued, &response), "completed").await;
        response
    } else {
        let response = gateway.stream(first.clone()).await.response;
        upstream.text("So.");
        gateway.create(next(&first, continued, &response)).await;
        response
    };
    (response, upstream.last())
}

#[tokio::test]
async fn a_call_goes_back_under_the_id_of_the_provider() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let openai = builder.spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let open_responses = builder.spawn().await.with_header("antwort-dialect", "open_responses");
    for shown in SHOWN {
        for continued in CONTINUED {
            // A client that replays a call without its result asks for it to be made.
            if shown == Shown::Hidden && matches!(continued, ByReplay | Unstored) {
                continue;
            }
            // The header is one of HTTP.
            if shown == Shown::Extension && continued == OnTheConnection {
                continue;
            }
            let gateway = if shown == Shown::Extension { &open_responses } else { &openai };
            for id in ids() {
                let case = format!("{shown:?} {continued:?} {id}");
                upstream.reply(calling(&id, tool(shown)));
                let is_ours = tool(shown) == "noop";
                if is_ours {
                    upstream.text("Well.");
                }
                let before = upstream.requests().len();
                let (response, asked) = run(gateway, &upstream, continued, ask(shown)).await;
                let wanted = (vec![&*id], vec![&*id]);
                if is_ours {
                    assert_eq!(call_ids(&upstream.requests()[before + 1].body), wanted, "{case}");
                }
                assert_eq!(call_ids(&asked), wanted, "{case}: {response:#}");
                let shown = response.to_string();
                assert!(id.len() <= 64 || !shown.contains(&id), "{case}: clients take no such id: {shown}");
            }
        }
    }
}

/// The rule of Mistral's servers holds for every request, of a client that carries nothing, too.
#[tokio::test]
async fn a_server_that_takes_nine_letters_and_digits_gets_no_others() {
    let upstream = Upstream::spawn().await;
    upstream.take_short_ids_only();
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    for id in [Some("D681PevKs"), None] {
        for carried in [true, false] {
            match id {
                Some(id) => upstream.reply(calling(id, "noop")),
                None => upstream.reply(calls(&[("", "noop")])),
            };
            upstream.text("Well.");
            let mut first = ask(Shown::McpCall);
            first["store"] = false.into();
            if carried {
                first["include"] = json!(["reasoning.encrypted_content"]);
            }
            let response = gateway.create(first.clone()).await;
            let kinds: Vec<_> =
                response["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
            let all = ["reasoning", "mcp_call", "message"];
            let wanted = if carried && id.is_some() { &all[..] } else { &all[1..] };
            assert_eq!(kinds, wanted, "an id alone is no reason for an item");
            upstream.text("So.");
            gateway.create(next(&first, Unstored, &response)).await;
            let asked = upstream.last();
            let (calls, results) = call_ids(&asked);
            assert_eq!(calls, results);
            assert!(!carried || id.is_none_or(|id| calls == [id]), "{calls:?}");
        }
    }
}

/// Of a client that comes from another server, which made the calls.
#[tokio::test]
async fn mistral_gets_no_id_of_another_server() {
    let upstream = Upstream::spawn().await;
    upstream.take_short_ids_only();
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| provider.preset = Preset::Mistral)
        .spawn()
        .await;
    let mut input = vec![json!({"role": "user", "content": "Go."})];
    for id in ["call_abc", "D681PevKs"] {
        input.push(json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}));
        input.push(json!({"type": "function_call_output", "call_id": id, "output": "ok"}));
    }
    input.push(json!({"role": "user", "content": "And?"}));
    gateway.create(json!({"model": "test-model", "input": input})).await;
    let asked = upstream.last();
    let (calls, results) = call_ids(&asked);
    assert_eq!(calls, results);
    assert!(calls.len() == 2 && calls[0].len() == 9 && calls[1] == "D681PevKs", "{calls:?}");
}

/// Some servers count anew in each answer.
#[tokio::test]
async fn an_id_that_comes_twice_goes_back_twice() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    for continued in CONTINUED {
        // Two turns of one run, the second of which the client answers.
        upstream.reply(calls(&[("0", "noop"), ("1", "echo")])).reply(calls(&[("0", "noop"), ("1", "f")]));
        let (response, asked) = run(&gateway, &upstream, continued, ask(Shown::McpCall)).await;
        let wanted = vec!["0", "1", "0", "1"];
        assert_eq!(call_ids(&asked), (wanted.clone(), wanted), "{continued:?}: {response:#}");
        // Calls of one answer, which clients must be able to tell apart.
        upstream.reply(calls(&[("0", "f"), ("0", "f")]));
        let (response, asked) = run(&gateway, &upstream, continued, ask(Shown::Function)).await;
        let output = response["output"].as_array().unwrap();
        let seen: Vec<_> = output.iter().filter_map(|item| item["call_id"].as_str()).collect();
        assert!(seen.len() == 2 && seen[0] != seen[1], "{response:#}");
        assert_eq!(call_ids(&asked), (vec!["0", "0"], vec!["0", "0"]), "{continued:?}: {response:#}");
    }
}

#[tokio::test]
async fn a_call_that_a_person_allows_or_not_keeps_its_id() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let allow = |settings: &mut antwort::config::Settings| settings.egress.allow = vec!["127.0.0.1".into()];
    let gateway = Gateway::with_upstream(&upstream).set(allow).spawn().await;
    let tools = json!([{"type": "mcp", "server_label": "s", "server_url": server.url()}]);
    for id in ids() {
        for approve in [true, false] {
            for continued in [ById, InConversation, Unstored] {
                let case = format!("{id} {approve} {continued:?}");
                let made = json!({"index": 0, "id": id, "type": "function",
                    "function": {"name": "echo", "arguments": "{\"text\":\"hi\"}"}});
                let steps = vec![chunk(json!({"tool_calls": [made]})), finish("tool_calls"), done()];
                upstream.reply(Reply::Stream(steps));
                let mut body = json!({"model": "test-model", "input": [{"role": "user", "content": "Go."}],
                    "tools": tools});
                match continued {
                    InConversation => {
                        let made = gateway.post("/v1/conversations", &json!({})).await;
                        body["conversation"] = made.body["id"].clone();
                    }
                    Unstored => body["include"] = json!(["reasoning.encrypted_content"]),
                    _ => {}
                }
                let asked = gateway.stream(body.clone()).await.response;
                let output = asked["output"].as_array().unwrap();
                let request = output.iter().find(|item| item["type"] == "mcp_approval_request").unwrap();
                let answer = json!({"type": "mcp_approval_response", "approval_request_id": request["id"],
                    "approve": approve});
                let mut told = next(&body, continued, &asked);
                *told["input"].as_array_mut().unwrap().last_mut().unwrap() = answer;
                upstream.text("Well.");
                let response = gateway.create(told.clone()).await;
                let wanted = (vec![&*id], vec![&*id]);
                assert_eq!(call_ids(&upstream.last()), wanted, "{case}: {response:#}");
                upstream.text("So.");
                gateway.create(next(&told, continued, &response)).await;
                assert_eq!(call_ids(&upstream.last()), wanted, "{case}: {response:#}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_is_refused_is_told_under_its_id() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    for id in ids() {
        upstream.reply(calling(&id, "no_such_tool")).text("Well.");
        gateway.create(ask(Shown::McpCall)).await;
        assert_eq!(call_ids(&upstream.last()), (vec![&*id], vec![&*id]));
    }
}

/// An id is sent when the call has begun, without its name.
#[tokio::test]
async fn an_id_that_comes_late_is_kept() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    for shown in [Shown::McpCall, Shown::Hidden, Shown::Function] {
        for continued in [ById, InConversation, OnTheConnection] {
            let begun =
                json!({"index": 0, "type": "function", "function": {"name": tool(shown), "arguments": ""}});
            let late = json!({"index": 0, "id": "D681PevKs", "function": {"arguments": "{}"}});
            upstream.reply(Reply::Stream(vec![
                chunk(json!({"tool_calls": [begun]})),
                chunk(json!({"tool_calls": [late]})),
                finish("tool_calls"),
                done(),
            ]));
            if tool(shown) == "noop" {
                upstream.text("Well.");
            }
            let (response, asked) = run(&gateway, &upstream, continued, ask(shown)).await;
            let wanted = (vec!["D681PevKs"], vec!["D681PevKs"]);
            assert_eq!(call_ids(&asked), wanted, "{shown:?} {continued:?}: {response:#}");
        }
    }
}

#[tokio::test]
async fn another_provider_gets_an_id_that_all_take() {
    let upstream = Upstream::spawn().await;
    let with_other = |settings: &mut antwort::config::Settings| {
        let mut other = ProviderSettings::new(Preset::Generic, &upstream.url);
        other.prefix = Some("other".into());
        settings.providers.insert("other".into(), other);
    };
    let (builder, _) = Gateway::with_upstream(&upstream).set(with_other).probe();
    let gateway = builder.spawn().await;
    for id in ids() {
        for continued in [ById, Unstored] {
            upstream.reply(calling(&id, "noop")).text("Well.");
            let mut first = ask(Shown::McpCall);
            first["include"] = json!(["reasoning.encrypted_content"]);
            let response = gateway.create(first.clone()).await;
            let mut next = next(&first, continued, &response);
            next["model"] = "other/test-model".into();
            gateway.create(next).await;
            let asked = upstream.last();
            let (calls, results) = call_ids(&asked);
            assert!(calls.len() == 1 && calls[0] != id && calls[0].len() == 9, "{calls:?}");
            assert_eq!(calls, results);
        }
    }
}
