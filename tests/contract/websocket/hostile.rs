//! Clients over WebSocket that send or read what nobody should: bounded, answered clearly, and no trouble to others.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};
use antwort_test_support::websocket::WebSocket;

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused_and_one_within_it_is_read_in_pieces() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.websocket.max_frame_bytes = 256 << 10)
        .spawn()
        .await;
    let mut socket = WebSocket::connect(&gateway).await;
    let body =
        json!({"type": "response.create", "model": "test-model", "input": "x".repeat(200 << 10)}).to_string();
    let pieces: Vec<_> = body.as_bytes().chunks(1000).collect();
    for (place, piece) in pieces.iter().enumerate() {
        let kind = if place == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(piece.to_vec(), OpCode::Data(kind), place + 1 == pieces.len());
        socket.socket.feed(Message::Frame(frame)).await.unwrap();
        // Control frames may come in between.
        if place % 50 == 0 {
            socket.socket.feed(Message::Ping(vec![1, 2, 3].into())).await.unwrap();
        }
    }
    socket.socket.flush().await.unwrap();
    assert_eq!(socket.read_turn().await.end["status"], "completed");
    // As one frame, and as pieces that never end.
    let mut large = WebSocket::connect(&gateway).await;
    _ = large.socket.send(Message::text("x".repeat(1 << 20))).await;
    assert_too_large(&mut large).await;
    let mut endless = WebSocket::connect(&gateway).await;
    for place in 0..600 {
        let kind = if place == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(vec![b'x'; 1000], OpCode::Data(kind), false);
        if endless.socket.send(Message::Frame(frame)).await.is_err() {
            break;
        }
    }
    assert_too_large(&mut endless).await;
    socket.response(json!({"input": "Hi"}), "completed").await;
}

/// What the gateway said may be lost if it closed the connection while more was on its way.
async fn assert_too_large(socket: &mut WebSocket) {
    match socket.next().await {
        Ok(error) => {
            assert_eq!(
                (&error["status"], &error["error"]["code"]),
                (&json!(413), &json!("request_too_large"))
            );
            assert!(matches!(socket.next().await, Err(Some(1009) | None)));
        }
        Err(code) => assert!(matches!(code, Some(1009) | None), "{code:?}"),
    }
}

#[tokio::test]
async fn ten_thousand_requests_at_once_are_not_kept() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut other = WebSocket::connect(&gateway).await;
    let mut socket = WebSocket::connect(&gateway).await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    let message = json!({"type": "response.create", "model": "test-model", "input": "Hi"}).to_string();
    socket.send(&message).await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    for _ in 0..10_000 {
        if socket.socket.send(Message::text(message.as_str())).await.is_err() {
            break;
        }
    }
    let end = loop {
        match socket.next().await {
            Ok(event) if event["type"] == "error" => break Some(event),
            Ok(_) => {}
            Err(_) => break None,
        }
    };
    if let Some(end) = end {
        assert_eq!((&end["status"], &end["error"]["code"]), (&json!(429), &json!("websocket_queue_full")));
        assert!(matches!(socket.next().await, Err(Some(1008) | None)));
    }
    assert!(eventually(async || upstream.open_streams() == 0).await, "the run was cancelled");
    assert!(upstream.requests().len() <= 2);
    other.response(json!({"input": "Hi"}), "completed").await;
}

#[tokio::test]
async fn pings_by_the_thousand_cost_nobody_a_turn() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    for round in 0..20 {
        for _ in 0..1000 {
            socket.socket.feed(Message::Ping(vec![7; 125].into())).await.unwrap();
        }
        socket.socket.flush().await.unwrap();
        if round % 10 == 0 {
            socket.response(json!({"input": "Hi"}), "completed").await;
        }
    }
    socket.response(json!({"input": "Hi"}), "completed").await;
}

