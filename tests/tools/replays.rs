//! Clients that continue stored history and send parts of it again: what is equal there counts once, what differs is refused.

use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::mcp_server::before;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::websocket::WebSocket;

/// How a client continues.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    ById,
    InConversation,
    /// On a WebSocket, where nothing is stored.
    OnConnection,
}

/// A client with its connection.
struct Client<'a> {
    way: Way,
    gateway: &'a Gateway,
    socket: WebSocket,
    conversation: Value,
    previous: Value,
}

impl<'a> Client<'a> {
    async fn new(gateway: &'a Gateway, way: Way) -> Self {
        let created = gateway.post("/v1/conversations", &json!({})).await;
        let (socket, conversation) = (WebSocket::connect(gateway).await, created.body["id"].clone());
        Self { way, gateway, socket, conversation, previous: Value::Null }
    }

    fn body(&self, input: Value) -> Value {
        let mut body = json!({"model": "test-model", "input": input, "tools": [
            {"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]});
        match self.way {
            Way::InConversation => body["conversation"] = self.conversation.clone(),
            way => {
                body["store"] = json!(way == Way::ById);
                body["previous_response_id"] = self.previous.clone();
            }
        }
        body
    }

    async fn create(&mut self, input: Value) -> Value {
        let body = self.body(input);
        let response = match self.way {
            Way::OnConnection => self.socket.turn(body).await.end,
            _ => self.gateway.create(body).await,
        };
        assert!(response["id"].is_string(), "{:?}: {response:#}", self.way);
        self.previous = response["id"].clone();
        response
    }

    /// The path of the error. On a connection, the history is gone behind it.
    async fn refuse(&mut self, input: Value) -> Value {
        let body = self.body(input);
        match self.way {
            Way::OnConnection => {
                let end = self.socket.turn(body).await.end;
                assert_eq!(end["error"]["code"], "invalid_value", "{end:#}");
                end["error"]["param"].clone()
            }
            _ => self.gateway.refuse(body, 400, "invalid_value").await["param"].clone(),
        }
    }
}

const WAYS: [Way; 3] = [Way::ById, Way::InConversation, Way::OnConnection];

/// The roles of what the model was sent last.
fn roles(upstream: &Upstream) -> Vec<String> {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

fn calls(arguments: Value) -> Reply {
    Reply::Calls(vec![("f", arguments)])
}

fn output(call: &Value, output: impl Into<Value>) -> Value {
    json!({"type": "function_call_output", "call_id": call["call_id"], "output": output.into()})
}

/// Semantic Kernel sends all calls and outputs of the turn in each round, without ids and statuses, and with arguments that it has
/// written anew; so does Strands in its stateful mode.
#[tokio::test]
async fn every_round_of_calls_may_replay_all_the_rounds_before() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for way in WAYS {
        let mut client = Client::new(&gateway, way).await;
        let mut replayed: Vec<Value> = Vec::new();
        upstream.reply(calls(json!({"round": 0, "at": "ä"})));
        let mut response = client.create(json!("Go")).await;
        for round in 1..4 {
            let call = response["output"][0].clone();
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            replayed.push(json!({"type": "function_call", "call_id": call["call_id"], "name": "f",
                "arguments": serde_json::to_string_pretty(&arguments).unwrap()}));
            replayed.push(output(&call, format!("output {round}")));
            match round {
                3 => upstream.text("Done."),
                _ => upstream.reply(calls(json!({"round": round}))),
            };
            response = client.create(json!(replayed)).await;
            let expected = [&["user"][..], &["assistant", "tool"].repeat(round)].concat();
            assert_eq!(roles(&upstream), expected, "{way:?}");
        }
        assert_eq!(text_of(&response), "Done.", "{way:?}");
        // What was dropped is not kept a second time.
        if way == Way::InConversation {
            let path = format!("/v1/conversations/{}/items?limit=100", client.conversation.as_str().unwrap());
            assert_eq!(gateway.get(&path).await.body["data"].as_array().unwrap().len(), 8);
        }
    }
}

#[tokio::test]
async fn an_output_that_differs_is_refused_with_its_path_and_the_right_one_goes_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for way in WAYS {
        for (case, path) in
            [("arguments", "input[0].arguments"), ("output", "input[2].output"), ("open", "input[4].call_id")]
        {
            let mut client = Client::new(&gateway, way).await;
            upstream.reply(calls(json!({"n": 1}))).reply(calls(json!({"n": 2})));
            let first = client.create(json!("Go")).await["output"][0].clone();
            let second = client.create(json!([output(&first, "one")])).await["output"][0].clone();
            let said = json!({"role": "user", "content": "And?"});
            let mut input = json!([first, said, output(&first, "one"), output(&second, "two")]);
            let right = input.clone();
            match case {
                "arguments" => input[0]["arguments"] = json!("{\"n\":3}"),
                "output" => input[2]["output"] = json!("another"),
                // Dropped items before it do not move its path.
                _ => input.as_array_mut().unwrap().push(output(&second, "three")),
            }
            assert_eq!(client.refuse(input).await, path, "{way:?}");
            if way != Way::OnConnection {
                upstream.text("Done.");
                client.create(right).await;
                assert_eq!(roles(&upstream).len(), 6, "{way:?}");
            }
        }
    }
}

#[tokio::test]
async fn items_with_our_ids_count_once_as_they_are_and_as_references() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for way in WAYS {
        for as_reference in [false, true] {
            let mut client = Client::new(&gateway, way).await;
            let custom = Reply::Calls(vec![("c", json!({"input": "ls"}))]);
            upstream.text("Hello.").reply(custom).text("Done.");
            let message = client.create(json!("Hi")).await["output"][0].clone();
            let call = client.create(json!("List")).await["output"][0].clone();
            assert_eq!(call["type"], "custom_tool_call");
            let replayed = |item: &Value| match as_reference {
                true => json!({"type": "item_reference", "id": item["id"]}),
                false => item.clone(),
            };
            let output =
                json!({"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "a b"});
            client.create(json!([replayed(&message), replayed(&call), output])).await;
            assert_eq!(roles(&upstream), ["user", "assistant", "user", "assistant", "tool"], "{way:?}");
            // A message without an id is said again.
            upstream.text("Well.");
            client.create(json!([output, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Hi"}])).await;
            assert_eq!(roles(&upstream).len(), 8, "{way:?}");
            let mut changed = message.clone();
            changed["content"][0]["text"] = json!("Goodbye.");
            assert_eq!(
                client.refuse(json!([changed, {"role": "user", "content": "x"}])).await,
                "input[0].content"
            );
        }
    }
}

#[tokio::test]
async fn what_was_compacted_and_is_replayed_stays_compacted() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut client = Client::new(&gateway, Way::ById).await;
    upstream.reply(calls(json!({}))).text("Done.").text("Summary.").text("Yes.");
    let call = client.create(json!("Go")).await["output"][0].clone();
    let done = client.create(json!([output(&call, "one")])).await["output"][0].clone();
    let compaction = client.create(json!([{"type": "compaction_trigger"}])).await["output"][0].clone();
    let input = json!([call, output(&call, "one"), done, compaction, {"role": "user", "content": "Sure?"}]);
    client.create(input).await;
    assert_eq!(
        roles(&upstream),
        ["user", "user", "user"],
        "the message that is kept, the summary, the question"
    );
}

#[tokio::test]
async fn a_deleted_item_of_a_conversation_is_new_again() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut client = Client::new(&gateway, Way::InConversation).await;
    upstream.text("Hello.").text("Yes.");
    let message = client.create(json!("Hi")).await["output"][0].clone();
    let (conversation, id) = (client.conversation.as_str().unwrap(), message["id"].as_str().unwrap());
    assert_eq!(gateway.delete(&format!("/v1/conversations/{conversation}/items/{id}")).await.status, 200);
    client.create(json!([message, {"role": "user", "content": "Sure?"}])).await;
    assert_eq!(roles(&upstream), ["user", "assistant", "user"]);
}

/// Clients are given less of such a result than the model reads.
#[tokio::test]
async fn a_result_that_is_not_shown_in_full_is_replayed_as_it_was_given() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let part = |text: &str, audience: &str| json!({"type": "text", "text": text, "annotations": {"audience": [audience]}});
    server.returns(
        "echo",
        json!({"content": [part("for the model", "assistant"), part("for the user", "user")]}),
    );
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "x"}))])).text("Done.");
    let tools = json!([{"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "never"}]);
    let first = gateway.create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
    let mut items = first["output"].as_array().unwrap().clone();
    let call = items.iter().position(|item| item["type"] == "mcp_call").unwrap();
    assert!(!items[call]["output"].as_str().unwrap().contains("for the model"), "{first:#}");
    items.push(json!({"role": "user", "content": "Sure?"}));
    upstream.text("Yes.");
    let again = |items: &[Value]| json!({"model": "test-model", "input": items, "previous_response_id": first["id"], "tools": tools});
    gateway.create(again(&items)).await;
    let told = upstream.last()["messages"].to_string();
    assert_eq!(told.matches("for the model").count(), 1, "{told}");
    items[call]["output"] = json!("something else");
    let error = gateway.refuse(again(&items), 400, "invalid_value").await;
    assert_eq!(error["param"], format!("input[{call}].output"));
}
