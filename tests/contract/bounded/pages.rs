//! Lists of large elements: a page is bounded in bytes, and whoever pages on sees everything once.

use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

/// Bytes of a page's elements.
const MAX_PAGE_BYTES: usize = 4 << 20;
const LARGE: usize = 1_000_000;

/// Reads a list page by page. The sizes of the pages as sent with the numbers of their elements, and the ids of all.
async fn walk(gateway: &Gateway, path: &str, order: &str) -> (Vec<(usize, usize)>, Vec<String>) {
    let (mut pages, mut ids) = (Vec::new(), Vec::<String>::new());
    let mut next = None;
    loop {
        let from = next.map(|id: String| format!("&after={id}")).unwrap_or_default();
        let url = format!("{}{path}?limit=100&order={order}{from}", gateway.base);
        let answer = gateway.http.get(url).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/json");
        let length: usize = answer.headers()["content-length"].to_str().unwrap().parse().unwrap();
        let text = answer.text().await.unwrap();
        assert_eq!(length, text.len());
        let page: Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = page.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["object", "data", "first_id", "last_id", "has_more"]);
        let data: Vec<String> =
            page["data"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(page["first_id"], json!(data.first()));
        assert_eq!(page["last_id"], json!(data.last()));
        pages.push((length, data.len()));
        ids.extend(data);
        next = ids.last().cloned();
        if page["has_more"] == false {
            return (pages, ids);
        }
    }
}

async fn check(gateway: &Gateway, path: &str, all: &[String]) {
    for order in ["asc", "desc"] {
        let mut expected = all.to_vec();
        if order == "desc" {
            expected.reverse();
        }
        let (pages, ids) = walk(gateway, path, order).await;
        assert_eq!(ids, expected, "{order}");
        assert!(pages.len() > all.len() / 4, "{pages:?}");
        for (bytes, elements) in pages {
            // The frame of a page, and its elements' commas, come on top.
            assert!(bytes <= MAX_PAGE_BYTES + 1024 || elements == 1, "{bytes} bytes, {elements} elements");
        }
        // Backwards from the last, which is not on a page before itself.
        let last = format!("{path}?limit=1&order={}", if order == "asc" { "desc" } else { "asc" });
        let last = gateway.get(&last).await.body["first_id"].as_str().unwrap().to_owned();
        assert_eq!(Some(&last), expected.last());
        let before = format!("{path}?limit=100&order={order}&before={last}");
        let (mut seen, mut page) = (Vec::new(), gateway.get(&before).await.body);
        loop {
            let data = page["data"].as_array().unwrap();
            seen.splice(0..0, data.iter().map(|element| element["id"].as_str().unwrap().to_owned()));
            if page["has_more"] == false {
                break;
            }
            let before = format!("{path}?limit=100&order={order}&before={}", seen[0]);
            page = gateway.get(&before).await.body;
        }
        assert_eq!(seen, expected[..expected.len() - 1], "{order}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_large_responses_comes_in_pages_of_four_mebibytes() {
    let upstream = Upstream::spawn().await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::with_upstream(&upstream).database(directory.path().join("test.db")).spawn().await;
    let mut all = Vec::new();
    for number in 0..20 {
        // One of them is larger than a page.
        upstream.text(&"x".repeat(if number == 9 { MAX_PAGE_BYTES + LARGE } else { 1 }));
        let body = json!({"model": "test-model", "input": "x", "instructions": "i".repeat(LARGE)});
        let response = gateway.create(body).await;
        let id = response["id"].as_str().unwrap().to_owned();
        assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body, response);
        all.push(id);
    }
    check(&gateway, "/v1/responses", &all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_large_input_items_comes_in_pages_of_four_mebibytes() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let said =
        |n: usize| json!({"role": "user", "content": "y".repeat(if n == 5 { 5 * LARGE } else { LARGE })});
    let input: Vec<Value> = (0..14).map(said).collect();
    let response = gateway.create(json!({"model": "test-model", "input": input})).await;
    let path = format!("/v1/responses/{}/input_items", response["id"].as_str().unwrap());
    let (_, all) = walk(&gateway, &path, "asc").await;
    assert_eq!(all.len(), 14);
    check(&gateway, &path, &all).await;
}
