//! Model servers behind a proxy, with a private authority, with client certificates.

use serde_json::{Value, json};

use super::{gateway, port_of, url_of};
use antwort_test_support::gateway::{Gateway, HttpAnswer};
use antwort_test_support::network::{Server, TestCa};
use antwort_test_support::upstream::Upstream;

/// Known to the proxy alone.
const NAME: &str = "provider.test";

fn ask() -> Value {
    json!({"model": "test-model", "input": "Hi"})
}

async fn asked(gateway: &Gateway) -> HttpAnswer {
    gateway.post("/v1/responses", &ask()).await
}

/// The code and the message of a 502.
fn failure(answer: &HttpAnswer) -> (String, String) {
    assert_eq!(answer.status, 502, "{answer:#?}");
    let text = |key: &str| answer.body["error"][key].as_str().unwrap().to_owned();
    (text("code"), text("message"))
}

#[tokio::test]
async fn a_private_authority_is_trusted_if_a_file_has_it() {
    let (upstream, authority, other) = (Upstream::spawn().await, TestCa::generate(), TestCa::generate());
    let server = Server::tls(port_of(&upstream.url), &authority.issue("localhost"), None);
    let url = format!("url: 'https://localhost:{}/v1'", server.port);
    let with = |file: &std::path::Path| format!("{url}, ca_file: {}", file.display());

    let answer = asked(&gateway(&url).spawn().await).await;
    assert_eq!(failure(&answer).0, "upstream_unreachable");
    let answer = asked(&gateway(&with(&other.file())).spawn().await).await;
    assert_eq!(failure(&answer).0, "upstream_unreachable");
    assert!(upstream.requests().is_empty());

    upstream.text("Hello.");
    gateway(&with(&authority.file())).spawn().await.create(ask()).await;
    // For all clients, in a file with another one.
    let both = [authority.file(), other.file()].map(|file| std::fs::read_to_string(file).unwrap()).join("\n");
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle.pem");
    std::fs::write(&bundle, both).unwrap();
    let yaml = format!("providers: {{default: {{{url}}}}}\ntls: {{ca_file: {}}}", bundle.display());
    upstream.text("Hello.");
    Gateway::with(super::settings(&yaml, &[])).spawn().await.create(ask()).await;
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_provider_that_wants_a_certificate_is_shown_the_one_of_the_settings() {
    let (upstream, authority) = (Upstream::spawn().await, TestCa::generate());
    let server = Server::tls(port_of(&upstream.url), &authority.issue("localhost"), Some(&authority.file()));
    let url = format!("url: 'https://localhost:{}/v1', ca_file: {}", server.port, authority.file().display());
    let with = |authority: &TestCa| {
        let client = authority.issue("gateway.test");
        format!("{url}, client_cert: {}, client_key: {}", client.cert.display(), client.key.display())
    };

    for refused in [url.clone(), with(&TestCa::generate())] {
        let answer = asked(&gateway(&refused).spawn().await).await;
        let (code, _) = failure(&answer);
        assert!(["upstream_unreachable", "upstream_disconnected"].contains(&code.as_str()), "{code}");
    }
    assert!(upstream.requests().is_empty());

    upstream.text("Hello.");
    gateway(&with(&authority)).spawn().await.create(ask()).await;
    assert_eq!(server.said(1).await, ["client gateway.test"]);
}

#[tokio::test]
async fn a_provider_is_reached_through_a_proxy_that_demands_connect() {
    let (upstream, authority) = (Upstream::spawn().await, TestCa::generate());
    let server = Server::tls(port_of(&upstream.url), &authority.issue(NAME), None);
    let url = format!("url: 'https://{NAME}/v1', ca_file: {}", authority.file().display());
    let connect = |answer| format!("CONNECT {NAME}:443 {answer}");

    let open = Server::proxy(&[], &[(NAME, server.port)]);
    upstream.text("Hello.");
    gateway(&format!("{url}, proxy: '{}'", url_of(&open))).spawn().await.create(ask()).await;
    assert_eq!(open.said(1).await, [connect(200)]);

    let closed = Server::proxy(&["--credentials", "gateway:s3cret/word"], &[(NAME, server.port)]);
    let address = format!("127.0.0.1:{}", closed.port);
    for wrong in ["", "gateway:wr0ng@"] {
        let gateway = gateway(&format!("{url}, proxy: 'http://{wrong}{address}'")).spawn().await;
        let (code, message) = failure(&asked(&gateway).await);
        assert_eq!(code, "upstream_proxy_error");
        assert!(message.contains("407") && !message.contains("wr0ng"), "{message}");
    }
    upstream.text("Hello.");
    gateway(&format!("{url}, proxy: 'http://gateway:s3cret%2Fword@{address}'"))
        .spawn()
        .await
        .create(ask())
        .await;
    assert_eq!(closed.said(3).await, [connect(407), connect(407), connect(200)]);
}

#[tokio::test]
async fn a_server_without_tls_is_asked_for_by_its_url_and_its_proxy_shown_who_asks() {
    let upstream = Upstream::spawn().await;
    let proxy = Server::proxy(&["--credentials", "gateway:s3cret"], &[(NAME, port_of(&upstream.url))]);
    let provider = |credentials: &str| {
        format!("url: 'http://{NAME}/v1', proxy: 'http://{credentials}127.0.0.1:{}'", proxy.port)
    };
    let (code, message) = failure(&asked(&gateway(&provider("")).spawn().await).await);
    assert!(code == "upstream_proxy_error" && message.contains("407"), "{code}: {message}");
    upstream.text("Hello.");
    gateway(&provider("gateway:s3cret@")).spawn().await.create(ask()).await;
    let target = format!("POST http://{NAME}/v1/chat/completions");
    assert_eq!(proxy.said(2).await, [format!("{target} 407"), format!("{target} forwarded")]);
    let headers = format!("{:?}", upstream.requests());
    assert!(!headers.contains("proxy-authorization"), "{headers}");
}

#[tokio::test]
async fn failures_of_a_proxy_are_told_apart_from_those_of_the_provider() {
    let (upstream, authority) = (Upstream::spawn().await, TestCa::generate());
    let server = Server::tls(port_of(&upstream.url), &authority.issue("another.test"), None);
    let proxy = Server::proxy(&[], &[(NAME, server.port)]);
    let own = authority.issue("localhost");
    let (cert, key) = (own.cert.to_str().unwrap(), own.key.to_str().unwrap());
    let with_tls = Server::proxy(&["--tls", cert, key], &[(NAME, server.port)]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();

    let trusted = format!(", ca_file: {}", authority.file().display());
    for (name, proxy, ca_file, code, words) in [
        ("nobody.test", url_of(&proxy), "", "upstream_proxy_error", "opened no connection"),
        (
            NAME,
            format!("http://127.0.0.1:{closed}"),
            "",
            "upstream_proxy_error",
            "the proxy cannot be reached",
        ),
        (
            NAME,
            "http://no-such-proxy.invalid:3128".to_owned(),
            "",
            "upstream_proxy_error",
            "cannot be reached",
        ),
        // The proxy's own TLS: its authority is not trusted, then it is, and the provider's name is wrong.
        (
            NAME,
            format!("https://localhost:{}", with_tls.port),
            "",
            "upstream_proxy_error",
            "cannot be reached",
        ),
        (NAME, format!("https://localhost:{}", with_tls.port), &trusted, "upstream_unreachable", "reached."),
        (NAME, url_of(&proxy), &trusted, "upstream_unreachable", "reached."),
    ] {
        let gateway = gateway(&format!("url: 'https://{name}/v1', proxy: '{proxy}'{ca_file}")).spawn().await;
        let (told, message) = failure(&asked(&gateway).await);
        assert!(told == code && message.contains(words), "{name} by {proxy}{ca_file}: {told}: {message}");
    }
    assert!(upstream.requests().is_empty());
}
