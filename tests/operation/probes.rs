//! What operators ask: probes, metrics, documents, traces.

use std::time::Duration;

use antwort::config::{ReadyRequirement, Settings};
use serde_json::{Value, json};

use super::ask;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Upstream};

fn requires_provider(settings: &mut Settings) {
    settings.server.ready_requires = vec![ReadyRequirement::Store, ReadyRequirement::Provider];
}

#[tokio::test]
async fn probes_tell_alive_from_ready() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(requires_provider).spawn().await;
    assert_eq!(gateway.get("/healthz").await.body, json!({"status": "ok"}));
    let ready = gateway.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.body),
        (200, json!({"status": "ok", "checks": {"store": "ok", "provider": "ok"}}))
    );

    let gateway = Gateway::with_upstream_url("http://127.0.0.1:9/v1").set(requires_provider).spawn().await;
    assert_eq!(gateway.get("/healthz").await.status, 200, "alive, whatever the provider does");
    let ready = gateway.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(
        ready.body,
        json!({"status": "unavailable", "checks": {"store": "ok", "provider": "unavailable"}})
    );
}

/// It took all replicas out of the pool, with all that they had stored.
#[tokio::test]
async fn an_outage_of_the_provider_leaves_the_gateway_ready() {
    let down = "http://127.0.0.1:9/v1";
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream_url(down)
        .set(|settings| {
            let other =
                antwort::config::ProviderSettings::new(antwort::config::Preset::Generic, &upstream.url);
            settings.providers.insert("other".into(), other);
        })
        .spawn()
        .await;
    let ready = gateway.get("/readyz").await;
    assert_eq!((ready.status, ready.body), (200, json!({"status": "ok", "checks": {"store": "ok"}})));
    let verbose = gateway.get("/readyz?verbose").await;
    let providers = json!({"default": "unavailable", "other": "ok"});
    let checks = json!({"store": "ok", "provider": "ok"});
    assert_eq!(
        (verbose.status, verbose.body),
        (200, json!({"status": "ok", "checks": checks, "providers": providers}))
    );

    let gateway = Gateway::with_upstream_url(down).spawn().await;
    let verbose = gateway.get("/readyz?verbose=true").await;
    assert_eq!((verbose.status, &verbose.body["checks"]["provider"]), (200, &json!("unavailable")));
}

#[tokio::test]
async fn a_provider_that_hangs_makes_the_gateway_unready_in_bounded_time_where_it_is_required() {
    let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", hanging.local_addr().unwrap());
    let gateway = Gateway::with_upstream_url(&url).set(requires_provider).spawn().await;
    let ready =
        tokio::time::timeout(Duration::from_secs(15), gateway.get("/readyz")).await.expect("an answer");
    assert_eq!(ready.status, 503);
    // Elsewhere nobody asks it.
    let gateway = Gateway::with_upstream_url("http://127.0.0.1:9/v1").spawn().await;
    assert!(gateway.get("/readyz").await.body["checks"].get("provider").is_none());
}

#[tokio::test]
async fn metrics_count_what_happened_under_the_names_of_dashboards() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    gateway.create(ask()).await;
    gateway.stream(ask()).await;
    gateway.stream(ask()).await;
    upstream.reply(Reply::Status(400, vec![], "no".into()));
    assert_eq!(gateway.post("/v1/responses", &ask()).await.status, 400);
    gateway.get("/v1/responses/resp_nowhere").await;
    let answer = gateway.get("/metrics").await;
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let text = answer.body.as_str().unwrap();
    for line in [
        "antwort_responses_total{status=\"completed\",mode=\"json\"} 1",
        "antwort_responses_total{status=\"completed\",mode=\"stream\"} 2",
        "antwort_runs_active 0",
        "antwort_http_requests_total{route=\"/v1/responses\",method=\"POST\",status=\"200\"} 3",
        "antwort_http_requests_total{route=\"/v1/responses\",method=\"POST\",status=\"400\"} 1",
        "antwort_http_requests_total{route=\"/v1/responses/{id}\",method=\"GET\",status=\"404\"} 1",
        "gen_ai_client_token_usage_sum{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"default\",\
         gen_ai_request_model=\"test-model\",gen_ai_token_type=\"input\"} 15",
        "# TYPE gen_ai_client_operation_duration_seconds histogram",
        "# TYPE gen_ai_server_time_to_first_token_seconds histogram",
        "antwort_build_info{version=",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn names_that_clients_invent_add_no_series() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let refuse = |n: usize| {
        upstream.reply(Reply::Status(404, vec![], "no such model".into()));
        (
            json!({"model": format!("invented-{n}"), "input": "Hi"}),
            format!("/v1/invented-{n}"),
            format!("INVENTED{n}"),
        )
    };
    let mut lines = 0;
    for n in 0..60 {
        let (body, path, method) = refuse(n);
        assert_eq!(gateway.post("/v1/responses", &body).await.status, 404);
        gateway.get(&path).await;
        gateway.get(&format!("/v1/responses/invented-{n}")).await;
        let request = gateway.http.request(method.parse().unwrap(), format!("{}/healthz", gateway.base));
        gateway.send(request).await;
        if n == 0 {
            lines = gateway.get("/metrics").await.body.as_str().unwrap().lines().count();
        }
    }
    let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(!text.to_lowercase().contains("invented"), "{text}");
    // The first look at the metrics adds its own few series.
    assert!(text.lines().count() <= lines + 20, "{} lines, and then {}", lines, text.lines().count());
}

#[tokio::test]
async fn the_document_is_served_in_both_forms_and_they_are_one() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let json = gateway.get("/openapi.json").await;
    let yaml = gateway.get("/openapi.yaml").await;
    assert_eq!(json.headers["content-type"], "application/json");
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    let read: Value = serde_norway::from_str(yaml.body.as_str().unwrap()).unwrap();
    assert_eq!(json.body, read);
    assert_eq!(json.body, *openapi::DOCUMENT);
}

#[tokio::test]
async fn head_asks_about_what_get_would_read() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = gateway.create(ask()).await["id"].as_str().unwrap().to_owned();
    for (path, status) in [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/v1/models", 200),
        (&format!("/v1/responses/{id}"), 200),
        ("/v1/responses/resp_nowhere", 404),
    ] {
        let answer = gateway.send(gateway.http.head(format!("{}{path}", gateway.base))).await;
        assert_eq!((answer.status, answer.body), (status, json!("")), "{path}");
    }
}

#[tokio::test]
async fn a_callers_trace_goes_on_to_the_provider_and_nonsense_does_not() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    for path in ["/v1/responses", "/v1/chat/completions"] {
        let body =
            json!({"model": "test-model", "input": "Hi", "messages": [{"role": "user", "content": "Hi"}]});
        let body = if path.ends_with("responses") { ask() } else { body };
        let answer = gateway.post_bytes(path, body.to_string(), &[("traceparent", parent.as_str())]).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        let sent = upstream.requests().last().unwrap().headers["traceparent"].to_str().unwrap().to_owned();
        assert!(sent.starts_with(&format!("00-{trace}-")) && sent.ends_with("-01"), "{path}: {sent}");
    }
    for nonsense in ["", "hello", "00-1-2-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01"] {
        gateway.post_bytes("/v1/responses", ask().to_string(), &[("traceparent", nonsense)]).await;
        let headers = upstream.requests().last().unwrap().headers.clone();
        let sent = headers.get("traceparent").map(|value| value.to_str().unwrap());
        assert!(
            sent.is_none_or(|sent| sent != nonsense && !sent.contains("-00000000")),
            "{nonsense}: {sent:?}"
        );
    }
}
