//! Approvals that are asked for at one replica and answered at the other.

use serde_json::{Value, json};

use super::{Fleet, becomes, id_of, item, kinds};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Upstream};

fn ask(server: &McpServer) -> Value {
    // Without a word about approvals, each call needs one.
    let tool = json!({"type": "mcp", "server_label": "s", "server_url": server.url()});
    json!({"model": "test-model", "input": "Go.", "tools": [tool]})
}

/// A response that waits for the approval of `echo {"text": "hi"}`.
async fn asked(gateway: &Gateway, upstream: &Upstream, server: &McpServer) -> Value {
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    let response = gateway.create(ask(server)).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_approval_request"]);
    response
}

fn answer(response: &Value, server: &McpServer, approve: bool) -> Value {
    let request = item(response, "mcp_approval_request");
    let mut body = ask(server);
    body["previous_response_id"] = response["id"].clone();
    body["input"] = json!([{"type": "mcp_approval_response", "approval_request_id": request["id"],
        "approve": approve}]);
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_approved_at_the_other_is_made_once() {
    let (fleet, server) = (Fleet::new().await, McpServer::spawn().await);
    let replicas = fleet.two().await;
    for streamed in [false, true] {
        let [one, two] = if streamed { [&replicas[1], &replicas[0]] } else { [&replicas[0], &replicas[1]] };
        let response = asked(one, &fleet.upstream, &server).await;
        let before = server.count_calls("echo");
        fleet.upstream.text("Done.");
        let approved = answer(&response, &server, true);
        let done = if streamed { two.stream(approved).await.response } else { two.create(approved).await };
        assert_eq!(kinds(&done), ["mcp_call", "message"], "{done:#}");
        let made = item(&done, "mcp_call");
        assert_eq!(made["approval_request_id"], item(&response, "mcp_approval_request")["id"]);
        assert_eq!((&made["output"], server.count_calls("echo")), (&json!("hi"), before + 1));
        for replica in [one, two] {
            replica.refuse(answer(&response, &server, true), 400, "approval_not_open").await;
        }
        // The chain goes on where the approval was asked for.
        let mut next = ask(&server);
        next["previous_response_id"] = done["id"].clone();
        fleet.upstream.text("More.");
        assert_eq!(kinds(&one.create(next).await), ["message"]);
        assert_eq!(server.count_calls("echo"), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_denied_at_the_other_is_not_made() {
    let (fleet, server) = (Fleet::new().await, McpServer::spawn().await);
    let [one, two] = fleet.two().await;
    let response = asked(&one, &fleet.upstream, &server).await;
    let mut denied = answer(&response, &server, false);
    denied["input"][0]["reason"] = json!("too risky");
    fleet.upstream.text("Then not.");
    assert_eq!(kinds(&two.create(denied).await), ["message"]);
    let told = fleet.upstream.last()["messages"].to_string();
    assert!(told.contains("did not allow this call") && told.contains("too risky"), "{told}");
    for replica in [&one, &two] {
        replica.refuse(answer(&response, &server, true), 400, "approval_not_open").await;
    }
    assert_eq!(server.count_calls("echo"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_approvals_at_once_one_counts() {
    let (fleet, server) = (Fleet::new().await, McpServer::spawn().await);
    let [one, two] = fleet.two().await;
    for round in 1..=4 {
        let response = asked(&one, &fleet.upstream, &server).await;
        let approval = answer(&response, &server, true);
        let (first, second) =
            tokio::join!(one.post("/v1/responses", &approval), two.post("/v1/responses", &approval));
        let (made, refused) = if first.status == 200 { (first, second) } else { (second, first) };
        assert_eq!((made.status, refused.status), (200, 400), "round {round}: {refused:?}");
        assert_eq!(refused.body["error"]["code"], "approval_not_open");
        assert_eq!((kinds(&made.body), server.count_calls("echo")), (vec!["mcp_call", "message"], round));
    }
}

/// What was denied first is not made; a denial that comes later changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_and_a_denial_at_once_make_the_call_or_do_not() {
    let (fleet, server) = (Fleet::new().await, McpServer::spawn().await);
    let [one, two] = fleet.two().await;
    let mut made = 0;
    for round in 0..6 {
        let response = asked(&one, &fleet.upstream, &server).await;
        let [approval, denial] = [true, false].map(|approve| answer(&response, &server, approve));
        let (approved, denied) =
            tokio::join!(two.post("/v1/responses", &approval), one.post("/v1/responses", &denial));
        for answer in [&approved, &denied].into_iter().filter(|answer| answer.status != 200) {
            assert_eq!(answer.body["error"]["code"], "approval_not_open", "round {round}: {answer:?}");
        }
        assert!(approved.status == 200 || denied.status == 200, "round {round}: somebody is first");
        made += usize::from(approved.status == 200);
        assert_eq!(server.count_calls("echo"), made, "round {round}");
    }
}

/// The run pauses at a worker, and goes on at the one that was asked for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_response_asks_and_another_goes_on_with_the_answer() {
    let (fleet, server) = (Fleet::new().await, McpServer::spawn().await);
    let [front, back] = fleet.front_and_back().await;
    fleet.upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    let in_background = |mut body: Value| {
        body["background"] = json!(true);
        body
    };
    let id = id_of(&front.create(in_background(ask(&server))).await);
    let response = becomes(&front, &id, "completed").await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_approval_request"]);
    fleet.upstream.text("Done.");
    let queued = front.create(in_background(answer(&response, &server, true))).await;
    let done = becomes(&back, &id_of(&queued), "completed").await;
    assert_eq!((kinds(&done), server.count_calls("echo")), (vec!["mcp_call", "message"], 1), "{done:#}");
}
