//! `antwort prompt`, `antwort tools` and `antwort config import`, as processes.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

/// An agent file as the document has it that this format comes from.
const EXAMPLE: &str = include_str!("../data/go-agents.json");

/// Long enough for what was said before it to arrive for itself.
const WHILE: Duration = Duration::from_millis(200);

/// Runs the binary in a folder of its own, with nothing of the test's environment.
async fn antwort(folder: &Path, words: &[&str]) -> Output {
    run(folder, env!("CARGO_BIN_EXE_antwort").as_ref(), words).await
}

async fn run(folder: &Path, program: &Path, words: &[&str]) -> Output {
    let mut command = std::process::Command::new(program);
    command.args(words).current_dir(folder).env_clear().stdin(Stdio::null());
    // The provider that it asks lives in this runtime.
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A prompt to this provider.
async fn prompt(upstream: &Upstream, folder: &Path, words: &[&str]) -> Output {
    let words = [&["prompt", "--base-url", &upstream.url, "--model", "test-model"], words].concat();
    antwort(folder, &words).await
}

fn write(folder: &Path, name: &str, content: impl ToString) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn weather_tool(folder: &Path) -> String {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let function = json!({"name": "get_weather", "description": "Weather", "parameters": parameters});
    write(folder, "tools.json", json!([{"type": "function", "function": function}]))
}

fn weather_call() -> Reply {
    Reply::Calls(vec![("get_weather", json!({"city": "Oslo"}))])
}

#[tokio::test]
async fn a_question_is_answered_with_its_tokens() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    upstream.text("Four.");
    let output =
        prompt(&upstream, folder.path(), &["--prompt", "2+2?", "--system-prompt", "Be brief."]).await;
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(out(&output), "Four.\nTokens: 5 prompt + 3 completion = 8 total\n");
    let asked = upstream.last();
    assert_eq!(asked["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(asked["messages"][1]["content"].as_str().unwrap_or("2+2?"), "2+2?");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is kept");
}

#[tokio::test]
async fn words_are_shown_as_they_come() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    upstream.text("One two three.");
    let output = prompt(&upstream, folder.path(), &["-prompt", "count", "-stream"]).await;
    assert_eq!(out(&output), "One two three.\nTokens: 5 prompt + 3 completion = 8 total\n");
    assert_eq!(upstream.last()["stream"], true);
}

#[tokio::test]
async fn the_model_is_the_first_that_the_provider_lists() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let words = ["prompt", "--upstream-url", &upstream.url, "--prompt", "hi"];
    let output = antwort(folder.path(), &words).await;
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(upstream.last()["model"], "test-model");
}

#[tokio::test]
async fn no_embedding_model_is_prompted_unless_for_an_embedding() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    upstream.list(&["all-minilm:latest", "qwen3:latest", "llama3.2:latest"]);
    let words = ["prompt", "--base-url", &upstream.url, "--prompt", "hi"];
    for (more, model) in [(&[][..], "qwen3:latest"), (&["--protocol", "embeddings"], "all-minilm:latest")] {
        let output = antwort(folder.path(), &[&words[..], more].concat()).await;
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(upstream.last()["model"], model);
    }
}

/// A server that is down was answered with the advice to name a model.
#[tokio::test]
async fn without_a_model_the_advice_fits_why_the_list_cannot_be_read() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let said = async |url: &str| {
        let output = antwort(folder.path(), &["prompt", "--base-url", url, "--prompt", "hi"]).await;
        assert_eq!(output.status.code(), Some(1));
        err(&output).lines().last().unwrap_or_default().to_owned()
    };
    let down = said("http://127.0.0.1:1/v1").await;
    let expected =
        "Error: no model is named, and http://127.0.0.1:1/v1/models cannot be read: nothing answers";
    assert!(down.starts_with(expected) && down.contains("model server runs"), "{down}");
    assert!(!down.contains("--model"), "{down}");
    let without = said(upstream.url.strip_suffix("/v1").unwrap()).await;
    assert!(
        without.contains(&format!(
            "status 404. The URL of most servers ends in /v1: try --base-url {}.",
            upstream.url
        )),
        "{without}"
    );
    assert!(without.contains("--model NAME"), "{without}");
    upstream.list(&[]);
    let empty = said(&upstream.url).await;
    assert!(empty.ends_with("/models lists no models. Name a model with --model NAME."), "{empty}");
}

