//! The commands of the document about tools, run by a shell as they stand there, with its agent file, word for word.

use std::path::Path;
use std::process::{Output, Stdio};

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::weather::Weather;

const AGENT_FILE: &str = include_str!("../data/go-agents.json");

const SHOW: &str =
    r#"./prompt-agent --protocol tools --tools-file tools.json --prompt "What's the weather in NYC?""#;
const EXECUTE: &str = r#"./prompt-agent --protocol tools --tools-file tools.json --execute-tools --prompt "What's the weather in NYC?""#;
/// A shell takes `$8` for a variable. That is how it stands there.
const WORKFLOW: &str = r#"./prompt-agent --protocol tools --tools-file tools.json --execute-tools \
  --prompt "Get the weather in San Francisco, calculate a 20% tip on $85.50, and tell me the current time in Pacific timezone""#;
const SEARCH: &str = r#"./prompt-agent --protocol tools --tools-file tools.json --execute-tools --stream \
  --prompt "Search for 'Go programming tutorials' and summarize the first 3 results""#;

/// A folder in which the commands work, and what stands behind them.
struct Place {
    folder: tempfile::TempDir,
    upstream: Upstream,
    weather: Weather,
    environment: Vec<(String, String)>,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_antwort"), path.join("prompt-agent")).unwrap();
        std::fs::write(path.join("config.ollama.json"), AGENT_FILE).unwrap();
        let function =
            |name: &str| json!({"name": name, "description": "d", "parameters": {"type": "object"}});
        let names = ["get_weather", "calculate", "web_search", "file_read", "datetime", "fly"];
        std::fs::write(path.join("tools.json"), json!(names.map(function)).to_string()).unwrap();
        let (upstream, weather) = (Upstream::spawn().await, Weather::spawn().await);
        let environment = vec![
            ("ANTWORT__PROVIDERS__OLLAMA__URL".to_owned(), upstream.url.clone()),
            ("ANTWORT__TOOLS__BUILTIN__GET_WEATHER__BASE_URL".to_owned(), weather.url.clone()),
            ("ANTWORT__TOOLS__BUILTIN__WEB_SEARCH__BASE_URL".to_owned(), duckduckgo().await),
            ("ANTWORT_EGRESS_ALLOW".to_owned(), "127.0.0.1".to_owned()),
            ("ANTWORT__EGRESS__ALLOWED_DOMAINS".to_owned(), "127.0.0.1".to_owned()),
        ];
        Self { folder, upstream, weather, environment }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command as a shell reads it.
    async fn sh(&self, text: &str, more: &[(&str, &str)]) -> Output {
        let mut command = std::process::Command::new("/bin/sh");
        command.arg("-c").arg(text).current_dir(self.path()).env_clear().stdin(Stdio::null());
        command.envs(self.environment.iter().cloned()).envs(more.iter().copied());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// What comes to standard output of a command that succeeds.
    async fn succeed(&self, text: &str, more: &[(&str, &str)]) -> String {
        let output = self.sh(text, more).await;
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}\n{out}\n{err}");
        out
    }

    /// What the model was told at last, of each call.
    fn told(&self) -> Vec<String> {
        let messages = self.upstream.last()["messages"].as_array().unwrap().clone();
        let tools = messages.iter().filter(|message| message["role"] == "tool");
        tools.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }
}

