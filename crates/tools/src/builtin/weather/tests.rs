//! The tool against a server that answers as OpenWeatherMap does, and as it should not.

use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::Value;

use super::*;
use crate::builtin::tests::{open_egress, serve};
use crate::{FailureStage, ToolErrorCode};

const KEY: &str = "s3cret&key";

async fn ask(base_url: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
    let tool = Weather::new(base_url.to_owned(), KEY.to_owned().into(), open_egress());
    let result = tool.call(arguments.as_object().unwrap(), &ToolContext::default()).await;
    let shown = format!("{result:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    result
}

async fn answering(status: u16, body: &'static str) -> Result<ToolOutput, ToolError> {
    let answer = move || async move { (StatusCode::from_u16(status).unwrap(), body) };
    let base = serve(Router::new().route("/data/2.5/weather", get(answer))).await;
    ask(&base, json!({"location": "Berlin"})).await
}

#[tokio::test]
async fn six_fields() {
    let answer = async |Query(query): Query<Value>| {
        assert_eq!(query, json!({"q": "São Paulo & more", "appid": KEY, "units": "metric"}));
        r#"{"name": "São Paulo", "main": {"temp": 21.5, "feels_like": 21, "humidity": 60, "pressure": 1000},
            "weather": [{"id": 1, "description": "few clouds"}, {"description": "rain"}], "wind": {"speed": 3.1}}"#
    };
    let base = serve(Router::new().route("/data/2.5/weather", get(answer))).await;
    let output = ask(&base, json!({"location": " São Paulo & more "})).await.unwrap();
    let expected = json!({
        "location": "São Paulo", "temperature": 21.5, "feels_like": 21, "humidity": 60,
        "description": "few clouds", "wind_speed": 3.1,
    });
    assert_eq!(output.for_model, expected.to_string());
    assert_eq!(output.structured, Some(expected));
}

#[tokio::test]
async fn a_report_without_conditions_is_a_report() {
    let output = answering(200, r#"{"name": "Berlin", "main": {"temp": -1}, "weather": []}"#).await.unwrap();
    let expected = json!({
        "location": "Berlin", "temperature": -1, "feels_like": null, "humidity": null,
        "description": "", "wind_speed": null,
    });
    assert_eq!(output.structured, Some(expected));
}

#[tokio::test]
async fn failures_are_told_in_the_seeds_words() {
    for (status, message, fault) in [
        (401, "weather API returned status 401", FailureStage::Tool),
        (404, "weather API returned status 404", FailureStage::Tool),
        (204, "weather API returned status 204", FailureStage::Tool),
        (503, "weather API returned status 503", FailureStage::Transport),
    ] {
        let error = answering(status, r#"{"message": "Invalid API key s3cret"}"#).await.unwrap_err();
        assert_eq!((error.message.as_str(), error.stage), (message, fault));
    }
    for body in [
        "",
        "<html>",
        "{}",
        r#"{"name": "Berlin", "main": {}}"#,
        r#"{"name": "Berlin", "main": {"temp": "x"}}"#,
    ] {
        let error = answering(200, body).await.unwrap_err();
        assert!(error.message.starts_with("failed to parse weather response: "), "{error}");
        assert_eq!((error.code, error.stage), (ToolErrorCode::ToolExecutionFailed, FailureStage::Tool));
    }
    for arguments in [json!({}), json!({"location": 5}), json!({"location": " "})] {
        let error = ask("http://127.0.0.1:9", arguments).await.unwrap_err();
        assert_eq!(error.message, "location parameter required");
    }
}

#[tokio::test]
async fn what_egress_refuses_or_cannot_reach_is_no_weather() {
    let error = ask("http://127.0.0.2:9", json!({"location": "x"})).await.unwrap_err();
    let said = "failed to fetch weather: the address of 127.0.0.2 is not allowed; the operator can allow it with \
                egress.allow (ANTWORT_EGRESS_ALLOW)";
    assert_eq!(error.message, said);
    assert_eq!((error.code, error.stage), (ToolErrorCode::DomainNotAllowed, FailureStage::NotSent));
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = ask(&format!("http://{free}"), json!({"location": "x"})).await.unwrap_err();
    assert_eq!(error.message, "failed to fetch weather: no connection to 127.0.0.1");
    assert_eq!((error.code, error.stage), (ToolErrorCode::ToolUnavailable, FailureStage::NotSent));
}
