//! The variables that name proxies, for a gateway that is a process of its own.

use serde_json::{Value, json};

use super::{port_of, url_of};
use antwort_test_support::network::{Server, TestCa};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

async fn ask(process: &Process, model: &str) -> Value {
    let body = json!({"model": model, "input": "Hi"}).to_string();
    let request = reqwest::Client::new().post(format!("{}/v1/responses", process.base)).body(body);
    let answer = request.header("content-type", "application/json").send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

#[tokio::test]
async fn variables_that_are_set_and_not_used_are_named_at_the_start() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let proxy = "http://gateway:s3cret@proxy.invalid:3128";
    let said = [("https_proxy", proxy), ("NO_PROXY", "corp.test"), ("ANTWORT_LOG", "debug,hyper=off")];
    let process = Process::start_with_environment(folder.path(), &upstream, &said).await;
    upstream.text("Hello.");
    assert_eq!(ask(&process, "test-model").await["status"], "completed");
    let log = process.log();
    let warning = log.lines().find(|line| line.contains("network.proxy")).unwrap_or_else(|| panic!("{log}"));
    assert!(warning.contains("WARN") && warning.contains("https_proxy, NO_PROXY"), "{warning}");
    assert!(!log.contains("s3cret"), "{log}");

    // An exemption alone exempts from nothing.
    let other = tempfile::tempdir().unwrap();
    let said = [("NO_PROXY", "corp.test"), ("ANTWORT_LOG", "info")];
    let process = Process::start_with_environment(other.path(), &upstream, &said).await;
    assert!(!process.log().contains("network.proxy"));
}

#[tokio::test]
async fn the_environments_proxies_are_used_where_the_settings_say_so() {
    let (upstream, authority) = (Upstream::spawn().await, TestCa::generate());
    let folder = tempfile::tempdir().unwrap();
    let port = port_of(&upstream.url);
    let server = Server::tls(port, &authority.issue("provider.test"), None);
    let collector = Server::tls(port, &authority.issue("collector.test"), None);
    let names = [("provider.test", server.port), ("collector.test", collector.port)];
    let proxy = Server::proxy(&["--credentials", "gateway:s3cret"], &names);
    let yaml = format!(
        "network: {{proxy: environment}}
tls: {{ca_file: {}}}
telemetry: {{otlp_endpoint: 'https://collector.test:4318'}}
providers:
  outside: {{url: 'https://provider.test/v1', models: ['outer-*']}}
  exempt: {{url: 'https://exempt.test/v1', models: ['exempt-*'], retries: {{max: 0}}}}",
        authority.file().display()
    );
    std::fs::write(folder.path().join("antwort.yaml"), yaml).unwrap();
    let with_credentials = url_of(&proxy).replace("//", "//gateway:s3cret@");
    let said = [
        ("HTTPS_PROXY", with_credentials.as_str()),
        ("http_proxy", &with_credentials),
        ("NO_PROXY", "exempt.test"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ("ANTWORT_LOG", "debug"),
    ];
    // Readiness and this model ask the provider on this machine, to which no proxy leads.
    let process = Process::start_with_environment(folder.path(), &upstream, &said).await;
    upstream.text("Hello.").text("Hello.");
    assert_eq!(ask(&process, "test-model").await["status"], "completed");
    assert_eq!(ask(&process, "outer-model").await["status"], "completed");
    let said = proxy.said(1).await;
    assert!(said.contains(&"CONNECT provider.test:443 200".to_owned()), "{said:?}");
    assert_eq!(ask(&process, "exempt-model").await["error"]["code"], "upstream_unreachable");
    // Traces come the same way, as a client of its own makes them.
    assert_eq!(collector.said(1).await.first().unwrap(), "client");
    let said = proxy.said(0).await;
    assert!(said.contains(&"CONNECT collector.test:4318 200".to_owned()), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("exempt.test") || line.contains("127.0.0.1")), "{said:?}");
    let log = process.log();
    assert!(!log.contains("s3cret") && !log.contains("Z2F0ZXdheTpzM2NyZXQ"), "{log}");
}
