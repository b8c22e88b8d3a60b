//! A server that answers request after request by a script, byte for byte, and keeps what it was sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// One thing that the server does.
#[derive(Clone)]
pub(super) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// The last, empty chunk.
    End,
    Close,
}

impl Step {
    /// Status and headers of an answer in chunks.
    pub(crate) fn head(content_type: &str) -> Self {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n");
        Self::Send(head.into_bytes())
    }

    pub(crate) fn chunk(data: &str) -> Self {
        Self::Send(format!("{:x}\r\n{data}\r\n", data.len()).into_bytes())
    }
}

/// Events, each in a chunk of its own.
pub(super) fn stream<'a>(events: impl IntoIterator<Item = &'a str>) -> Vec<Step> {
    let chunks = events.into_iter().map(Step::chunk);
    std::iter::once(Step::head("text/event-stream")).chain(chunks).chain([Step::End]).collect()
}

pub(super) fn json(body: &str) -> Vec<Step> {
    status(200, &[("content-type", "application/json")], body)
}

/// An answer with this status; JSON unless it begins like a page.
pub(super) fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<Step> {
    let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let kind =
        if headers.contains("content-type") { String::new() } else { format!("content-type: {kind}\r\n") };
    let answer =
        format!("HTTP/1.1 {status} X\r\n{headers}{kind}content-length: {}\r\n\r\n{body}", body.len());
    vec![Step::Send(answer.into_bytes())]
}

#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

pub(super) struct Server {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<VecDeque<Vec<Step>>>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    hung_up: Notify,
}

impl Server {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let shared =
            Arc::new(Shared { answers: Mutex::new(answers.into_iter().collect()), ..Shared::default() });
        let (tasks, all) = (TaskTracker::new(), Arc::clone(&shared));
        let connections = tasks.clone();
        tasks.spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                all.connections.fetch_add(1, Ordering::Relaxed);
                connections.spawn(serve(connection, Arc::clone(&all)));
            }
        });
        Self { url, shared }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Waits until a client closes its connection in the middle of an answer.
    pub(crate) async fn hung_up(&self) {
        self.shared.hung_up.notified().await;
    }
}

async fn serve(mut connection: TcpStream, shared: Arc<Shared>) {
    while let Some(request) = read(&mut connection).await {
        shared.requests.lock().push(request);
        let answer = shared.answers.lock().pop_front().expect("a scripted answer");
        for step in answer {
            match step {
                Step::Send(bytes) => {
                    if connection.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::End => drop(connection.write_all(b"0\r\n\r\n").await),
                Step::Close => return,
                Step::Wait(time) => {
                    let mut byte = [0];
                    tokio::select! {
                        () = tokio::time::sleep(time) => {}
                        _ = connection.read(&mut byte) => return shared.hung_up.notify_one(),
                    }
                }
            }
        }
    }
}

async fn read(connection: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut request = Request { line, headers: headers.collect(), body: String::new() };
    let length = request.header("content-length").parse().unwrap_or(0);
    while bytes.len() < head + 4 + length {
        connection.read_buf(&mut bytes).await.ok()?;
    }
    request.body = String::from_utf8(bytes[head + 4..].to_vec()).unwrap();
    Some(request)
}