#[tokio::test]
async fn calls_are_shown_and_not_run_unless_that_is_said() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let tools = weather_tool(folder.path());
    for stream in [&[][..], &["--stream"]] {
        upstream.reply(weather_call());
        let words =
            [&["--protocol", "tools", "--prompt", "Weather?", "--tools-file", &tools], stream].concat();
        let output = prompt(&upstream, folder.path(), &words).await;
        assert!(output.status.success(), "{}", err(&output));
        let shown = out(&output);
        let (calls, tokens) = shown.split_once("Tokens: ").unwrap();
        assert_eq!(tokens, "5 prompt + 3 completion = 8 total\n");
        let calls: Value = serde_json::from_str(calls).unwrap();
        assert_eq!(calls[0]["function"], json!({"name": "get_weather", "arguments": {"city": "Oslo"}}));
        assert_eq!(calls[0]["type"], "function");
        assert_eq!(upstream.last()["tools"][0]["function"]["name"], "get_weather");
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_call_that_nobody_can_run_is_answered_with_an_error() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let tools = weather_tool(folder.path());
    upstream.reply(weather_call()).text("I do not know.");
    let words = ["--protocol", "tools", "--prompt", "Weather?", "--tools-file", &tools, "--execute-tools"];
    let output = prompt(&upstream, folder.path(), &words).await;
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).starts_with("Final response: I do not know.\n"), "{}", out(&output));
    assert!(err(&output).contains("the call of `get_weather` was not run: WEATHER_API_KEY environment"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is kept");
}

#[tokio::test]
async fn what_is_missing_is_said_as_the_go_program_says_it() {
    let folder = folder();
    for (words, expected) in [
        (&["--protocol", "tools"][..], "Error: -prompt flag is required for tools protocol\n"),
        (&["-protocol=tools", "-prompt", "x"], "Error: -tools-file flag is required for tools protocol\n"),
        (&["--protocol", "vision", "--prompt", "x"], "Error: -images flag is required for vision protocol\n"),
        (&[], "Error: -prompt flag is required for chat protocol\n"),
    ] {
        let output = antwort(folder.path(), &[&["prompt-agent"], words].concat()).await;
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), expected));
    }
    let output = antwort(folder.path(), &["prompt", "--prompt", "x"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).starts_with("Error: no model server is configured"), "{}", err(&output));
}

#[tokio::test]
async fn a_link_to_the_binary_is_the_go_program() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let program = folder.path().join("prompt-agent");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_antwort"), &program).unwrap();
    let words = ["-base-url", &upstream.url, "-model", "m", "-prompt", "hi"];
    assert!(out(&run(folder.path(), &program, &words).await).starts_with("Hello there!\n"));
}

#[tokio::test]
async fn a_provider_that_is_down_or_breaks_off_is_an_error() {
    let folder = folder();
    let tools = weather_tool(folder.path());
    let down = ["prompt", "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--prompt", "x"];
    let executing = ["--protocol", "tools", "--tools-file", &tools, "--execute-tools"];
    for (more, expected) in [
        (&[][..], "Error: "),
        (&["--stream"], "Stream error: "),
        (&executing, "Tools execution failed: "),
        (&[&executing[..], &["--stream"]].concat(), "Tools stream execution failed: "),
    ] {
        let output = antwort(folder.path(), &[&down[..], more].concat()).await;
        assert_eq!(output.status.code(), Some(1));
        let said = err(&output);
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with(expected), "{expected}: {said}");
    }
    let upstream = Upstream::spawn().await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Half "})), Step::Wait(WHILE), Step::Cut]));
    let output = prompt(&upstream, folder.path(), &["--prompt", "x", "--stream"]).await;
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), "Half \n"));
    assert!(err(&output).lines().any(|line| line.starts_with("Stream error: ")), "{}", err(&output));
}

