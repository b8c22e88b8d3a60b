//! `antwort healthcheck`: the gateway's pulse, for images without a shell.

use std::process::{Command, Output, Stdio};

use super::ask;
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream};

/// Asks with this file and these words, in an environment with nothing else.
async fn healthcheck(file: &str, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("antwort.yaml"), file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.arg("healthcheck").args(words).current_dir(folder.path()).env_clear().stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn says(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// It failed a gateway that lived, which was then restarted, with that file.
#[tokio::test]
async fn a_mistake_in_the_file_does_not_fail_a_gateway_that_lives() {
    let gateway = Gateway::with_upstream_url("http://127.0.0.1:9/v1").spawn().await;
    let address = gateway.base.strip_prefix("http://").unwrap();
    for mistake in
        ["", "sever: {max_runs: 1}", "providers: {a: {url: nowhere}}", "providers: {a: [", "store: {url: x}"]
    {
        let output = healthcheck(&format!("listen: {address}\n{mistake}\n"), &[]).await;
        assert_eq!(says(&output), (Some(0), "alive\n".to_owned()), "{mistake}");
    }
    for words in [["--url", gateway.base.as_str()], ["--listen", address]] {
        assert_eq!(healthcheck("providers: [", &words).await.status.code(), Some(0), "{words:?}");
    }
    let gone = Gateway::with_upstream_url("http://127.0.0.1:9/v1").spawn().await;
    let base = gone.base.clone();
    gone.stop().await;
    let (code, said) = says(&healthcheck("", &["--url", &base]).await);
    assert!(code == Some(1) && said.starts_with("antwort: not alive: "), "{said}");
}

#[tokio::test]
async fn a_gateway_that_drains_lives() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![super::text("Hel"), antwort_test_support::upstream::Step::Hang]));
    let mut running = gateway.open_stream(ask()).await;
    super::read_until(&mut running, "Hel").await;
    gateway.begin_stop();
    assert!(eventually(async || gateway.get("/readyz").await.status == 503).await);
    assert_eq!(healthcheck("", &["--url", &gateway.base]).await.status.code(), Some(0));
    let readyz = format!("{}/readyz", gateway.base);
    assert_eq!(healthcheck("", &["--url", &readyz]).await.status.code(), Some(1), "a path is asked as it is");
}