/// Instant answers, at the root of a server of their own.
async fn duckduckgo() -> String {
    let answer = async || {
        Json(json!({
            "Heading": "Go", "Abstract": "A language.", "AbstractURL": "https://go.dev/", "Results": [],
            "RelatedTopics": [
                {"FirstURL": "https://go.dev/tour/", "Text": "A tour of Go - An introduction."},
                {"FirstURL": "https://gobyexample.com/", "Text": "Go by Example - Annotated programs."}]
        }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/", get(answer));
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

const KEYS: [(&str, &str); 2] = [("WEATHER_API_KEY", "weather-key"), ("SEARCH_API_KEY", "search-key")];

/// Only what the file allows may be used; this allows the search too.
const SEARCHING: (&str, &str) =
    ("ANTWORT__TOOLS__ALLOWED_TOOLS", "get_weather,calculate,datetime,web_search");

fn weather_call() -> Reply {
    Reply::Calls(vec![("get_weather", json!({"location": "NYC"}))])
}

fn workflow() -> Reply {
    Reply::Calls(vec![
        ("get_weather", json!({"location": "San Francisco"})),
        ("calculate", json!({"expression": "85.50 * 20%"})),
        ("datetime", json!({"timezone": "America/Los_Angeles"})),
    ])
}

fn search_call() -> Reply {
    Reply::Calls(vec![("web_search", json!({"query": "Go programming tutorials", "limit": 3}))])
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn the_documents_commands_work_as_they_stand_with_keys() {
    let place = Place::new().await;
    for keys in [&KEYS[..], &[]] {
        place.upstream.reply(weather_call());
        let out = place.succeed(SHOW, keys).await;
        assert!(out.contains("\"name\": \"get_weather\"") && !out.contains("Final response"), "{out}");
    }
    assert_eq!(place.weather.asked(), 0, "calls are shown only");

    place.upstream.reply(weather_call()).text("14.5 degrees.");
    let out = place.succeed(EXECUTE, &KEYS).await;
    assert_eq!(out, "Final response: 14.5 degrees.\nTokens: 10 prompt + 6 completion = 16 total\n");
    assert_eq!(value(&place.told()[0])["temperature"], 14.5);

    place.upstream.reply(workflow()).text("Fog, $17.10, noon.");
    let out = place.succeed(WORKFLOW, &KEYS).await;
    assert!(out.starts_with("Final response: Fog, $17.10, noon.\n"), "{out}");
    let told = place.told();
    assert_eq!((&value(&told[1])["result"], told.len()), (&json!(17.1), 3));
    assert_eq!(value(&told[2])["timezone"], "America/Los_Angeles");
    assert_eq!(place.weather.asked(), 2);

    place.upstream.reply(search_call()).text("Three results.");
    let out = place.succeed(SEARCH, &[KEYS[0], KEYS[1], SEARCHING]).await;
    assert!(out.starts_with("Streaming response with tool execution:\nThree results.\n"), "{out}");
    let found = value(&place.told()[0]);
    assert_eq!((&found["total"], &found["results"][1]["title"]), (&json!(3), &json!("A tour of Go")));
}

#[tokio::test]
async fn without_keys_the_model_is_told_and_what_can_run_runs() {
    let place = Place::new().await;
    let unset = "Error: WEATHER_API_KEY environment variable not set";
    place.upstream.reply(weather_call()).text("I cannot know.");
    let out = place.succeed(EXECUTE, &[]).await;
    assert_eq!(out, "Final response: I cannot know.\nTokens: 10 prompt + 6 completion = 16 total\n");
    assert_eq!(place.told(), [unset]);

    place.upstream.reply(workflow()).text("$17.10, and noon.");
    let out = place.succeed(WORKFLOW, &[]).await;
    assert!(out.starts_with("Final response: $17.10, and noon.\n"), "{out}");
    let told = place.told();
    assert_eq!((told[0].as_str(), told.len()), (unset, 3));
    assert_eq!(value(&told[1])["result"], 17.1);
    assert_eq!(value(&told[2])["timezone"], "America/Los_Angeles");
    assert_eq!(place.weather.asked(), 0);

    // The agent file does not allow the search.
    place.upstream.reply(search_call()).text("No search here.");
    let out = place.succeed(SEARCH, &[]).await;
    assert!(out.starts_with("Streaming response with tool execution:\nNo search here.\n"), "{out}");
    assert_eq!(place.told(), ["Error: the tool web_search may not be used: it is not in allowed_tools"]);

    // And where it does, instant answers need no key.
    place.upstream.reply(search_call()).text("Three results.");
    place.succeed(SEARCH, &[SEARCHING]).await;
    assert_eq!(value(&place.told()[0])["total"], 3);
}

#[tokio::test]
async fn no_tool_ends_the_run_by_being_absent_or_forbidden() {
    let place = Place::new().await;
    let ask = format!("{EXECUTE} --output json");
    let go = |names: &[&'static str]| {
        Reply::Calls(names.iter().map(|name| (*name, json!({"expression": "1+1"}))).collect())
    };
    for (command, environment, fly) in [
        (EXECUTE.to_owned(), &[][..], "Error: there is no tool 'fly'"),
        (ask, &[("ANTWORT__TOOLS__STREAM_VISIBILITY", "hidden")], "Error: there is no tool 'fly'"),
        (format!("{EXECUTE} --mock-tools mocks.json"), &[], "Error: No mock for: fly"),
    ] {
        std::fs::write(place.path().join("mocks.json"), r#"{"datetime": "noon"}"#).unwrap();
        let all = [environment, &[("ANTWORT__TOOLS__ALLOWED_TOOLS", "*")]].concat();
        place.upstream.reply(go(&["fly", "file_read", "calculate"])).reply(go(&["fly"])).text("Well.");
        let out = place.succeed(&command, &all).await;
        assert!(out.contains("Well."), "{out}");
        let told = place.told();
        assert_eq!(told[..2], [fly, "Error: the tool file_read may not be used: it is blocked"]);
        assert_eq!((&value(&told[2])["result"], told[3].as_str()), (&json!(2), fly));
    }
    let envelope = [("ANTWORT__TOOLS__RESULT_FORMAT", "json_envelope")];
    place.upstream.reply(go(&["file_read", "calculate"])).text("Well.");
    place.succeed(EXECUTE, &envelope).await;
    let told: Vec<Value> = place.told().iter().map(|text| value(text)).collect();
    assert_eq!(
        (&told[0]["success"], &told[0]["error"]),
        (&json!(false), &json!("the tool file_read may not be used: it is blocked"))
    );
    assert_eq!((&told[1]["success"], &told[1]["data"]["result"]), (&json!(true), &json!(2)));
    // A model that does nothing else comes to an end.
    for _ in 0..12 {
        place.upstream.reply(go(&["fly"]));
    }
    let output = place.sh(EXECUTE, &[("ANTWORT_MAX_TURNS", "3")]).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("Tools execution failed: the model keeps calling tools that are not available"),
        "{said}"
    );
}
