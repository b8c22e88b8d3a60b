//! Shared helpers of the bench kit's binaries.

use std::collections::HashMap;
use std::net::SocketAddr;

/// `--name value` and bare `--flag` arguments, in no particular order.
pub struct Args(HashMap<String, Vec<String>>);

impl Args {
    /// Reads the process arguments; names in `flags` take no value, names in `valued` take one.
    /// Anything else ends the process with the usage text.
    pub fn parse(flags: &[&str], valued: &[&str], usage: &str) -> Self {
        let mut map: HashMap<String, Vec<String>> = HashMap::new();
        let mut it = std::env::args().skip(1);
        while let Some(arg) = it.next() {
            let name = arg.trim_start_matches("--").to_string();
            let value = if flags.contains(&name.as_str()) {
                String::new()
            } else if valued.contains(&name.as_str()) {
                it.next().unwrap_or_else(|| die(&format!("--{name} needs a value\n{usage}")))
            } else {
                die(&format!("unknown argument {arg}\n{usage}"))
            };
            map.entry(name).or_default().push(value);
        }
        Args(map)
    }
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], |v| v)
    }
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).last().map(String::as_str)
    }
    pub fn num<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        match self.get(name) {
            None => default,
            Some(v) => v.parse().unwrap_or_else(|_| die(&format!("--{name}: bad number {v}"))),
        }
    }
}

/// Ends the process with a message and status 2.
pub fn die(msg: &str) -> ! {
    eprintln!("{msg}");
    std::process::exit(2)
}

/// A tokio runtime: one thread runs in place, more run as a thread pool.
pub fn runtime(threads: usize) -> tokio::runtime::Runtime {
    if threads <= 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    } else {
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
    }
}

/// Splits `http://host:port/prefix` into its socket address, authority and prefix.
/// Only loopback addresses are accepted: the kit never sends load anywhere else.
pub fn loopback_url(url: &str) -> (SocketAddr, String, String) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| die("the URL must start with http://"));
    let (authority, prefix) =
        rest.split_once('/').map_or((rest, String::new()), |(a, p)| (a, format!("/{p}")));
    let addr: SocketAddr = authority
        .replace("localhost", "127.0.0.1")
        .parse()
        .unwrap_or_else(|_| die("the URL needs an address and a port, such as http://127.0.0.1:8080"));
    if !addr.ip().is_loopback() {
        die("only loopback addresses are allowed");
    }
    (addr, authority.to_string(), prefix.trim_end_matches('/').to_string())
}

/// Pulls complete lines out of a byte stream that arrives in arbitrary pieces.
#[derive(Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Calls `f` for each line completed by `data`, without its line end.
    pub fn feed(&mut self, data: &[u8], mut f: impl FnMut(&[u8])) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', data) {
            if self.rest.is_empty() {
                f(trim_cr(&data[start..end]));
            } else {
                self.rest.extend_from_slice(&data[start..end]);
                f(trim_cr(&self.rest));
                self.rest.clear();
            }
            start = end + 1;
        }
        self.rest.extend_from_slice(&data[start..]);
    }
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
