//! Lists of tools: all their pages, none of their faults.

use super::server::{Seen, Server};
use super::*;
use crate::connection::RemoteHints;

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// Has these tools, whatever it is asked.
async fn having(list: Value) -> Arc<dyn Connection> {
    let server = Server::calling(move |seen: Seen| {
        let response = seen.ok(&list);
        async move { response }
    })
    .await;
    connect(&server.url).await
}

#[tokio::test]
async fn a_bad_tool_is_left_out_alone() {
    let connection = having(json!({ "tools": [
        tool("a"),
        { "name": "no_schema" },
        { "name": "odd_schema", "inputSchema": true },
        { "inputSchema": {} },
        { "name": "text_schema", "inputSchema": { "type": "string" } },
        5,
    ] }))
    .await;

    let tools = connection.list_tools(256, None).await.unwrap();

    let names: Vec<_> = tools.tools.iter().map(|tool| tool.listed.name.as_str()).collect();
    assert_eq!(names, ["a", "text_schema"]);
    let unreadable: Vec<_> = tools.unreadable.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(unreadable, ["no_schema", "odd_schema", "", ""]);
    assert!(tools.unreadable[0].1.contains("inputSchema"), "{}", tools.unreadable[0].1);
}

#[tokio::test]
async fn a_tool_is_as_it_was_described() {
    let connection = having(json!({ "ttlMs": 1500, "tools": [{
        "name": "w", "description": "Writes.",
        "inputSchema": { "type": "object", "properties": { "z": {}, "a": {} } },
        "outputSchema": { "type": "object" },
        "annotations": { "title": "Write", "readOnlyHint": false, "destructiveHint": "yes", "idempotentHint": true },
    }] }))
    .await;

    let tools = connection.list_tools(256, None).await.unwrap();

    assert_eq!(tools.ttl, Some(Duration::from_millis(1500)));
    let tool = &tools.tools[0];
    assert_eq!(tool.title.as_deref(), Some("Write"));
    assert_eq!(tool.listed.description.as_deref(), Some("Writes."));
    let hints = RemoteHints { read_only: Some(false), idempotent: Some(true), ..RemoteHints::default() };
    assert_eq!(tool.hints, hints);
    assert_eq!(tool.listed.input_schema.get(), r#"{"type":"object","properties":{"z":{},"a":{}}}"#);
    assert_eq!(tool.output_schema.as_ref().unwrap().get(), r#"{"type":"object"}"#);
    assert!(tool.listed.annotations.is_some());
}

#[tokio::test]
async fn all_pages_are_fetched_anew_each_time() {
    let server = Server::calling(|seen: Seen| async move {
        match seen.body["params"]["cursor"].as_str() {
            None => seen.ok(&json!({ "tools": [tool("a")], "nextCursor": "p2" })),
            Some("p2") => seen.ok(&json!({ "tools": [tool("b"), {}], "nextCursor": "p3" })),
            Some(_) => seen.ok(&json!({ "tools": [tool("c")], "nextCursor": "" })),
        }
    })
    .await;
    let connection = connect(&server.url).await;

    for listed in 1..=2 {
        let tools = connection.list_tools(256, None).await.unwrap();
        let names: Vec<_> = tools.tools.iter().map(|tool| tool.listed.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(tools.unreadable.len(), 1);
        assert_eq!(server.asked("tools/list").len(), 3 * listed);
    }
}

#[tokio::test]
async fn a_list_without_end_ends() {
    let endless = AtomicUsize::new(0);
    let server = Server::calling(move |seen: Seen| {
        let next = format!("p{}", endless.fetch_add(1, Ordering::SeqCst));
        async move { seen.ok(&json!({ "tools": [tool("a")], "nextCursor": next })) }
    })
    .await;
    let connection = connect(&server.url).await;
    assert_eq!(connection.list_tools(256, None).await.unwrap().tools.len(), listing::MAX_PAGES);

    let turning = having(json!({ "tools": [tool("a")], "nextCursor": "same" })).await;
    assert_eq!(turning.list_tools(256, None).await.unwrap().tools.len(), 2);
}

#[tokio::test]
async fn a_list_is_read_as_far_as_it_may_go() {
    let long = "é".repeat(20_000);
    let huge = json!({ "type": "object", "description": long.repeat(3) });
    let mut tools = vec![
        json!({ "name": "wordy", "description": long, "inputSchema": { "type": "object" } }),
        json!({ "name": "huge", "inputSchema": huge }),
    ];
    tools.extend((0..1000).map(|i| json!({ "name": format!("{i}{long}") })));
    let connection = having(json!({ "tools": tools })).await;
    let error = connection.list_tools(256, None).await.unwrap_err();
    assert!(matches!(error, McpError::TooLarge { .. }), "{error}");

    tools.truncate(20);
    tools.extend((0..1000).map(|i| json!({ "name": i.to_string() })));
    let list = having(json!({ "tools": tools })).await.list_tools(256, None).await.unwrap();
    assert_eq!(list.tools.len(), 1);
    assert!(list.tools[0].listed.description.as_ref().unwrap().len() <= 16 * 1024 + 3);
    assert_eq!((list.unreadable[0].0.as_str(), list.unreadable.len()), ("huge", 256));
    assert!(list.unreadable.iter().all(|(name, why)| name.len() + why.len() < 5000));
}

#[tokio::test]
async fn no_page_is_asked_for_beyond_what_is_offered() {
    let server = Server::calling(|seen: Seen| async move {
        let page: Vec<_> = (0..10).map(|i| tool(&format!("t{i}"))).collect();
        let next = format!("{}x", seen.body["params"]["cursor"].as_str().unwrap_or_default());
        seen.ok(&json!({ "tools": page, "nextCursor": next }))
    })
    .await;
    assert_eq!(connect(&server.url).await.list_tools(25, None).await.unwrap().tools.len(), 30);
    assert_eq!(server.asked("tools/list").len(), 3);
}

#[tokio::test]
async fn a_list_that_is_none_cannot_be_read() {
    let connection = having(json!({ "tools": "none" })).await;
    let error = connection.list_tools(256, None).await.unwrap_err();
    assert!(matches!(error, McpError::Malformed(_)), "{error:?}");
}
