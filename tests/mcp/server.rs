//! The scripted server itself, so that tests of the gateway can rely on it.

mod access;
mod tools;
mod transports;
mod troubles;

use antwort_test_support::mcp_client::McpClient;
use antwort_test_support::mcp_server::McpServer;

/// A server and a client that has shaken hands with it.
async fn opened() -> (McpServer, McpClient) {
    let server = McpServer::spawn().await;
    let mut client = McpClient::new(server.url());
    client.initialize().await;
    (server, client)
}
