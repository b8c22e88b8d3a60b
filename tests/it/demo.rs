//! `antwort demo`: what it prints, and the runs that it leaves for the page.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::openapi;

/// A running demo; killed with the test.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn start(folder: &Path) -> Demo {
    let child = Command::new(env!("CARGO_BIN_EXE_antwort"))
        .arg("demo")
        .current_dir(folder)
        .env_clear()
        .env("ANTWORT_LISTEN", "127.0.0.1:0")
        .env("ANTWORT_STORE_URL", "memory:")
        .stdin(Stdio::null())
        .stdout(File::create(folder.join("said")).unwrap())
        .stderr(File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    Demo(child)
}

async fn get(url: &str) -> Value {
    serde_json::from_str(&reqwest::get(url).await.unwrap().text().await.unwrap()).unwrap()
}

#[tokio::test]
async fn the_demo_leaves_two_runs_with_a_retry_parallel_calls_and_an_approval() {
    let folder = tempfile::tempdir().unwrap();
    let _demo = start(folder.path());
    let mut said = String::new();
    let serves = eventually(async || {
        said = fs::read_to_string(folder.path().join("said")).unwrap();
        said.contains("Serving until Ctrl-C")
    });
    assert!(serves.await, "{said}\n{}", fs::read_to_string(folder.path().join("log")).unwrap());
    let page = said.lines().nth(1).unwrap().trim().strip_prefix("page").expect("the page comes first").trim();
    let page_answer = reqwest::get(page).await.unwrap();
    assert_eq!(page_answer.status(), 200, "{page}");
    let base = page.strip_suffix("/ui/").unwrap();

    let runs = get(&format!("{base}/v1/responses?order=asc&view=summary")).await;
    openapi::assert_is("ResponseList", &runs);
    let [first, second] = [&runs["data"][0], &runs["data"][1]];
    assert_eq!(second["previous_response_id"], first["id"], "{runs:#}");
    assert_eq!((&first["status"], &second["status"]), (&json!("completed"), &json!("completed")));

    let trace = async |run: &Value| {
        let trace = get(&format!("{base}/v1/responses/{}/trace", run["id"].as_str().unwrap())).await;
        openapi::assert_is("ResponseTrace", &trace);
        trace
    };
    let planned = trace(first).await;
    assert_eq!(planned["turns"].as_array().unwrap().len(), 2, "{planned:#}");
    assert_eq!(planned["turns"][0]["attempts"], 2, "{planned:#}");
    let calls = &planned["turns"][0]["calls"];
    assert!(calls[1]["started_at"].as_i64() < calls[0]["ended_at"].as_i64(), "in parallel: {planned:#}");
    let booked = trace(second).await;
    assert_eq!(booked["turns"][0]["calls"][0]["name"], "book_train", "{booked:#}");
    assert_eq!(booked["turns"][0]["calls"][0]["outcome"], "completed", "{booked:#}");
}

#[tokio::test]
async fn a_demo_that_is_stopped_amid_its_conversation_ends_without_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = start(folder.path());
    let said = async || fs::read_to_string(folder.path().join("said")).unwrap().contains("response.created");
    assert!(eventually(said).await, "{}", fs::read_to_string(folder.path().join("log")).unwrap());
    let status = Command::new("kill").args(["-s", "TERM", &demo.0.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut code = None;
    let ended = eventually(async || {
        code = demo.0.try_wait().unwrap().and_then(|status| status.code());
        code.is_some()
    });
    assert!(ended.await);
    assert_eq!(code, Some(0), "{}", fs::read_to_string(folder.path().join("log")).unwrap());
}
