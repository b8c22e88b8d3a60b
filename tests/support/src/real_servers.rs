//! MCP servers that others wrote. `scripts/test-mcp` installs them and says where in `ANTWORT_MCP_SERVERS`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::eventually;

/// A program that speaks MCP over its standard input and output.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it needs in its environment beside `PATH` and `HOME`.
    pub env: Vec<(&'static str, String)>,
}

/// Everything that the protocol has.
pub fn everything() -> Program {
    program("mcp-server-everything", &["stdio"])
}

/// The files of a folder.
pub fn filesystem(folder: &Path) -> Program {
    program("mcp-server-filesystem", &[&text(folder)])
}

/// A graph of what was said, kept in a file.
pub fn memory(file: &Path) -> Program {
    Program { env: vec![("MEMORY_FILE_PATH", text(file))], ..program("mcp-server-memory", &[]) }
}

/// The time in places.
pub fn time() -> Program {
    program("mcp-server-time", &["--local-timezone", "UTC"])
}

/// A repository, which is made in this folder if there is none.
pub fn git(repository: &Path) -> Program {
    let made = Command::new("git").args(["init", "--quiet"]).arg(repository).status().unwrap();
    assert!(made.success());
    program("mcp-server-git", &["--repository", &text(repository)])
}

fn program(name: &str, args: &[&str]) -> Program {
    Program {
        command: text(&installed(name)),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
    }
}

/// Where a server is; fails the test if it is not installed.
fn installed(name: &str) -> PathBuf {
    let folder = std::env::var_os("ANTWORT_MCP_SERVERS").expect("these tests are run by scripts/test-mcp");
    let file = Path::new(&folder).join("bin").join(name);
    assert!(file.is_file(), "{} is missing: scripts/test-mcp installs it", file.display());
    file
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Everything that the protocol has, over HTTP, in a process that is killed with the test.
pub struct Everything {
    /// Where it is spoken to.
    pub url: String,
    /// Its port on the loopback interface.
    pub port: u16,
    child: Child,
    /// Holds its log.
    _folder: TempDir,
}

impl Everything {
    /// Over streamable HTTP.
    pub async fn streamable() -> Self {
        Self::start("streamableHttp", "mcp").await
    }

    /// Over HTTP with SSE.
    pub async fn sse() -> Self {
        Self::start("sse", "sse").await
    }

    async fn start(mode: &str, path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (log, port_file) = (folder.path().join("log"), folder.path().join("port"));
        let output = File::create(&log).unwrap();
        // What it listens on is decided there, since it would take all interfaces.
        let loopback = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp-servers/loopback.mjs");
        let mut child = Command::new(installed("mcp-server-everything"))
            .arg(mode)
            .env("NODE_OPTIONS", format!("--import=\"{loopback}\""))
            .env("ANTWORT_PORT_FILE", &port_file)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let mut port = None;
        let started = eventually(async || {
            port = std::fs::read_to_string(&port_file).ok().and_then(|port| port.parse::<u16>().ok());
            port.is_some() || child.try_wait().unwrap().is_some()
        });
        let started = started.await;
        let mut this = Self { url: String::new(), port: port.unwrap_or(0), child, _folder: folder };
        assert!(started && this.port > 0, "{}", std::fs::read_to_string(log).unwrap_or_default());
        this.url = format!("http://127.0.0.1:{}/{path}", this.port);
        this
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A server with sessions of an SDK, over streamable HTTP. Has one tool, `echo`.
pub struct Sessions {
    command: PathBuf,
    mode: &'static str,
    port: u16,
    child: Child,
}

impl Sessions {
    /// Of this SDK: `typescript`, `python`, `python-1.12`.
    pub fn start(sdk: &str, mode: &'static str) -> Self {
        let command = installed(&format!("mcp-sessions-{sdk}"));
        let (child, port) = Self::spawn(&command, mode, 0);
        Self { command, mode, port, child }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Ends it and starts it again at the same place, where it knows nothing of what was.
    pub fn restart(&mut self) {
        self.end();
        self.child = Self::spawn(&self.command, self.mode, self.port).0;
    }

    fn spawn(command: &Path, mode: &str, port: u16) -> (Child, u16) {
        let mut child = Command::new(command)
            .args([port.to_string().as_str(), mode])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().parse().unwrap_or_else(|_| panic!("no port: {line:?}")))
    }

    fn end(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.end();
    }
}
