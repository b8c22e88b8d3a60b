//! HTTP with SSE.

use axum::response::Response;
use tokio::sync::mpsc::UnboundedSender;

use super::server::{Seen, Server, event, events, initialized, status};
use super::*;

/// Speaks HTTP with SSE at `/mcp`, and nothing else; messages go to `inbox`.
pub(super) async fn old<F>(inbox: &'static str, behaviour: F) -> Arc<Server>
where
    F: Fn(&Seen, &UnboundedSender<String>) -> Response + Send + Sync + 'static,
{
    let stream: Mutex<Option<UnboundedSender<String>>> = Mutex::default();
    Server::doing(move |seen: Seen| {
        let mut stream = stream.lock();
        let response = match (seen.verb.as_str(), seen.path.as_str(), stream.as_ref()) {
            ("GET", "/mcp", _) => {
                let (writer, response) = events();
                writer.send(format!("event: endpoint\ndata: {inbox}\n\n")).unwrap();
                *stream = Some(writer);
                response
            }
            ("POST", "/inbox", Some(writer)) if seen.method() == "initialize" => {
                let result = seen.result(&initialized(&json!("2024-11-05")));
                writer.send(event(&result)).unwrap();
                status(202)
            }
            ("POST", "/inbox", Some(writer)) => behaviour(&seen, writer),
            _ => status(405),
        };
        async move { response }
    })
    .await
}

fn as_asked(seen: &Seen, writer: &UnboundedSender<String>) -> Response {
    match seen.body["params"]["name"].as_str() {
        Some("refused") => return status(503),
        Some("lost") => return status(404),
        Some("long") => writer.send(event(&seen.result(&text(&"x".repeat(3 * MIB))))).unwrap(),
        Some(name) => writer.send(event(&seen.result(&text(name)))).unwrap(),
        None => {}
    }
    status(202)
}

async fn connect_old(server: &Server) -> Arc<dyn Connection> {
    client().connect(&at(&server.url, HttpKind::Sse), Token::named("t0")).await.unwrap()
}

#[tokio::test]
async fn answers_arrive_on_the_stream_and_credentials_go_along() {
    let server = old("/inbox?session=7", as_asked).await;
    let connection = connect_old(&server).await;

    assert_eq!(says(&call_tool(&*connection, "hello").await.unwrap()), "hello");

    assert_eq!(connection.server().transport, "sse");
    assert_eq!(connection.server().protocol, "2024-11-05");
    assert!(server.seen().iter().all(|seen| seen.header("authorization") == Some("Bearer t0")));
}

#[tokio::test]
async fn a_message_that_is_not_taken_fails_its_call() {
    let server = old("/inbox", as_asked).await;
    let connection = connect_old(&server).await;

    let error = call_tool(&*connection, "refused").await.unwrap_err();
    assert!(matches!(error, McpError::Http { status: 503, .. }), "{error:?}");
    let error = call_tool(&*connection, "lost").await.unwrap_err();
    assert!(matches!(error, McpError::SessionLost), "{error:?}");
    assert_eq!(says(&call_tool(&*connection, "hello").await.unwrap()), "hello");
}

#[tokio::test]
async fn an_answer_that_is_too_long_leaves_the_stream_usable() {
    let server = old("/inbox", as_asked).await;
    let connection = connect_old(&server).await;

    let error = call_tool(&*connection, "long").await.unwrap_err();
    assert!(matches!(error, McpError::TooLarge { limit: MIB }), "{error:?}");
    assert_eq!(says(&call_tool(&*connection, "hello").await.unwrap()), "hello");
}

#[tokio::test]
async fn a_stream_that_ends_breaks_what_is_under_way_and_closes() {
    let server = old("/inbox", |seen, writer| {
        if seen.method() == "tools/call" {
            writer.send("event: die\n\n".to_owned()).unwrap();
        }
        status(202)
    })
    .await;
    let connection = connect_old(&server).await;
    assert!(!connection.is_closed());

    // A second stream takes the place of the first, which ends.
    let waiting = call_tool(&*connection, "x");
    let cut = async {
        eventually("the call is there", || server.asked("tools/call").len() == 1).await;
        connect_old(&server).await
    };
    let (result, _other) = tokio::join!(waiting, cut);

    let error = result.unwrap_err();
    assert!(matches!(error, McpError::Broken(_)), "{error:?}");
    assert!(connection.is_closed());
    let error = call_tool(&*connection, "x").await.unwrap_err();
    assert!(error.was_not_processed(), "{error:?}");
}

#[tokio::test]
async fn credentials_never_go_to_an_inbox_elsewhere() {
    let thief = Server::doing(|_seen: Seen| async { status(202) }).await;
    let elsewhere: &'static str = Box::leak(thief.url.clone().into_boxed_str());
    for inbox in [elsewhere, "http://169.254.169.254/latest", "//127.0.0.2/inbox", "file:///etc/passwd"] {
        let server = old(inbox, as_asked).await;
        let endpoint = at(&server.url, HttpKind::Sse);
        let error = client().connect(&endpoint, Token::named("t0")).await.err().unwrap();
        assert!(matches!(error, McpError::Connect(_)), "{error:?}");
    }
    assert_eq!(thief.seen().len(), 0);
}
