//! The least a Rust gateway can do; its numbers bound what any gateway can reach.
//! `http`: relays each request and its answer frame by frame through hyper, without looking inside.
//! `batch`: the same, but a task between the two bodies joins frames that have already arrived to one write.
//! `tcp`: copies bytes both ways, one upstream connection per client connection.
//! Each thread runs its own listener (SO_REUSEPORT), so that no request crosses threads.

use bench_kit::{Args, die, loopback_url, runtime};
use bytes::{Bytes, BytesMut};
use http_body_util::Either;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1 as client;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local, yield_now};

const USAGE: &str =
    "usage: floor-proxy --port PORT --upstream http://127.0.0.1:PORT [--mode http|batch|tcp] [--threads N]";

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Http,
    Batch,
    Tcp,
}

type Pool = Rc<RefCell<Vec<client::SendRequest<Incoming>>>>;

fn main() {
    let args = Args::parse(&[], &["port", "upstream", "mode", "threads"], USAGE);
    let addr = SocketAddr::from(([127, 0, 0, 1], args.num("port", 8090)));
    let (upstream, _, _) = loopback_url(args.get("upstream").unwrap_or("http://127.0.0.1:8091"));
    let mode = match args.get("mode").unwrap_or("http") {
        "http" => Mode::Http,
        "batch" => Mode::Batch,
        "tcp" => Mode::Tcp,
        _ => die(USAGE),
    };
    let threads: Vec<_> = (0..args.num("threads", 2))
        .map(|_| {
            std::thread::spawn(move || LocalSet::new().block_on(&runtime(1), serve(addr, upstream, mode)))
        })
        .collect();
    for thread in threads {
        thread.join().expect("thread");
    }
}

fn listen(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(addr)?;
    socket.listen(4096)
}

async fn serve(addr: SocketAddr, upstream: SocketAddr, mode: Mode) {
    let listener = listen(addr).expect("listen");
    let pool = Pool::default();
    loop {
        let Ok((mut socket, _)) = listener.accept().await else { continue };
        let _ = socket.set_nodelay(true);
        let pool = pool.clone();
        spawn_local(async move {
            if mode == Mode::Tcp {
                let Ok(mut peer) = TcpStream::connect(upstream).await else { return };
                let _ = peer.set_nodelay(true);
                let _ = tokio::io::copy_bidirectional(&mut socket, &mut peer).await;
            } else {
                let service = service_fn(|req| relay(req, pool.clone(), upstream, mode == Mode::Batch));
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
            }
        });
    }
}

async fn relay(
    req: Request<Incoming>,
    pool: Pool,
    upstream: SocketAddr,
    batch: bool,
) -> Result<Response<Either<Incoming, Pumped>>, Box<dyn std::error::Error + Send + Sync>> {
    let idle = pool.borrow_mut().pop();
    let mut conn = match idle {
        Some(conn) if !conn.is_closed() => conn,
        _ => {
            let socket = TcpStream::connect(upstream).await?;
            socket.set_nodelay(true)?;
            let (sender, driver) = client::handshake(TokioIo::new(socket)).await?;
            spawn_local(driver);
            sender
        }
    };
    conn.ready().await?;
    let response = conn.send_request(req).await?;
    // Back to the pool only once the answer's body is through: `ready` says when.
    spawn_local(async move {
        if conn.ready().await.is_ok() {
            pool.borrow_mut().push(conn);
        }
    });
    Ok(response.map(|body| {
        if !batch {
            return Either::Left(body);
        }
        let (tx, rx) = mpsc::channel(4);
        spawn_local(pump(body, tx));
        Either::Right(Pumped(rx))
    }))
}

/// Hands on all frames that have arrived as one; the upstream connection's task gets a turn to bring each.
async fn pump(mut body: Incoming, tx: mpsc::Sender<Bytes>) {
    let mut held = BytesMut::new();
    loop {
        let waits = held.is_empty();
        let next = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Pending if waits => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
        });
        match next.await {
            Some(Some(Ok(frame))) => {
                held.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
                yield_now().await;
                continue;
            }
            Some(_) if held.is_empty() => return,
            _ => {}
        }
        if tx.send(held.split().freeze()).await.is_err() {
            return;
        }
    }
}

struct Pumped(mpsc::Receiver<Bytes>);

impl Body for Pumped {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|b| Ok(Frame::data(b))))
    }
}
