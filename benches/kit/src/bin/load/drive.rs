//! Workers, each with one connection, that ask again as soon as they are answered.

use crate::check::{Seen, check_document};
use crate::tally::Tally;
use bench_kit::Lines;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

pub(crate) struct Plan {
    pub(crate) addr: SocketAddr,
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) stream: bool,
    pub(crate) direct: bool,
    pub(crate) timeout: Duration,
}

/// Runs `concurrency` workers until the requests are used up or the time is over.
pub(crate) async fn drive(plan: &Arc<Plan>, concurrency: usize, requests: u64, seconds: f64) -> Tally {
    let shared = Arc::new(Mutex::new(Tally::new()));
    let sent = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let workers: Vec<_> = (0..concurrency)
        .map(|_| {
            let (plan, sent, shared) = (plan.clone(), sent.clone(), shared.clone());
            tokio::spawn(async move {
                let mut conn = None;
                while Instant::now() < end && sent.fetch_add(1, Relaxed) < requests {
                    let start = Instant::now();
                    let result =
                        tokio::time::timeout(plan.timeout, one(&plan, &mut conn, &shared, start)).await;
                    let result = result.unwrap_or_else(|_| Err("timeout".into()));
                    let failed = result.is_err();
                    shared.lock().expect("tally").ended(result, micros(start));
                    if failed {
                        conn = None;
                        // Bounds the rate at which a broken server is asked again.
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("worker");
    }
    Arc::into_inner(shared).expect("all workers have ended").into_inner().expect("tally")
}

fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

type Conn = SendRequest<Full<Bytes>>;

async fn one(
    plan: &Plan,
    slot: &mut Option<Conn>,
    tally: &Mutex<Tally>,
    start: Instant,
) -> Result<(), String> {
    // A kept connection may have been closed by the server meanwhile; only then is a new one opened.
    if let Some(conn) = slot
        && conn.ready().await.is_err()
    {
        *slot = None;
    }
    if slot.is_none() {
        let socket = TcpStream::connect(plan.addr).await.map_err(|e| format!("connect: {}", e.kind()))?;
        let _ = socket.set_nodelay(true);
        let (sender, driver) =
            handshake(TokioIo::new(socket)).await.map_err(|e| format!("handshake: {e}"))?;
        tokio::spawn(driver);
        tally.lock().expect("tally").connects += 1;
        *slot = Some(sender);
    }
    let conn = slot.as_mut().unwrap();
    let mut request = Request::post(&plan.path)
        .header("host", &plan.authority)
        .header("content-type", "application/json")
        .header("accept", if plan.stream { "text/event-stream" } else { "application/json" });
    for (k, v) in &plan.headers {
        request = request.header(k, v);
    }
    let request = request.body(Full::new(plan.body.clone())).map_err(|e| e.to_string())?;
    let response = conn.send_request(request).await.map_err(|e| format!("send: {e}"))?;
    let status = response.status();
    let mut body = response.into_body();
    if status != 200 {
        let text = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        let text: String = String::from_utf8_lossy(&text).chars().take(160).collect();
        return Err(format!("status {}: {text}", status.as_u16()));
    }
    if !plan.stream {
        let bytes = body.collect().await.map_err(|e| format!("body: {e}"))?.to_bytes();
        tally.lock().expect("tally").bytes += bytes.len() as u64;
        return check_document(&bytes, plan.direct);
    }
    let mut lines = Lines::default();
    let mut seen = Seen::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| format!("body: {e}"))?;
        if let Some(data) = frame.data_ref() {
            let now = Instant::now();
            let mut tally = tally.lock().expect("tally");
            tally.bytes += data.len() as u64;
            lines.feed(data, |line| seen.line(line, plan.direct, start, now, &mut tally));
        }
    }
    seen.verdict()
}
