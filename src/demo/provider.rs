//! The scripted model's server, of chat completions.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::reply::{formatted, reply};
use super::trip::{self, TripReply};
use super::turn::{MODEL, Turn};

/// Delay between two chunks, so that streaming is visible.
const CHUNK_DELAY: Duration = Duration::from_millis(40);

/// Serves chat completions until `shutdown`.
pub(super) async fn serve(listener: TcpListener, shutdown: CancellationToken) {
    let service =
        axum::Router::new().route("/v1/models", get(models)).route("/v1/chat/completions", post(complete));
    let served = axum::serve(listener, service).with_graceful_shutdown(shutdown.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the demo provider stopped");
    }
}

async fn models() -> Response {
    Json(json!({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "antwort"}]}))
        .into_response()
}

async fn complete(Json(request): Json<Value>) -> Response {
    let turn = match trip::next(&request) {
        Some(TripReply::Busy) => return busy(),
        Some(TripReply::Turn(turn)) => formatted(&request, turn),
        None => reply(&request),
    };
    if request["stream"] == true { streamed(&turn) } else { Json(turn.completion()).into_response() }
}

fn busy() -> Response {
    let error = json!({"error": {"message": "The demo model is busy: this failure is part of the demo.", "type": "server_error", "code": "overloaded"}});
    (StatusCode::SERVICE_UNAVAILABLE, Json(error)).into_response()
}

fn streamed(turn: &Turn) -> Response {
    let mut frames: Vec<_> = turn.chunks().into_iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    frames.push("data: [DONE]\n\n".to_owned());
    let frames = stream::unfold(frames.into_iter(), |mut frames| async {
        let frame = frames.next()?;
        tokio::time::sleep(CHUNK_DELAY).await;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), frames))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}
