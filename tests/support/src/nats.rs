//! A NATS server of Debian's package, on a port of its own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's stands where only root's path looks.
fn program() -> &'static str {
    const DEBIAN: &str = "/usr/sbin/nats-server";
    if std::path::Path::new(DEBIAN).exists() { DEBIAN } else { "nats-server" }
}

/// A server, which ends with this.
pub struct NatsServer {
    port: u16,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts one on a port that was free.
    pub fn start() -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut server = Self { port, child: None };
        server.restart();
        server
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it, if it runs, and starts it at the same place.
    pub fn restart(&mut self) {
        self.kill();
        let child = Command::new(program())
            .args(["--addr", "127.0.0.1", "--port", &self.port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server is installed (Debian: nats-server)");
        self.child = Some(child);
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(Instant::now() < until, "nats-server does not listen");
            std::thread::yield_now();
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
