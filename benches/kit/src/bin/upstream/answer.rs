//! Answers over HTTP, and the body that sends prepared frames at a pace.

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

pub(crate) fn json_answer(status: u16, body: &Value) -> Response<Answer> {
    respond(status, false, Answer::new(Arc::new(vec![Bytes::from(body.to_string())]), None, None))
}

pub(crate) fn error(status: u16, message: &str) -> Response<Answer> {
    let (kind, code) = if status == 429 {
        ("rate_limit_error", json!("rate_limit_exceeded"))
    } else if status >= 500 {
        ("server_error", Value::Null)
    } else {
        ("invalid_request_error", Value::Null)
    };
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    let mut answer = json_answer(status, &json!({"error": error}));
    if status == 429 {
        answer.headers_mut().insert("retry-after", "1".parse().unwrap());
    }
    answer
}

pub(crate) fn respond(status: u16, stream: bool, answer: Answer) -> Response<Answer> {
    let kind = if stream { "text/event-stream; charset=utf-8" } else { "application/json" };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Response::builder().status(status).header("content-type", kind).body(answer).unwrap()
}

/// A response body: prepared frames, at a fixed pace if there is a delay, broken off after `cut` of them.
/// What is sent before the break gets a moment to leave.
pub(crate) struct Answer {
    frames: Arc<Vec<Bytes>>,
    next: usize,
    cut: Option<usize>,
    pace: Option<Pace>,
}

impl Answer {
    pub(crate) fn new(frames: Arc<Vec<Bytes>>, delay: Option<Duration>, cut: Option<usize>) -> Self {
        Answer { frames, next: 0, cut, pace: delay.map(pace) }
    }
}

/// The delay, the start that deadlines count from, and the timer.
type Pace = (Duration, Instant, Pin<Box<Sleep>>);

fn pace(delay: Duration) -> Pace {
    (delay, Instant::now(), Box::pin(tokio::time::sleep(delay)))
}

impl Body for Answer {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        // A one-document answer is cut before it starts; a stream after its role chunk and `cut` content chunks.
        if this.cut.is_some_and(|n| this.next > n || this.frames.len() == 1) {
            let sleep = &mut this.pace.get_or_insert_with(|| pace(Duration::from_millis(20))).2;
            return sleep.as_mut().poll(cx).map(|()| Some(Err("cut as asked")));
        }
        let Some(frame) = this.frames.get(this.next) else { return Poll::Ready(None) };
        if let Some((delay, start, sleep)) = &mut this.pace {
            // Deadlines count from the start, so that a late wake-up does not slow the rest down.
            let due = *start + *delay * this.next as u32;
            if Instant::now() < due {
                if sleep.deadline() != due {
                    sleep.as_mut().reset(due);
                }
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        }
        let frame = frame.clone();
        this.next += 1;
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.frames.len()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self.frames.len() {
            0 => http_body::SizeHint::with_exact(0),
            1 => http_body::SizeHint::with_exact(self.frames[0].len() as u64),
            _ => http_body::SizeHint::default(),
        }
    }
}
