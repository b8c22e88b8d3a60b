//! Turns with calls for the gateway and for the client, begun at one replica and continued at the other.

use serde_json::{Value, json};

use super::{Fleet, becomes, id_of, item, kinds};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::Reply;

fn ask(tools: &[Value]) -> Value {
    let function = json!({"type": "function", "name": "ask_user", "parameters": {"type": "object"}});
    let tools = [&[function], tools].concat();
    json!({"model": "test-model", "input": "Go.", "tools": tools})
}

/// The answer to the client's call of this response.
fn output_for(response: &Value) -> Value {
    let call = item(response, "function_call");
    json!({"type": "function_call_output", "call_id": call["call_id"], "output": "yes"})
}

/// What the model was told of its calls, in order.
fn told(fleet: &Fleet) -> Vec<String> {
    let messages = fleet.upstream.last()["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_turn_is_paused_at_one_and_continued_at_the_other() {
    let own = json!({"type": "mcp", "server_label": "antwort"});
    for way in ["json", "stream", "background"] {
        let fleet = Fleet::new().await;
        let ((one, made_by_one), (two, made_by_two)) = (fleet.builder().probe(), fleet.builder().probe());
        let (one, two) = (one.spawn().await, two.spawn().await);
        fleet.upstream.reply(Reply::Calls(vec![
            ("echo", json!({"text": "one"})),
            ("ask_user", json!({})),
            ("noop", json!({})),
        ]));
        let mut body = ask(std::slice::from_ref(&own));
        let paused = match way {
            "json" => one.create(body.clone()).await,
            "stream" => one.stream(body.clone()).await.response,
            _ => {
                body["background"] = json!(true);
                becomes(&two, &id_of(&one.create(body.clone()).await), "requires_action").await
            }
        };
        assert_eq!(paused["status"], "requires_action", "{way}: {paused:#}");
        let made = || ["echo", "noop"].map(|tool| made_by_one.count(tool) + made_by_two.count(tool));
        assert_eq!(made(), [1, 1], "{way}: the gateway's calls do not wait for the client");
        body["previous_response_id"] = paused["id"].clone();
        body["input"] = json!([output_for(&paused)]);
        body["background"] = json!(false);
        fleet.upstream.reply(Reply::Calls(vec![("noop", json!({}))])).text("Done.");
        let done = two.create(body).await;
        assert_eq!((kinds(&done), made()), (vec!["mcp_call", "message"], [1, 2]), "{way}: {done:#}");
        let told = told(&fleet);
        assert_eq!(told.len(), 4, "{way}: {told:?}");
        assert!(
            told[0].contains("one") && told[1] == "yes" && told[2] == "ok" && told[3] == "ok",
            "{told:?}"
        );
    }
}

/// One call of the turn waits for a person, one for the client, and one for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_waits_for_a_person_and_for_the_client_is_continued_at_the_other() {
    for approve in [true, false] {
        let (fleet, server) = (Fleet::new().await, McpServer::spawn().await);
        let [one, two] = fleet.two().await;
        let careful = json!({"type": "mcp", "server_label": "s", "server_url": server.url(),
            "require_approval": {"never": {"read_only": true}}});
        let calls = vec![("echo", json!({"text": "x"})), ("read", json!({})), ("ask_user", json!({}))];
        fleet.upstream.reply(Reply::Calls(calls));
        let mut body = ask(&[careful]);
        let paused = one.create(body.clone()).await;
        let expected = ["mcp_list_tools", "mcp_approval_request", "mcp_call", "function_call"];
        assert_eq!((kinds(&paused), &paused["status"]), (expected.to_vec(), &json!("requires_action")));
        body["previous_response_id"] = paused["id"].clone();
        body["input"] = json!([output_for(&paused)]);
        two.refuse(body.clone(), 400, "approval_response_not_found").await;
        body["input"].as_array_mut().unwrap().push(json!({"type": "mcp_approval_response",
            "approval_request_id": item(&paused, "mcp_approval_request")["id"], "approve": approve}));
        fleet.upstream.text("Done.");
        let done = two.create(body.clone()).await;
        let expected = if approve { vec!["mcp_call", "message"] } else { vec!["message"] };
        assert_eq!(kinds(&done), expected, "{done:#}");
        assert_eq!((server.count_calls("read"), server.count_calls("echo")), (1, usize::from(approve)));
        assert_eq!(told(&fleet).len(), 3);
        body["input"][1]["approve"] = json!(true);
        one.refuse(body, 400, "approval_not_open").await;
    }
}
