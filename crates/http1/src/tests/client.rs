//! Requests and responses over sockets.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::server::{OPTIONS, Server, answered, body, client, exchange, post};
use crate::{Http1Client, Http1Error, Http1Options};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_request_has_its_headers_and_its_body() {
    let server = Server::start().await;
    let mut headers = HeaderMap::new();
    headers.insert("x-key", HeaderValue::from_static("secret"));
    let url = format!("http://us%40er:pass@{}/v1/chat?q=1", server.address());
    let client = client(&url, &headers, OPTIONS);
    let (head, answered) = tokio::join!(async { server.accept().await.answer(OK).await }, exchange(&client));
    assert_eq!(answered.unwrap(), "ok");
    let address = server.address();
    // us@er:pass
    let expected = format!(
        "POST /v1/chat?q=1 HTTP/1.1\r\nhost: {address}\r\nauthorization: Basic dXNAZXI6cGFzcw==\r\nx-key: secret\r\n\
         x-request-id: req_1\r\ncontent-length: 2\r\n\r\n"
    );
    assert_eq!(head, expected);
}

#[tokio::test]
async fn configured_headers_replace_those_of_the_url_and_cannot_frame_the_message() {
    let server = Server::start().await;
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("model.internal"));
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer key"));
    let client = client(&format!("http://user:pass@{}/", server.address()), &headers, OPTIONS);
    let (head, _) = answered(&server, &client, OK).await;
    assert!(
        head.contains("\r\nhost: model.internal\r\n") && head.contains("\r\nauthorization: Bearer key\r\n"),
        "{head}"
    );
    assert_eq!((head.matches("host:").count(), head.matches("authorization:").count()), (1, 1));
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::EXPECT] {
        assert!(!Http1Client::allows_header(&name), "{name}");
    }
}

#[tokio::test]
async fn an_ipv6_address_is_reached() {
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else {
        // The machine has no IPv6: then the URL is at least understood.
        client("http://[::1]:9/", &HeaderMap::new(), OPTIONS);
        return;
    };
    drop(listener);
    let server = Server::on("[::1]:0").await;
    let client = server.client();
    let (head, answered) = tokio::join!(async { server.accept().await.answer(OK).await }, exchange(&client));
    assert_eq!(answered.unwrap(), "ok");
    assert!(head.contains(&format!("\r\nhost: {}\r\n", server.address())), "{head}");
}

#[tokio::test]
async fn a_connection_is_reused_after_each_kind_of_body() {
    let server = Server::start().await;
    let client = server.client();
    let answers = [
        OK,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        "HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\nok",
    ];
    let serving = async {
        let mut peer = server.accept().await;
        for answer in answers {
            peer.answer(answer).await;
        }
    };
    let asking = async {
        for _ in answers {
            assert_eq!(exchange(&client).await.unwrap(), "ok");
        }
    };
    tokio::join!(serving, asking);
    assert!(server.is_left_alone().await);
}

#[tokio::test]
async fn a_connection_that_cannot_be_trusted_is_closed() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        // More than the response.
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nx",
    ] {
        let server = Server::start().await;
        let client = server.client();
        let serving = async {
            let mut peer = server.accept().await;
            peer.answer(answer).await;
            assert!(peer.is_closed().await, "{answer:?}");
            server.accept().await.answer(OK).await;
        };
        let asking = async {
            assert_eq!(exchange(&client).await.unwrap(), "ok", "{answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(exchange(&client).await.unwrap(), "ok", "{answer:?}");
        };
        tokio::join!(serving, asking);
    }
}

