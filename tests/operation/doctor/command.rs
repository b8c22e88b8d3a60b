//! The command: exit codes, what it prints, the model, the key, the bounds.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::Server;
use super::{answer, doctor, examined};

fn out(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_has_its_shape() {
    let server = Server::spawn(&["is vllm", "schemas are ignored"]).await;
    let (code, report) = examined(&server.url, &[]).await;
    assert_eq!((code, &report["verdict"]), (1, &Value::from("works_with_gaps")));
    assert_eq!(report["object"], "doctor.report");
    assert_eq!((&report["url"], &report["model"]), (&server.url.as_str().into(), &"scripted".into()));
    assert_eq!(report["preset"], "vllm");
    let at = report["at"].as_str().unwrap();
    assert!(at.len() == 20 && at.ends_with('Z'), "{at}");
    assert!(
        report["tokens"]["input"].as_u64() > Some(1000) && report["tokens"]["output"].as_u64() > Some(100)
    );
    let gaps: Vec<_> =
        report["gaps"].as_array().unwrap().iter().map(|gap| gap["id"].as_str().unwrap()).collect();
    assert_eq!(gaps, ["json_schema", "json_schema_tools"]);
    for finding in report["findings"].as_array().unwrap() {
        let mut keys: Vec<_> = finding.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, ["answer", "evidence", "id", "question"]);
        let evidence = finding["evidence"].as_str().unwrap();
        assert!(!evidence.is_empty() && evidence.chars().count() < 260, "{finding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_a_table_and_the_configuration() {
    let (server, folder) = (Server::spawn(&["refuses images"]).await, tempfile::tempdir().unwrap());
    let output = doctor(folder.path(), &[&server.url], &[]).await;
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for line in [
        "yes       Parallel calls in one turn ",
        "no        Images by `data:` URL are seen ",
        "The server works behind the gateway.\n",
        "providers:\n  default:\n    preset: generic\n",
        "    supports:\n      images: false\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "progress is for terminals");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_v1_the_base_url_is_found() {
    let server = Server::spawn(&[]).await;
    let (code, report) = examined(server.url.trim_end_matches("/v1"), &[]).await;
    assert_eq!((code, &report["url"]), (0, &server.url.as_str().into()));
    let (code, report) = examined(&format!("{}/chat/completions", server.url), &[]).await;
    assert_eq!((code, &report["url"]), (0, &server.url.as_str().into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_named_model_is_asked_even_without_a_list() {
    let server = Server::spawn(&["no list"]).await;
    let (code, report) = examined(&server.url, &[]).await;
    assert_eq!((code, &report["verdict"], &report["model"]), (2, &"does_not_work".into(), &Value::Null));
    assert!(report["message"].as_str().unwrap().contains("--model"), "{report}");
    assert_eq!(server.requests().len(), 0);
    let (code, report) = examined(&server.url, &["--model", "other"]).await;
    assert_eq!((code, &report["model"]), (1, &"other".into()));
    assert!(server.requests().iter().all(|request| request["model"] == "other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_the_environment_is_sent_and_never_shown() {
    let (server, folder) = (Server::spawn(&["wants a key"]).await, tempfile::tempdir().unwrap());
    let output = doctor(folder.path(), &[&server.url], &[]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(out(&output).contains("ANTWORT_UPSTREAM_API_KEY"), "{}", out(&output));
    let key = [("ANTWORT_UPSTREAM_API_KEY", "right-key")];
    let output = doctor(folder.path(), &[&server.url], &key).await;
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    assert!(!out(&output).contains("right-key") && out(&output).contains("ANTWORT_UPSTREAM_API_KEY sets it"));
}

/// A server that answers by its key: in the model's name, and in a text that is cut within it.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_server_repeats_is_masked() {
    let server = Server::spawn(&["wants a key", "is called as its key", "refuses images"]).await;
    let folder = tempfile::tempdir().unwrap();
    let key = [("ANTWORT_UPSTREAM_API_KEY", "right-key")];
    for format in [&[][..], &["--json"]] {
        let output = doctor(folder.path(), &[&[server.url.as_str()], format].concat(), &key).await;
        assert!(out(&output).contains("[key]") && !out(&output).contains("right-key"), "{}", out(&output));
    }
}

/// Model servers that need no key are given any word, such as their own name.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_a_usual_word_spoils_no_configuration() {
    let server = Server::spawn(&["is vllm", "refuses images"]).await;
    for word in ["vllm", "http", "default", "providers", "127.0.0.1", "antwort", "false"] {
        let folder = tempfile::tempdir().unwrap();
        let key = [("ANTWORT_UPSTREAM_API_KEY", word)];
        let output = doctor(folder.path(), &[&server.url, "--write", "a.yaml"], &key).await;
        assert_eq!(output.status.code(), Some(0), "{word}: {}", out(&output));
        let yaml = std::fs::read_to_string(folder.path().join("a.yaml")).unwrap();
        let keys = format!(
            "providers:\n  default:\n    preset: vllm\n    url: {}\n    context_window: 3000\n    reasoning_field: \
             reasoning_content\n    supports:\n      images: false\n",
            server.url
        );
        assert!(yaml.starts_with("# Written by `antwort doctor`") && yaml.ends_with(&keys), "{word}: {yaml}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_does_not_work() {
    let server = Server::spawn(&["dies"]).await;
    let (code, report) = examined(&server.url, &[]).await;
    assert_eq!((code, &report["verdict"]), (2, &"does_not_work".into()), "{report:#}");
    let message = report["message"].as_str().unwrap();
    assert!(message.starts_with("The server stopped answering (status 503"), "{message}");
    assert!(server.requests().len() < 8, "{}", server.requests().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_provider_lends_its_key() {
    let (server, folder) = (Server::spawn(&["wants a key"]).await, tempfile::tempdir().unwrap());
    let other = Server::spawn(&["wants a key"]).await;
    let file = format!("providers:\n  main:\n    url: {}\n    api_key: right-key\n", server.url);
    std::fs::write(folder.path().join("antwort.yaml"), file).unwrap();
    assert_eq!(doctor(folder.path(), &[&server.url], &[]).await.status.code(), Some(0));
    assert_eq!(
        doctor(folder.path(), &[&other.url], &[]).await.status.code(),
        Some(2),
        "no other server gets it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_all_of_it_are_bounded() {
    let server = Server::spawn(&["max_tokens is ignored", "max_completion_tokens is ignored"]).await;
    let (code, report) = examined(&server.url, &["--max-tokens", "2000"]).await;
    assert_eq!((code, &report["gaps"][1]["id"]), (1, &"max_tokens_used".into()), "{report:#}");
    assert!(answer(&report, "stop").1.contains("2000 tokens are used up"), "{report}");
    let used = report["tokens"]["input"].as_u64().unwrap() + report["tokens"]["output"].as_u64().unwrap();
    assert!(used < 5000, "{used}");
    for request in server.requests() {
        let caps = ["max_tokens", "max_completion_tokens"].map(|field| request[field].as_u64().unwrap_or(0));
        assert!(caps.iter().all(|cap| *cap <= 512), "{request}");
    }
    let obedient = Server::spawn(&[]).await;
    examined(&obedient.url, &[]).await;
    // The first two are asked before it is known which field limits answers.
    for request in obedient.requests().iter().skip(4) {
        let cap = request["max_completion_tokens"].as_u64();
        let is_closed = request["messages"].to_string().contains("Count from 1 to 1000");
        assert!(cap.is_some_and(|cap| cap <= if is_closed { 512 } else { 64 }), "{request}");
    }
    assert!(obedient.requests().len() < 80, "{}", obedient.requests().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_waited_for() {
    let server = Server::spawn(&["is busy"]).await;
    let began = Instant::now();
    let (code, report) = examined(&server.url, &[]).await;
    assert_eq!(code, 0, "{report:#}");
    assert!(answer(&report, "rate_limit_headers").1.contains("retry-after: 1"), "{report}");
    assert!(began.elapsed().as_secs() >= 1);
}

/// Behind a slow server the time was over, or the patience, with nothing on the screen.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_printed_when_the_time_is_over() {
    let server = Server::spawn(&["is slow"]).await;
    let began = Instant::now();
    let (code, report) = examined(&server.url, &["--timeout", "2s"]).await;
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    assert_eq!((code, &report["gaps"][0]["id"]), (1, &"time_over".into()), "{report:#}");
    assert_eq!(answer(&report, "stream").0, "yes");
    assert_eq!(answer(&report, "stop"), ("unknown", "not asked, as the time was over"));
    assert!(report["config"].as_str().unwrap().contains("# Gap (time_over)"), "{report:#}");
    let (code, report) = examined(&server.url, &["--timeout", "100ms"]).await;
    assert_eq!((code, &report["verdict"]), (2, &"does_not_work".into()));
    assert!(report["message"].as_str().unwrap().contains("no completion within 0.1 s"), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_printed_when_doctor_is_stopped() {
    for signal in ["INT", "TERM"] {
        let (server, folder) = (Server::spawn(&["is slow"]).await, tempfile::tempdir().unwrap());
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_antwort"));
        command.args(["doctor", &server.url, "--write", "new.yaml"]).current_dir(folder.path()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        while server.requests().len() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let kill = std::process::Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
        let text = out(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("yes       Completions are streamed "), "{text}");
        assert!(text.contains("- stopped: questions were left out, as doctor was stopped"), "{text}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("new.yaml was not written"), "{text}");
        assert!(!folder.path().join("new.yaml").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_words_are_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    for (words, hint) in [
        (&["localhost:8000"][..], "http://localhost:8000/v1"),
        (&["http://u:p@localhost/v1"], "ANTWORT_UPSTREAM_API_KEY"),
        (&["http://localhost/v1?key=7"], "must not have `?`"),
        (&["http://localhost/v1", "--timeout", "soon"], "such as 30s"),
        (&["http://localhost/v1", "--answer-timeout", "0s"], "such as 30s"),
    ] {
        let output = doctor(folder.path(), words, &[]).await;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(error.contains(hint), "{words:?}: {error}");
    }
}