#[tokio::test]
async fn pictures_are_sent_as_data_or_url() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let picture = folder.path().join("a.png");
    std::fs::write(&picture, b"\x89PNG\r\n").unwrap();
    let images = format!("{},https://a.example/b.jpg", picture.display());
    let words = ["--protocol", "vision", "--prompt", "What is it?", "--images", &images];
    let output = prompt(&upstream, folder.path(), &words).await;
    assert!(output.status.success(), "{}", err(&output));
    let content = upstream.last()["messages"][0]["content"].clone();
    assert_eq!(content[1]["image_url"]["url"], "data:image/png;base64,iVBORw0K");
    assert_eq!(content[2]["image_url"]["url"], "https://a.example/b.jpg");
}

#[tokio::test]
async fn a_vector_is_shown_by_its_length_and_beginning() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let output = prompt(&upstream, folder.path(), &["--protocol", "embeddings", "--prompt", "x"]).await;
    assert_eq!(out(&output), "Dimensions: 1\nValues: [0.5]\n");
    assert_eq!(upstream.last(), json!({"model": "test-model", "input": "x"}));
}

#[tokio::test]
async fn programs_get_the_response_or_its_events() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let output = prompt(&upstream, folder.path(), &["--protocol", "responses", "--prompt", "x"]).await;
    let response: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&response["object"], &response["status"]), (&json!("response"), &json!("completed")));
    let output = prompt(&upstream, folder.path(), &["--output", "json", "--prompt", "x", "--stream"]).await;
    let events: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "response.created");
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    assert_eq!(events.last().unwrap()["sequence_number"], events.len() - 1);
}

#[tokio::test]
async fn an_agent_file_is_asked_with_its_prompt_model_and_options() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let base = upstream.url.strip_suffix("/v1").unwrap();
    write(folder.path(), "config.ollama.json", EXAMPLE.replace("http://localhost:11434", base));
    let output = antwort(folder.path(), &["prompt", "-prompt", "hi"]).await;
    assert!(output.status.success(), "{}", err(&output));
    let asked = upstream.last();
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&json!("llama3.2:3b"), &json!(4096)));
    assert_eq!(asked["temperature"], 0.7);
    assert_eq!(asked["messages"][0]["content"], "You are an AI assistant with access to various tools.");
    let words = ["prompt", "-prompt", "hi", "-system-prompt", "Mine.", "-model", "other", "-token", "t0ken"];
    let output = antwort(folder.path(), &words).await;
    assert!(output.status.success(), "{}", err(&output));
    let asked = upstream.requests().pop().unwrap();
    assert_eq!(
        (&asked.body["messages"][0]["content"], &asked.body["model"]),
        (&json!("Mine."), &json!("other"))
    );
    assert_eq!(asked.headers["authorization"], "Bearer t0ken");
}

