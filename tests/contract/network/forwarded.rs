//! Behind load balancers: whom the log names, and which pages are of the gateway's own origin.

use antwort::config::Cidr;
use serde_json::Value;

use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

async fn gateway(upstream: &Upstream, trusted: &[&str]) -> Gateway {
    let trusted = trusted.iter().map(|network| Cidr(network.parse().unwrap())).collect();
    Gateway::with_upstream(upstream).set(|settings| settings.server.trusted_proxies = trusted).spawn().await
}

async fn asked(gateway: &Gateway, headers: &[(&str, &str)]) -> (u16, Value) {
    let request = gateway.http.get(format!("{}/v1/responses", gateway.base));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let answer = gateway.send(request).await;
    (answer.status, answer.body["error"]["code"].clone())
}

#[tokio::test]
async fn a_page_of_the_host_that_a_trusted_proxy_was_asked_for_is_the_gateways_own() {
    let upstream = Upstream::spawn().await;
    let page = ("origin", "https://gw.test");
    let trusting = gateway(&upstream, &["127.0.0.0/8"]).await;
    for host in [("x-forwarded-host", "gw.test"), ("forwarded", "for=198.51.100.7;host=gw.test;proto=https")]
    {
        assert_eq!(asked(&trusting, &[page, host]).await.0, 200, "{host:?}");
    }
    for host in [
        ("x-forwarded-host", "other.test"),
        ("x-forwarded-host", "gw.test, other.test"),
        ("x-other", "gw.test"),
    ] {
        assert_eq!(asked(&trusting, &[page, host]).await, (403, "origin_not_allowed".into()), "{host:?}");
    }
    for trusted in [&[][..], &["10.0.0.0/8"]] {
        let strict = gateway(&upstream, trusted).await;
        let answer = asked(&strict, &[page, ("x-forwarded-host", "gw.test")]).await;
        assert_eq!(answer, (403, "origin_not_allowed".into()), "{trusted:?}");
    }
}

/// A page whose name is made to point at this machine may set any header for its own origin.
#[tokio::test]
async fn a_forwarded_host_opens_no_gateway_without_keys() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &["127.0.0.0/8"]).await;
    for host in [("x-forwarded-host", "localhost"), ("forwarded", "for=198.51.100.7;host=127.0.0.1")] {
        let answer = asked(&gateway, &[("host", "rebind.test"), host]).await;
        assert_eq!(answer, (403, "host_not_allowed".into()), "{host:?}");
    }
}

#[tokio::test]
async fn the_log_names_the_client_behind_trusted_proxies() {
    let upstream = Upstream::spawn().await;
    for (trusted, address) in [("127.0.0.0/8,10.0.0.0/8", "198.51.100.7"), ("10.0.0.0/8", "127.0.0.1")] {
        let folder = tempfile::tempdir().unwrap();
        let said = [("ANTWORT_LOG", "info"), ("ANTWORT__SERVER__TRUSTED_PROXIES", trusted)];
        let process = Process::start_with_environment(folder.path(), &upstream, &said).await;
        let request = reqwest::Client::new().get(format!("{}/v1/models", process.base));
        let request = request.header("x-forwarded-for", "8.8.8.8, 198.51.100.7, 10.1.2.3");
        request.header("x-request-id", "looked-for").send().await.unwrap();
        let named = async || {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
            let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let mut mine =
                lines.filter(|line| line["request_id"] == "looked-for" && line["message"] == "request");
            mine.any(|line| line["client_address"] == address)
        };
        assert!(eventually(named).await, "{}", std::fs::read_to_string(folder.path().join("log")).unwrap());
    }
}
