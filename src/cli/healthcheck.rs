//! `antwort healthcheck`: checks that a running gateway is alive.
//!
//! Not that it is ready: the caller restarts a gateway that does not answer, and a restart helps neither against a
//! provider's outage nor against a slow drain. Of the settings only `listen` is read. Plain HTTP/1.1 over a blocking
//! socket: the check runs every few seconds and must be cheap.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use reqwest::Url;

use super::output::{print_error, print_line};
use antwort_config::{LoadOptions, listen_address};

/// Longer than the gateway's own checks.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Calls the given URL, or the address of `listen`.
pub(super) fn run(url: Option<&str>, options: &LoadOptions) -> ExitCode {
    let answer = match url {
        Some(url) => get(url),
        None => match listen_address(options) {
            Ok(address) => get(&format!("http://{}", reachable(address))),
            Err(errors) => Err(io::Error::other(errors.to_string())),
        },
    };
    match answer {
        Ok(200) => {
            print_line("alive");
            ExitCode::SUCCESS
        }
        Ok(status) => {
            print_error(&format!("not alive: status {status}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            print_error(&format!("not alive: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The address under which a listener on `listen` is reached from this machine.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listen.port())
}

/// The status of a GET; of `/healthz` if the URL has no path.
fn get(url: &str) -> io::Result<u16> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{why}: {url}"));
    let url = Url::parse(url).map_err(|_| wrong("not a URL"))?;
    if url.scheme() != "http" {
        return Err(wrong("only http:// is supported"));
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(wrong("no host"));
    };
    let mut stream = connect(host.trim_matches(['[', ']']), port)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // One write: `write!` would send each piece separately.
    let path = if url.path() == "/" { "/healthz" } else { url.path() };
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP"))
}

/// Connects to the first address of the host that accepts.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::{get, reachable};

    /// A server that sends `answer` to one connection; returns its port, and the request.
    fn server(answer: &'static str) -> (u16, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).expect("a request");
            stream.write_all(answer.as_bytes()).expect("written");
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        (port, serving)
    }

    #[test]
    fn the_status_counts() {
        for (answer, status) in [
            ("HTTP/1.1 200 OK\r\n\r\n{}", Some(200)),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", Some(503)),
            ("SSH-2.0-OpenSSH\r\n", None),
        ] {
            let (port, serving) = server(answer);
            assert_eq!(get(&format!("http://localhost:{port}/readyz")).ok(), status, "{answer}");
            let request = serving.join().expect("served");
            assert!(request.starts_with("GET /readyz HTTP/1.1\r\n"), "{request}");
        }
        let (port, serving) = server("HTTP/1.1 200 OK\r\n\r\n{}");
        assert_eq!(get(&format!("http://localhost:{port}")).ok(), Some(200));
        assert!(serving.join().expect("served").starts_with("GET /healthz HTTP/1.1\r\n"));
    }

    #[test]
    fn what_cannot_be_asked_is_an_error() {
        for url in ["", "localhost", "https://localhost/", "http://127.0.0.1:1/readyz"] {
            assert!(get(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_gateway_on_all_addresses_is_asked_on_loopback() {
        let reached = |text: &str| reachable(text.parse().expect("an address")).to_string();
        assert_eq!(reached("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(reached("[::]:80"), "[::1]:80");
        assert_eq!(reached("10.1.2.3:80"), "10.1.2.3:80");
    }
}