#[tokio::test]
async fn an_agent_file_becomes_a_configuration_that_is_valid() {
    let folder = folder();
    let file = write(folder.path(), "agent.json", EXAMPLE);
    let output = antwort(folder.path(), &["config", "import", &file, "--output", "antwort.yaml"]).await;
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(err(&output), "", "everything has its place");
    let output = antwort(folder.path(), &["config", "check"]).await;
    assert!(output.status.success(), "{}", err(&output));
    let shown = out(&antwort(folder.path(), &["config", "show"]).await);
    assert!(shown.contains("  timeout: 30s\n") && shown.contains("total: 1m\n"), "{shown}");
    assert!(shown.contains("temperature: 0.7\n") && shown.contains("max_output_tokens: 4096\n"), "{shown}");
    let output = antwort(folder.path(), &["config", "import", "--format", "go-agents", &file]).await;
    assert!(out(&output).contains("${WEATHER_API_KEY:-}"), "{}", out(&output));
    let output = antwort(folder.path(), &["config", "check", "--config", &file]).await;
    assert!(
        err(&output).contains("is an agent file of go-agents; `antwort config import"),
        "{}",
        err(&output)
    );
    let output = antwort(folder.path(), &["config", "import", "/no/such"]).await;
    assert_eq!(output.status.code(), Some(2));
    let output = antwort(folder.path(), &["config", "import", "/dev/zero"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("more than 4 MiB"),
        "a file without an end is not read to it: {}",
        err(&output)
    );
}

const MOCKS: &str = "
    tools:
      allowed_tools: [lookup, fail]
      mock:
        lookup: {description: Looks it up., output: {found: true}, delay: 0s}
        hidden: {output: x}
        fail: {description: Fails., error: it broke, delay: 0s}";

#[tokio::test]
async fn tools_are_listed_as_lines_number_or_json() {
    let folder = folder();
    let file = write(folder.path(), "c.yaml", MOCKS);
    let list = async |words: &[&str]| {
        let output = antwort(folder.path(), &[&["tools", "list", "--config", &file], words].concat()).await;
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    };
    assert_eq!(list(&["--summary"]).await, "- `fail` - Fails.\n- `lookup` - Looks it up.\n");
    assert_eq!(list(&["--count"]).await, "2\n");
    let tools: Value = serde_json::from_str(&list(&[]).await).unwrap();
    assert_eq!((&tools[1]["name"], &tools[1]["kind"]), (&json!("lookup"), &json!("mock")));
}

#[tokio::test]
async fn a_tool_is_called_without_a_model() {
    let folder = folder();
    let file = write(folder.path(), "c.yaml", MOCKS);
    let call = async |words: &[&str]| {
        antwort(folder.path(), &[&["--config", &file, "tools", "call"], words].concat()).await
    };
    let output = call(&["lookup", r#"{"q": 1}"#]).await;
    assert!(output.status.success(), "{}", err(&output));
    let result: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&result["output"], &result["is_error"]), (&json!(r#"{"found":true}"#), &json!(false)));
    assert_eq!(result["structured"], json!({"found": true}));
    let output = call(&["fail"]).await;
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&result["is_error"], &result["code"]), (&json!(true), &json!("tool_execution_failed")));
    let output = call(&["lookup", "[]"]).await;
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(result["code"], "invalid_arguments");
    let output = call(&["nothing"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("there is no tool `nothing`"), "{}", err(&output));
}

/// A stream that ends without a tool being run says nothing but its words.
#[tokio::test]
async fn the_banner_stands_before_a_stream_in_which_tools_may_run() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let tools = weather_tool(folder.path());
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "No need."})), finish("stop"), done()]));
    let words =
        ["--protocol", "tools", "--prompt", "x", "--tools-file", &tools, "--execute-tools", "--stream"];
    let output = prompt(&upstream, folder.path(), &words).await;
    assert_eq!(out(&output), "Streaming response with tool execution:\nNo need.\n");
    upstream.text("No need.");
    let output = prompt(&upstream, folder.path(), &words[..words.len() - 1]).await;
    assert!(out(&output).starts_with("Final response: No need.\nTokens: "), "{}", out(&output));
}

/// Sums, answered as a model would that has seen the result.
fn sum_then_answer(upstream: &Upstream) {
    upstream.reply(Reply::Calls(vec![("calculate", json!({"expression": "2+2"}))])).text("It is four.");
}

fn calculate_tool(folder: &Path) -> String {
    let parameters = json!({"type": "object", "properties": {"expression": {"type": "string"}}});
    let tool = json!({"name": "calculate", "description": "Sums", "parameters": parameters});
    write(folder, "tools.json", json!([tool]))
}

#[tokio::test]
async fn tools_of_the_gateway_are_run_and_the_answer_is_final() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let tools = calculate_tool(folder.path());
    let words = ["--protocol", "tools", "--prompt", "2+2?", "--tools-file", &tools, "--execute-tools"];
    sum_then_answer(&upstream);
    let output = prompt(&upstream, folder.path(), &words).await;
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(out(&output), "Final response: It is four.\nTokens: 10 prompt + 6 completion = 16 total\n");
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[2]["role"], "tool");
    assert!(messages[2]["content"].as_str().unwrap().contains("\"result\":4"), "{messages}");
    sum_then_answer(&upstream);
    let output = prompt(&upstream, folder.path(), &[&words[..], &["--stream"]].concat()).await;
    assert_eq!(
        out(&output),
        "Streaming response with tool execution:\nIt is four.\nTokens: 10 prompt + 6 completion = 16 total\n"
    );
}

