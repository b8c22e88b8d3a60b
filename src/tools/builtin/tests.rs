//! What the tests of the tools share, and which tools a configuration makes possible.

use std::sync::Arc;
use std::time::Duration;

use crate::net::egress::{Egress, EgressOptions};

/// Reaches the loopback address, and no other inner one.
pub fn open_egress() -> Arc<Egress> {
    let options = EgressOptions {
        allow: vec!["127.0.0.1".into()],
        allowed_domains: None,
        max_redirects: 3,
        max_response_bytes: 1 << 20,
        timeout: Duration::from_secs(30),
    };
    Arc::new(Egress::new(&options).unwrap())
}

/// Serves on the loopback address until the test's runtime is gone; the base URL.
pub async fn serve(routes: axum::Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, routes).await.unwrap() });
    format!("http://{address}")
}
