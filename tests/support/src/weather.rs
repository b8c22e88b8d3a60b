//! A stand-in for the weather service, on a real port: counts who asks, and can keep them waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

/// The service; ends with the test's runtime.
pub struct Weather {
    /// Without a path.
    pub url: String,
    state: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    asked: AtomicUsize,
    silent: AtomicBool,
}

impl Weather {
    /// A service that knows one weather for all places.
    pub async fn spawn() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Counts::default());
        let router = Router::new().route("/data/2.5/weather", get(answer)).with_state(Arc::clone(&state));
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state }
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// From now on it answers nobody.
    pub fn stop_answering(&self) {
        self.state.silent.store(true, Ordering::SeqCst);
    }

    /// It answers again.
    pub fn resume_answering(&self) {
        self.state.silent.store(false, Ordering::SeqCst);
    }
}

async fn answer(
    State(state): State<Arc<Counts>>,
    Query(query): Query<std::collections::HashMap<String, String>>,
) -> Json<Value> {
    state.asked.fetch_add(1, Ordering::SeqCst);
    if state.silent.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    assert_eq!((query["units"].as_str(), query["appid"].as_str()), ("metric", "weather-key"));
    Json(json!({
        "name": query["q"],
        "main": {"temp": 14.5, "feels_like": 13.9, "humidity": 71},
        "weather": [{"description": "light fog"}],
        "wind": {"speed": 4.1}
    }))
}