#[tokio::test]
async fn mocks_stand_in_for_tools_and_a_slow_one_is_an_error_for_the_model() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let tools = calculate_tool(folder.path());
    for (mock, more, expected) in [
        (json!({"calculate": "five"}), &[][..], "five"),
        (
            json!({"calculate": {"output": "x", "delay": "5s"}}),
            &["--tool-timeout", "100ms"],
            "timed out after 100ms",
        ),
        (
            json!({"calculate": "five"}),
            &["-tool-timeout", "100ms", "-mock-delay", "1m"],
            "timed out after 100ms",
        ),
        (json!({"calculate": "five"}), &["--mock-delay", "0"], "five"),
        (json!({"calculate": {"description": "Has no answer."}}), &[], "No mock for: calculate"),
    ] {
        let mocks = write(folder.path(), "mocks.json", mock);
        sum_then_answer(&upstream);
        let words = ["--protocol", "tools", "--prompt", "2+2?", "--tools-file", &tools, "--execute-tools"];
        let words = [&words[..], &["--mock-tools", &mocks], more].concat();
        let output = prompt(&upstream, folder.path(), &words).await;
        assert!(out(&output).starts_with("Final response: It is four.\n"), "{}", err(&output));
        let result = upstream.last()["messages"][2]["content"].to_string();
        assert!(result.contains(expected), "{result}");
    }
}

#[tokio::test]
async fn a_configuration_without_execution_runs_nothing() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let tools = calculate_tool(folder.path());
    let file = write(folder.path(), "c.yaml", "tools: {execution_enabled: false}");
    let words = ["--config", &file, "--protocol", "tools", "--prompt", "2+2?", "--tools-file", &tools];
    let output = prompt(&upstream, folder.path(), &[&words[..], &["--execute-tools"]].concat()).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).starts_with("Tools execution failed: tools.execution_enabled is false"));
    assert!(upstream.requests().is_empty());
}

/// The document's own example, from its agent file to the answer.
#[tokio::test]
async fn an_agent_file_runs_the_tools_that_it_allows() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let base = upstream.url.strip_suffix("/v1").unwrap();
    write(folder.path(), "config.ollama.json", EXAMPLE.replace("http://localhost:11434", base));
    let tools = calculate_tool(folder.path());
    sum_then_answer(&upstream);
    let words =
        ["prompt-agent", "-protocol", "tools", "-tools-file", &tools, "-execute-tools", "-prompt", "2+2?"];
    let output = antwort(folder.path(), &words).await;
    assert!(out(&output).starts_with("Final response: It is four.\n"), "{}", err(&output));
}

#[tokio::test]
async fn an_agent_of_the_configuration_is_asked_by_its_name() {
    let (upstream, folder) = (Upstream::spawn().await, folder());
    let yaml = "
        agents:
          a: {model: model-a, instructions: 'You are {{who}}.', variables: {who: A}, tools: [calculate]}
          b: {model: model-b}";
    let file = write(folder.path(), "c.yaml", yaml);
    let ask = async |words: &[&str]| {
        let words =
            [&["prompt", "--config", &file, "--base-url", &upstream.url, "--prompt", "x"], words].concat();
        antwort(folder.path(), &words).await
    };
    let output = ask(&["--agent", "a"]).await;
    assert!(output.status.success(), "{}", err(&output));
    let asked = upstream.last();
    assert_eq!(
        (&asked["model"], &asked["messages"][0]["content"]),
        (&json!("model-a"), &json!("You are A."))
    );
    sum_then_answer(&upstream);
    let output = ask(&["--agent", "a"]).await;
    assert!(out(&output).contains("\"name\": \"calculate\""), "shown, not run: {}", out(&output));
    upstream.text("-");
    let output = ask(&["--agent", "a", "--execute-tools"]).await;
    assert!(output.status.success(), "{}", err(&output));
    let output = ask(&["--agent", "c"]).await;
    assert!(err(&output).starts_with("Error: there is no agent `c` in the configuration; there are: a, b"));
}