#[tokio::test]
async fn a_reader_that_stalls_is_disconnected_and_disturbs_no_other() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.write_timeout = Duration::from_millis(500))
        .spawn()
        .await;
    let mut stalled = WebSocket::connect(&gateway).await;
    let mut other = WebSocket::connect(&gateway).await;
    // More than the buffers of all sockets on the way hold.
    let mut steps: Vec<_> = (0..800).map(|_| chunk(json!({"content": "x".repeat(32 << 10)}))).collect();
    steps.extend([finish("stop"), done()]);
    upstream.reply(Reply::Stream(steps));
    stalled.create(json!({"input": "Hi"})).await;
    assert!(eventually(async || upstream.requests().len() == 1).await);
    other.response(json!({"input": "Hi"}), "completed").await;
    // The provider may be done earlier: what it sent waits in sockets. Reading begins when the gateway has given up.
    let counted = async || {
        let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
        text.contains("antwort_websocket_turns_total{ended=\"timed_out\"} 1")
            && text.contains("antwort_websocket_connections 1\n")
    };
    assert!(eventually(counted).await, "it is a timeout, and not the client's doing");
    assert!(eventually(async || upstream.open_streams() == 0).await, "the run has ended");
    let mut received = 0;
    while stalled.next().await.is_ok() {
        received += 1;
    }
    assert!(received < 800, "{received} messages came of a stream that nobody read");
    other.response(json!({"input": "Hi"}), "completed").await;
}

#[tokio::test]
async fn what_is_no_text_and_no_frame_closes_the_connection_alone() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut other = WebSocket::connect(&gateway).await;
    let mut binary = WebSocket::connect(&gateway).await;
    binary.socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(binary.next().await, Err(Some(1003)));
    for (bytes, code) in [
        // A text that is not UTF-8, masked with zeros.
        (&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe][..], 1007),
        // A frame without a mask.
        (&[0x81, 0x02, b'{', b'}'], 1002),
        // A reserved opcode, and reserved bits.
        (&[0x83, 0x80, 0, 0, 0, 0], 1002),
        (&[0xf1, 0x80, 0, 0, 0, 0], 1002),
        // A ping that is too long, and a continuation of nothing.
        (&[&[0x89, 0xfe, 0, 126][..], &[0; 130]].concat(), 1002),
        (&[0x80, 0x80, 0, 0, 0, 0], 1002),
    ] {
        let mut stream = shake_hands(&gateway).await;
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "{bytes:x?} {answer:x?}");
        assert_eq!(answer[0], 0x88, "a close frame: {answer:x?}");
        assert_eq!(u16::from_be_bytes([answer[2], answer[3]]), code, "{bytes:x?}");
    }
    other.response(json!({"input": "Hi"}), "completed").await;
}

/// Bytes that a generator makes up, after frames that begin well.
#[tokio::test]
async fn any_bytes_behind_a_handshake_harm_nobody() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..300 {
        let mut stream = shake_hands(&gateway).await;
        let length = random() % 600;
        let mut bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        if round % 2 == 0 {
            let begin = [[0x81, 0x85], [0x01, 0x83], [0x89, 0x80], [0x88, 0x82]][(round / 2) % 4];
            bytes.splice(0..0, begin);
        }
        _ = stream.write_all(&bytes).await;
        if round % 3 == 0 {
            drop(stream);
            continue;
        }
        _ = stream.shutdown().await;
        let mut answer = Vec::new();
        _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap();
    }
    let mut socket = WebSocket::connect(&gateway).await;
    socket.response(json!({"input": "Hi"}), "completed").await;
}

#[tokio::test]
async fn a_client_that_is_in_the_midst_of_a_frame_cannot_answer_pings_and_stays() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            settings.server.websocket.ping_interval = Duration::from_millis(100);
            settings.server.websocket.idle_timeout = Duration::from_millis(600);
        })
        .spawn()
        .await;
    let mut stream = shake_hands(&gateway).await;
    stream.write_all(&[0x81, 0x80 | 100, 0, 0, 0, 0]).await.unwrap();
    for _ in 0..20 {
        stream.write_all(b"xxxxx").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let read = stream.read(&mut answer).await.unwrap();
            // Pings come before.
            if read == 0 || answer[..read].windows(12).any(|text| text == b"invalid_json") {
                return read;
            }
        }
    });
    assert_ne!(read.await.unwrap(), 0, "the message is answered, and not the connection closed");
}

/// A connection on which anything can be sent.
async fn shake_hands(gateway: &Gateway) -> TcpStream {
    let address = gateway.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /v1/responses HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: cepz6rc6krwKQpL4uvli4g==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    stream
}