#[tokio::test]
async fn what_is_said_on_an_idle_connection_is_no_response_to_the_next_request() {
    let server = Server::start().await;
    let client = server.client();
    let serving = async {
        let mut idle = server.accept().await;
        idle.answer(OK).await;
        idle.send("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison").await;
        assert!(idle.is_closed().await);
        server.accept().await.answer(OK).await;
    };
    let asking = async {
        assert_eq!(exchange(&client).await.unwrap(), "ok");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(exchange(&client).await.unwrap(), "ok");
    };
    tokio::join!(serving, asking);
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_the_connection() {
    let server = Server::start().await;
    let client = server.client();
    let (_, body) = answered(&server, &client, "HTTP/1.1 200 OK\r\n\r\nall of it").await;
    assert_eq!(body.unwrap(), "all of it");
}

#[tokio::test]
async fn a_body_that_is_cut_is_an_error() {
    for start in [
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-le",
    ] {
        let server = Server::start().await;
        let client = server.client();
        let (_, body) = answered(&server, &client, start).await;
        assert!(matches!(body, Err(Http1Error::Cut(_))), "{start:?}: {body:?}");
    }
}

#[tokio::test]
async fn an_invalid_body_is_an_error_and_ends_the_connection() {
    let server = Server::start().await;
    let client = server.client();
    let serving = async {
        let mut peer = server.accept().await;
        peer.answer("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        peer.send("what?\r\n").await;
        peer.is_closed().await
    };
    let asking = async {
        let mut response = post(&client).await.unwrap();
        let mut results = Vec::new();
        for _ in 0..3 {
            results.push(std::future::poll_fn(|cx| response.poll_chunk(cx)).await);
        }
        results
    };
    let (is_closed, results) = tokio::join!(serving, asking);
    assert!(is_closed);
    assert!(
        matches!(&results[..], [Ok(Some(first)), Err(Http1Error::Invalid(_)), Err(_)] if first == "ok"),
        "{results:?}"
    );
}

#[tokio::test]
async fn a_reused_connection_that_ends_without_a_byte_is_stale_and_a_new_one_is_not() {
    for (start, is_stale) in [("", true), ("HTTP/1.1 ", false), ("HTTP/1.1 100 C\r\n\r\n", false)] {
        let server = Server::start().await;
        let client = server.client();
        let serving = async {
            let mut peer = server.accept().await;
            peer.answer(OK).await;
            peer.answer(start).await;
            drop(peer);
            server.accept().await.answer(start).await;
        };
        let asking = async {
            assert_eq!(exchange(&client).await.unwrap(), "ok");
            [exchange(&client).await.unwrap_err(), exchange(&client).await.unwrap_err()]
        };
        let ((), [reused, new]) = tokio::join!(serving, asking);
        assert_eq!((reused.is_stale(), new.is_stale()), (is_stale, false), "{start:?}: {reused:?}");
        assert!(server.is_left_alone().await, "nothing is sent again here");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_it_was_idle_is_not_used() {
    let server = Server::start().await;
    let client = server.client();
    for _ in 0..2 {
        assert_eq!(answered(&server, &client, OK).await.1.unwrap(), "ok");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_response_that_is_dropped_closes_its_connection() {
    let server = Server::start().await;
    let client = server.client();
    let serving = async {
        let mut peer = server.accept().await;
        peer.answer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok").await;
        peer.is_closed().await
    };
    let (is_closed, ()) = tokio::join!(serving, async { drop(post(&client).await.unwrap()) });
    assert!(is_closed);
}

#[tokio::test]
async fn an_answer_is_heard_before_the_request_is_read() {
    for closes in [false, true] {
        let server = Server::start().await;
        let client = server.client();
        let serving = async {
            let mut peer = server.accept().await;
            let mut start = [0; 64];
            peer.stream().read_exact(&mut start).await.unwrap();
            peer.send("HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge").await;
            if closes {
                peer.stream().shutdown().await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            peer
        };
        let asking = async {
            let large = vec![b'x'; 32 * 1024 * 1024];
            let response = client.post(&[], large.into()).await.unwrap();
            assert_eq!(response.status(), 413);
            assert_eq!(body(response).await.unwrap(), "large");
        };
        let (peer, ()) = tokio::join!(serving, asking);
        drop(peer);
        assert!(server.is_left_alone().await);
        assert_eq!(client.idle(), 0);
    }
}

/// Some servers begin a response when they have read the head of a request.
#[tokio::test]
async fn a_request_is_sent_to_its_end_though_the_response_has_begun() {
    let server = Server::start().await;
    let client = server.client();
    let large = 32 * 1024 * 1024;
    let serving = async {
        let mut peer = server.accept().await;
        peer.stream().read_exact(&mut [0; 64]).await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await;
        peer.stream().read_exact(&mut vec![0; large]).await.unwrap();
        peer.send("ok").await;
        peer
    };
    let asking = async { body(client.post(&[], vec![b'x'; large].into()).await.unwrap()).await };
    let (_peer, body) =
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(serving, asking) })
            .await
            .expect("the server got all of the request");
    assert_eq!(body.unwrap(), "ok");
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_read() {
    let server = Server::start().await;
    let client = server.client();
    let serving = async {
        let mut peer = server.accept().await;
        peer.request().await;
        for byte in OK.chars() {
            peer.send(&byte.to_string()).await;
            tokio::task::yield_now().await;
        }
    };
    let ((), answered) = tokio::join!(serving, exchange(&client));
    assert_eq!(answered.unwrap(), "ok");
}

#[tokio::test]
async fn no_more_idle_connections_are_kept_than_configured_nor_longer() {
    let server = Server::start().await;
    let client = server.client_with(Http1Options { idle_timeout: Duration::from_millis(600), ..OPTIONS });
    let serving = async {
        let mut peers = Vec::new();
        for _ in 0..3 {
            let mut peer = server.accept().await;
            peer.request().await;
            peers.push(peer);
        }
        for peer in &mut peers {
            peer.send(OK).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        peers
    };
    let asking = futures_util::future::join_all((0..3).map(|_| exchange(&client)));
    let (mut peers, answered) = tokio::join!(serving, asking);
    assert!(answered.into_iter().all(|answer| answer.unwrap() == "ok"));
    assert_eq!(client.idle(), 2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.idle(), 0);
    for peer in &mut peers {
        assert!(peer.is_closed().await);
    }
}

#[tokio::test]
async fn nobody_who_listens_and_a_handshake_without_end_are_told_apart() {
    let server = Server::start().await;
    let address = server.address();
    let short = Http1Options { connect_timeout: Duration::from_millis(300), ..OPTIONS };
    let silent = client(&format!("https://{address}/"), &HeaderMap::new(), short);
    let (_peer, error) = tokio::join!(server.accept(), post(&silent));
    let error = error.err().unwrap();
    assert!(error.is_connect() && error.is_connect_timeout(), "{error:?}");
    drop(server);
    let refused = client(&format!("http://{address}/"), &HeaderMap::new(), OPTIONS);
    let error = post(&refused).await.err().unwrap();
    assert!(error.is_connect() && !error.is_connect_timeout(), "{error:?}");
}
