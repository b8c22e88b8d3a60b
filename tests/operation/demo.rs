//! `antwort demo`: what it prints, and the runs that it leaves for the page.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::openapi;
use antwort_test_support::upstream::Upstream;

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
    start_with(folder, &[])
}

fn start_with(folder: &Path, environment: &[(&str, &str)]) -> Demo {
    let child = Command::new(env!("CARGO_BIN_EXE_antwort"))
        .arg("demo")
        .current_dir(folder)
        .env_clear()
        .envs(environment.iter().copied())
        .env("ANTWORT_LISTEN", "127.0.0.1:0")
        .env("ANTWORT_STORE_URL", "memory:")
        .stdin(Stdio::null())
        .stdout(File::create(folder.join("said")).unwrap())
        .stderr(File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    Demo(child)
}

/// What the demo has said when it serves.
async fn said_by(folder: &Path) -> String {
    let mut said = String::new();
    let serves = eventually(async || {
        said = fs::read_to_string(folder.join("said")).unwrap();
        said.contains("Serving until Ctrl-C")
    });
    assert!(serves.await, "{said}\n{}", fs::read_to_string(folder.join("log")).unwrap());
    said
}

/// The base URL in what the demo has said.
fn base_of(said: &str) -> String {
    let page = said.lines().nth(1).unwrap().trim().strip_prefix("page").expect("the page comes first").trim();
    page.strip_suffix("/ui/").unwrap().to_owned()
}

async fn get(url: &str) -> Value {
    serde_json::from_str(&reqwest::get(url).await.unwrap().text().await.unwrap()).unwrap()
}

#[tokio::test]
async fn the_demo_leaves_two_runs_with_a_retry_parallel_calls_and_an_approval() {
    let folder = tempfile::tempdir().unwrap();
    let _demo = start(folder.path());
    let said = said_by(folder.path()).await;
    let base = base_of(&said);
    assert_eq!(reqwest::get(format!("{base}/ui/")).await.unwrap().status(), 200, "{base}");
    let announced = said.find("this failure is part of the demo").expect("announced");
    assert!(announced < said.find("response.created").unwrap(), "{said}");

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

/// The last text of the answer to a request.
async fn answer(base: &str, body: &Value) -> (Value, String) {
    let request = reqwest::Client::new().post(format!("{base}/v1/responses"));
    let answered = request.json_body(body).send().await.unwrap();
    let response: Value = serde_json::from_str(&answered.text().await.unwrap()).unwrap();
    assert_eq!(response["status"], "completed", "{response:#}");
    let text = response["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str();
    let text = text.unwrap_or_default().to_owned();
    (response, text)
}

#[tokio::test]
async fn the_demos_model_answers_what_the_pages_ask_in_sentences() {
    let folder = tempfile::tempdir().unwrap();
    let _demo = start(folder.path());
    let base = base_of(&said_by(folder.path()).await);
    let (_, hello) = answer(&base, &json!({"model": "demo", "input": "Hello"})).await;
    assert!(hello.starts_with("Hello! I am the demo model"), "{hello}");

    let (told, pleasure) = answer(&base, &json!({"model": "demo", "input": "My name is Ada."})).await;
    assert_eq!(pleasure, "Nice to meet you, Ada!");
    let asks = json!({"model": "demo", "previous_response_id": told["id"], "input": "What is my name?"});
    assert_eq!(answer(&base, &asks).await.1, "Your name is Ada.");

    let tools = json!([{"type": "antwort:datetime"}]);
    let (response, time) =
        answer(&base, &json!({"model": "demo", "input": "What time is it?", "tools": tools})).await;
    assert_eq!(response["output"][0]["arguments"], "{}", "{response:#}");
    let output: Value = serde_json::from_str(response["output"][0]["output"].as_str().unwrap()).unwrap();
    let (date, clock) = output["formatted"].as_str().unwrap().split_once(' ').unwrap();
    assert_eq!(time, format!("It is {clock} UTC on {}, {date}.", output["weekday"].as_str().unwrap()));

    let tools = json!([{"type": "mcp", "server_label": "travel"}]);
    let asks = json!({"model": "demo", "input": "How is the weather in Bergen tomorrow?", "tools": tools});
    let weather = answer(&base, &asks).await.1;
    assert_eq!(weather, "The tool weather_forecast says: Bergen, tomorrow: sunny, 14 degrees.");
}

#[tokio::test]
async fn the_demo_suggests_no_embedding_model_of_a_model_server() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    upstream.list(&["all-minilm:latest", "qwen3:latest", "llama3.2:latest"]);
    let _demo = start_with(folder.path(), &[("ANTWORT_UPSTREAM_URL", &upstream.url)]);
    let said = said_by(folder.path()).await;
    // In the server's order, as doctor and prompt.
    assert!(said.contains(r#""model":"qwen3:latest""#) && !said.contains("all-minilm"), "{said}");
}

#[tokio::test]
async fn the_demo_says_what_to_do_if_the_address_lacks_v1() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let without = upstream.url.strip_suffix("/v1").unwrap();
    let _demo = start_with(folder.path(), &[("ANTWORT_UPSTREAM_URL", without)]);
    let said = said_by(folder.path()).await;
    assert!(said.contains(&format!("{without}/models cannot be read: status 404\n")), "{said}");
    assert!(said.contains(&format!("ANTWORT_UPSTREAM_URL={}\n", upstream.url)), "{said}");
    assert!(!said.contains("API key"), "{said}");
}

#[tokio::test]
async fn the_demo_asks_whether_a_server_that_refuses_connections_runs_and_not_for_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let _demo = start_with(folder.path(), &[("ANTWORT_UPSTREAM_URL", "http://127.0.0.1:1/v1")]);
    let said = said_by(folder.path()).await;
    for part in ["http://127.0.0.1:1/v1/models", "nothing answers", "Check that the model server runs"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("API key") && said.contains(r#""model":"MODEL""#), "{said}");
}

#[test]
fn a_port_in_use_names_the_flag_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for command in ["serve", "demo"] {
        let output = Command::new(env!("CARGO_BIN_EXE_antwort"))
            .args([
                command,
                "--listen",
                &address,
                "--store",
                "memory:",
                "--upstream-url",
                "http://127.0.0.1:9/v1",
            ])
            .current_dir(folder.path())
            .env_clear()
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains(&format!("listening on {address} (another address: --listen 127.0.0.1:")),
            "{said}"
        );
    }
}
