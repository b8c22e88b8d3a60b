//! Chains, conversations, keys and approvals whose requests go to different gateways.

use serde_json::{Value, json};

use super::pair::{Over, Pair, ask, becomes, id_of, in_background, words};
use crate::support::gateway::{Gateway, HttpAnswer, JsonBody, frames, text_of};
use crate::support::mcp_server::McpServer;
use crate::support::stream_validator::assert_valid_stream;
use crate::support::upstream::{Reply, Upstream};

/// What the model was asked last.
fn asked(upstream: &Upstream) -> Vec<String> {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn with_key(gateway: &Gateway, key: &str, body: &Value) -> HttpAnswer {
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(body);
    gateway.send(request.header("idempotency-key", key)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_goes_on_at_any_gateway() {
    let pair = Pair::start().await;
    let (mut previous, mut said) = (Value::Null, Vec::new());
    for (turn, gateway) in pair.in_turn().take(6).enumerate() {
        pair.upstream.text(&format!("answer {turn}"));
        let mut body = ask(&format!("question {turn}"));
        body["previous_response_id"] = previous;
        said.push(format!("question {turn}"));
        // Every third is executed in the background.
        let id = match turn % 3 {
            2 => {
                body["background"] = json!(true);
                id_of(&becomes(gateway, &id_of(&gateway.create(body).await), "completed").await)
            }
            1 => id_of(&gateway.stream(body).await.response),
            _ => id_of(&gateway.create(body).await),
        };
        assert_eq!(asked(&pair.upstream), said);
        said.push(format!("answer {turn}"));
        previous = json!(id);
    }
    let path = format!("/v1/responses/{}", previous.as_str().unwrap());
    assert_eq!(pair.second.delete(&path).await.status, 200);
    assert_eq!(pair.first.get(&path).await.status, 404, "deleted is deleted everywhere");
    let mut body = ask("And?");
    body["previous_response_id"] = previous;
    pair.first.refuse(body, 400, "previous_response_not_found").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_on_at_any_gateway_one_run_at_a_time() {
    let pair = Pair::start().await;
    let conversation = id_of(&pair.first.post("/v1/conversations", &json!({})).await.body);
    let turn = |input: &str| {
        let mut body = ask(input);
        body["conversation"] = json!(conversation);
        body
    };
    for (n, gateway) in pair.in_turn().skip(1).take(4).enumerate() {
        pair.upstream.text("Yes.");
        gateway.create(turn(&format!("question {n}"))).await;
        assert_eq!(asked(&pair.upstream).len(), 2 * n + 1);
    }
    pair.upstream.always(words(50));
    let creates = pair.in_turn().take(6).map(|gateway| {
        let body = turn("at once");
        async move { gateway.post("/v1/responses", &body).await }
    });
    let answers = futures_util::future::join_all(creates).await;
    let stored = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(stored >= 1, "{answers:?}");
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!((refused.status, &refused.body["error"]["code"]), (409, &json!("conversation_locked")));
    }
    let path = format!("/v1/conversations/{conversation}/items?order=asc&limit=100");
    let items = pair.second.get(&path).await.body["data"].as_array().unwrap().clone();
    assert_eq!(items.len(), 2 * (4 + stored), "each turn is there, whole, and no other");
    let roles: Vec<_> = items.iter().map(|item| item["role"].as_str().unwrap()).collect();
    assert!(roles.chunks(2).all(|turn| turn == ["user", "assistant"]), "{roles:?}");
    assert_eq!(pair.first.get(&path).await.body["data"].as_array().unwrap(), &items);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_with_one_key_are_one_run_whichever_gateways_they_reach() {
    let pair = Pair::start().await;
    for (key, body) in [("foreground", ask("Hi")), ("background", in_background("Hi"))] {
        let before = pair.upstream.requests().len();
        pair.upstream.reply(words(100));
        let (first, second) =
            tokio::join!(with_key(&pair.first, key, &body), with_key(&pair.second, key, &body));
        assert_eq!((first.status, second.status), (200, 200), "{first:?} {second:?}");
        assert_eq!(first.body["id"], second.body["id"]);
        let ended = becomes(&pair.first, &id_of(&first.body), "completed").await;
        for gateway in [&pair.first, &pair.second] {
            let again = with_key(gateway, key, &body).await;
            assert_eq!((again.status, &again.body), (200, &ended));
            assert!(again.headers.contains_key("idempotent-replayed"));
            let other = with_key(gateway, key, &ask("Another")).await;
            assert_eq!(other.body["error"]["code"], "idempotency_key_reused");
        }
        assert_eq!(pair.upstream.requests().len(), before + 1, "the provider is asked once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_with_a_key_is_the_same_at_both_gateways() {
    let pair = Pair::start().await;
    pair.upstream.reply(words(150));
    let mut body = ask("Hi");
    body["stream"] = json!(true);
    let stream = async |gateway: &Gateway| {
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
        let answer = request.header("idempotency-key", "k").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    };
    let (first, second) = tokio::join!(stream(&pair.first), stream(&pair.second));
    assert_eq!(first, second);
    assert_eq!(assert_valid_stream(&frames(&first)).response["status"], "completed");
    assert_eq!((stream(&pair.first).await, stream(&pair.second).await), (first.clone(), first));
    assert_eq!(pair.upstream.requests().len(), 1);
}

/// A server whose calls a person has to allow.
fn careful(server: &McpServer) -> Value {
    json!([{"type": "mcp", "server_label": "s", "server_url": server.url()}])
}

/// A response of the first gateway that waits for the approval of a call, and the answer to it.
async fn waits_for_approval(pair: &Pair, server: &McpServer, approve: bool) -> Value {
    pair.upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    let mut body = ask("Go.");
    body["tools"] = careful(server);
    let response = pair.first.create(body).await;
    let output = response["output"].as_array().unwrap();
    let request = output.iter().find(|item| item["type"] == "mcp_approval_request").unwrap();
    json!({
        "model": "test-model",
        "tools": careful(server),
        "previous_response_id": response["id"],
        "input": [{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_answered_at_the_other_gateway_and_good_for_one_call() {
    let (pair, server) = (Pair::start().await, McpServer::spawn().await);
    let denied = waits_for_approval(&pair, &server, false).await;
    pair.upstream.text("As you wish.");
    let response = pair.second.create(denied).await;
    assert_eq!(text_of(&response), "As you wish.");
    assert_eq!(server.count_calls("echo"), 0);

    let approved = waits_for_approval(&pair, &server, true).await;
    pair.upstream.text("Done.");
    let (first, second) = tokio::join!(
        pair.first.post("/v1/responses", &approved),
        pair.second.post("/v1/responses", &approved),
    );
    let (made, refused) = if first.status == 200 { (first, second) } else { (second, first) };
    assert_eq!((made.status, text_of(&made.body).as_str()), (200, "Done."), "{made:?}");
    assert_eq!((refused.status, &refused.body["error"]["code"]), (400, &json!("approval_not_open")));
    assert_eq!(server.count_calls("echo"), 1);
    for gateway in [&pair.first, &pair.second] {
        gateway.refuse(approved.clone(), 400, "approval_not_open").await;
    }
}

/// In one turn the model calls a tool of the gateway's and a function of the client's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_turn_is_continued_at_the_other_gateway() {
    let server = McpServer::spawn().await;
    let pair = Pair::with(Over::Postgres, |builder| builder).await;
    let tools = json!([
        {"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "never"},
        {"type": "function", "name": "ask_user", "parameters": {"type": "object"}},
    ]);
    for (background, order) in [(false, ["echo", "ask_user"]), (true, ["ask_user", "echo"])] {
        let calls = order.map(|name| (name, json!({"text": "hi"})));
        pair.upstream.reply(Reply::Calls(calls.to_vec()));
        let body = json!({"model": "test-model", "input": "Go.", "tools": tools, "background": background});
        let id = id_of(&pair.first.create(body).await);
        let paused = becomes(&pair.first, &id, "requires_action").await;
        let output = paused["output"].as_array().unwrap();
        let call_id = &output.iter().find(|item| item["type"] == "function_call").unwrap()["call_id"];
        let answer = |input: Value| json!({"model": "test-model", "previous_response_id": id, "input": input, "tools": tools});
        for gateway in [&pair.first, &pair.second] {
            gateway.refuse(answer(json!("And?")), 400, "tool_output_not_found").await;
        }
        pair.upstream.text("Thanks.");
        let output = json!([{"type": "function_call_output", "call_id": call_id, "output": "yes"}]);
        let other = if background { &pair.first } else { &pair.second };
        assert_eq!(text_of(&other.create(answer(output)).await), "Thanks.");
        let messages = pair.upstream.last()["messages"].as_array().unwrap().clone();
        let told = messages.iter().filter(|message| message["role"] == "tool");
        let mut told: Vec<_> = told.map(|message| message["content"].as_str().unwrap()).collect();
        told.sort_unstable();
        assert_eq!(told, ["hi", "yes"], "both calls of the turn are answered");
    }
    assert_eq!(server.count_calls("echo"), 2, "a resume calls nothing again");
}
