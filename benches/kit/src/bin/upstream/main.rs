//! A fast, deterministic mock of an OpenAI-compatible provider, steered by the model name.
//! The README lists the model names.

mod answer;
mod completions;
mod mcp;
mod native;
mod play;
mod requests;
mod script;

use crate::answer::{Answer, error, json_answer};
use bench_kit::{Args, runtime};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::net::TcpSocket;

const USAGE: &str = "usage: upstream --port PORT [--threads N]";
const MODELS: &[&str] = &[
    "text-20",
    "text-100",
    "text-200-5000us",
    "text-50-100000us",
    "tool-1",
    "tool-2",
    "loop-3",
    "loop-10",
    "echo",
    "slow-100",
    "err-500",
    "err-429",
    "cut-5",
];

static CHATS: AtomicU64 = AtomicU64::new(0);

fn main() {
    let args = Args::parse(&[], &["port", "threads"], USAGE);
    let port: u16 = args.num("port", 8091);
    runtime(args.num("threads", 2)).block_on(async move {
        let listener = listen(port).expect("listen");
        loop {
            let Ok((socket, _)) = listener.accept().await else { continue };
            let _ = socket.set_nodelay(true);
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(socket), service_fn(handle))
                    .await;
            });
        }
    });
}

async fn handle(req: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let path = req.uri().path().trim_end_matches('/').to_string();
    Ok(match (req.method(), path.as_str()) {
        (&Method::POST, "/v1/chat/completions") => match req.into_body().collect().await {
            Ok(body) => {
                CHATS.fetch_add(1, Relaxed);
                requests::chat(&body.to_bytes()).await
            }
            Err(_) => error(400, "unreadable body"),
        },
        (&Method::POST, "/v1/responses") => match req.into_body().collect().await {
            Ok(body) => requests::responses(&body.to_bytes()).await,
            Err(_) => error(400, "unreadable body"),
        },
        (&Method::POST, "/mcp") => match req.into_body().collect().await {
            Ok(body) => mcp::answer(&body.to_bytes()),
            Err(_) => error(400, "unreadable body"),
        },
        (&Method::GET, "/mcp") => error(405, "no server-sent stream here"),
        (&Method::DELETE, "/mcp") | (&Method::GET, "/health") => json_answer(200, &json!({"status": "ok"})),
        (&Method::GET, "/stats") => {
            json_answer(200, &json!({"chats": CHATS.load(Relaxed), "mcp_calls": mcp::CALLS.load(Relaxed)}))
        }
        (&Method::GET, "/v1/models") => json_answer(
            200,
            &json!({"object": "list", "data": MODELS.iter().map(|m| model(m)).collect::<Vec<_>>()}),
        ),
        (&Method::GET, p) if p.starts_with("/v1/models/") => {
            json_answer(200, &model(&p["/v1/models/".len()..]))
        }
        _ => error(404, "no such route"),
    })
}

fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 1_700_000_000, "owned_by": "mock", "max_model_len": 131_072})
}

/// With a backlog for thousands of connections at once.
fn listen(port: u16) -> std::io::Result<tokio::net::TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    socket.listen(4096)
}
