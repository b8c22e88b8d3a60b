//! Request bodies: their types, sizes and encodings.

use std::io::Write;

use serde_json::json;

use antwort_test_support::gateway::{Gateway, HttpAnswer};
use antwort_test_support::upstream::Upstream;

const LIMIT: usize = 64 * 1024;

async fn small(upstream: &Upstream) -> Gateway {
    Gateway::with_upstream(upstream).set(|settings| settings.server.request_body_limit = LIMIT).spawn().await
}

fn code(answer: &HttpAnswer) -> (u16, &str) {
    (answer.status, answer.body["error"]["code"].as_str().unwrap_or("none"))
}

/// A request of this many bytes.
fn sized(bytes: usize) -> String {
    let empty = json!({"model": "test-model", "input": ""}).to_string();
    json!({"model": "test-model", "input": "x".repeat(bytes - empty.len())}).to_string()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn encoded(data: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    deflate.write_all(data).unwrap();
    let mut br = Vec::new();
    brotli::CompressorWriter::new(&mut br, 4096, 5, 22).write_all(data).unwrap();
    vec![
        ("gzip", gzip(data)),
        ("deflate", deflate.finish().unwrap()),
        ("br", br),
        ("zstd", zstd::encode_all(data, 3).unwrap()),
    ]
}

#[tokio::test]
async fn only_json_is_taken_whatever_its_parameters() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for right in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/ld+json",
    ] {
        let answer = gateway.post_bytes("/v1/responses", sized(100), &[("content-type", right)]).await;
        assert_eq!(answer.status, 200, "{right}");
    }
    let untyped = gateway.http.post(format!("{}/v1/responses", gateway.base)).body(sized(100));
    assert_eq!(code(&gateway.send(untyped).await), (415, "unsupported_media_type"), "no type at all");
    for wrong in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "json",
    ] {
        for path in ["/v1/responses", "/v1/chat/completions"] {
            let answer = gateway.post_bytes(path, sized(100), &[("content-type", wrong)]).await;
            assert_eq!(code(&answer), (415, "unsupported_media_type"), "{wrong} {path}");
        }
    }
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    assert_eq!(gateway.post_bytes("/v1/responses", sized(LIMIT), &[]).await.status, 200);
    let answer = gateway.post_bytes("/v1/responses", sized(LIMIT + 1), &[]).await;
    assert_eq!(code(&answer), (413, "request_too_large"));
    assert!(answer.body["error"]["message"].as_str().unwrap().contains(&LIMIT.to_string()));
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_still_reads_why() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    for _ in 0..10 {
        let answer = gateway.post_bytes("/v1/responses", sized(3 * 1024 * 1024), &[]).await;
        assert_eq!(code(&answer), (413, "request_too_large"));
    }
}

#[tokio::test]
async fn compressed_bodies_are_read_in_all_encodings() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    for (encoding, body) in encoded(sized(30_000).as_bytes()) {
        let headers = [("content-type", "application/json"), ("content-encoding", encoding)];
        let answer = gateway.post_bytes("/v1/responses", body, &headers).await;
        assert_eq!(answer.status, 200, "{encoding}: {:#}", answer.body);
    }
    for same in ["GZIP", "x-gzip", " gzip "] {
        let headers = [("content-encoding", same)];
        let answer = gateway.post_bytes("/v1/responses", gzip(sized(100).as_bytes()), &headers).await;
        assert_eq!(answer.status, 200, "{same:?}");
    }
    let answer = gateway.post_bytes("/v1/responses", sized(100), &[("content-encoding", "identity")]).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_bomb_is_refused_before_it_unfolds() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    for (encoding, body) in encoded(sized(16 * 1024 * 1024).as_bytes()) {
        assert!(body.len() < LIMIT * 2, "a bomb is small: {encoding} {}", body.len());
        let answer = gateway.post_bytes("/v1/responses", body, &[("content-encoding", encoding)]).await;
        assert_eq!(code(&answer), (413, "request_too_large"), "{encoding}");
    }
}

/// Frames that a decoder skips: they decompress to nothing, however long they are.
#[tokio::test]
async fn compressed_bodies_are_bounded_as_they_are_sent() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    let request = zstd::encode_all(sized(100).as_bytes(), 3).unwrap();
    let skipped = |bytes: u32| {
        let mut body = [0x50, 0x2A, 0x4D, 0x18].to_vec();
        body.extend(bytes.to_le_bytes());
        body.resize(body.len() + bytes as usize, 0);
        body.extend(&request);
        body
    };
    let headers = [("content-encoding", "zstd")];
    assert_eq!(gateway.post_bytes("/v1/responses", skipped(1000), &headers).await.status, 200);
    let answer = gateway.post_bytes("/v1/responses", skipped(LIMIT as u32), &headers).await;
    assert_eq!(code(&answer), (413, "request_too_large"));
    let message = answer.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("server.request_body_limit"), "{message}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn encodings_that_are_unknown_or_stacked_are_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    let twice = gzip(&gzip(sized(100).as_bytes()));
    for headers in [
        vec![("content-encoding", "gzip, gzip")],
        vec![("content-encoding", "gzip"), ("content-encoding", "gzip")],
        vec![("content-encoding", "lzma")],
        vec![("content-encoding", "compress")],
    ] {
        for path in ["/v1/responses", "/v1/embeddings"] {
            let answer = gateway.post_bytes(path, twice.clone(), &headers).await;
            assert_eq!(code(&answer), (415, "unsupported_media_type"), "{headers:?}");
        }
    }
}

#[tokio::test]
async fn bodies_that_are_not_what_their_encoding_says_are_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    for (encoding, whole) in encoded(sized(20_000).as_bytes()) {
        let cut = whole[..whole.len() / 2].to_vec();
        for body in [cut, sized(100).into_bytes()] {
            let answer = gateway.post_bytes("/v1/responses", body, &[("content-encoding", encoding)]).await;
            assert_eq!(code(&answer), (400, "invalid_body"), "{encoding}");
        }
    }
    let zstd = zstd::encode_all(sized(100).as_bytes(), 3).unwrap();
    let answer = gateway.post_bytes("/v1/responses", zstd, &[]).await;
    assert_eq!(code(&answer), (400, "invalid_json"), "compressed, and nobody said so");
}
