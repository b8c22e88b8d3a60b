//! The guard with servers on real ports, and with the spellings of addresses that are known to fool URL checks.

mod hops;
mod names;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn options() -> EgressOptions {
    EgressOptions {
        allow: Vec::new(),
        allowed_domains: None,
        max_redirects: 3,
        max_response_bytes: 1 << 20,
        timeout: Duration::from_secs(30),
        http: HttpClientOptions::default(),
    }
}

fn allowing(allow: &[&str]) -> EgressOptions {
    EgressOptions { allow: allow.iter().map(ToString::to_string).collect(), ..options() }
}

fn only_domains(domains: &[&str]) -> EgressOptions {
    EgressOptions { allowed_domains: Some(domains.iter().map(ToString::to_string).collect()), ..options() }
}

/// Answers each question with the next of its answers, the last one for ever.
struct Scripted {
    answers: Vec<&'static [&'static str]>,
    asked: AtomicUsize,
}

impl Scripted {
    fn new(answers: &[&'static [&'static str]]) -> Arc<Self> {
        Arc::new(Self { answers: answers.to_vec(), asked: AtomicUsize::new(0) })
    }
}

#[async_trait::async_trait]
impl Resolver for Scripted {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.get(asked).or(self.answers.last()).unwrap();
        Ok(answer.iter().map(|address| address.parse().unwrap()).collect())
    }
}

/// Serves on a port of the loopback, until the test's runtime is gone.
async fn serve(routes: axum::Router) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, routes).await.unwrap() });
    port
}

fn refused_address(error: &EgressError) -> bool {
    matches!(error, EgressError::AddressNotAllowed { .. } | EgressError::NameNotAllowed { .. })
}
