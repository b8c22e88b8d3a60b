//! The gateway as a process of its own, which can be killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::eventually;
use super::upstream::Upstream;

/// The gateway, which Cargo builds beside the tests of its package.
pub fn gateway() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("antwort");
    assert!(program.exists(), "`cargo build` makes {}", program.display());
    program
}

/// The gateway one schema ahead, an example of the package: a `cargo test` that selects no target builds it.
pub fn next_version() -> PathBuf {
    let program = gateway().parent().unwrap().join("examples/antwort-next");
    assert!(program.exists(), "`cargo build --example antwort-next` makes {}", program.display());
    program
}

/// A running `antwort serve`; killed with the test.
pub struct Process {
    /// Without a path.
    pub base: String,
    listen: String,
    upstream: String,
    folder: PathBuf,
    environment: Vec<(String, String)>,
    program: PathBuf,
    child: Child,
}

impl Process {
    /// Starts one that keeps its database in this folder, and waits until it is ready.
    pub async fn start(folder: &Path, upstream: &Upstream) -> Self {
        Self::start_with_files(folder, upstream, None).await
    }

    /// As [`Self::start`], where a shell allows no more than so many open files.
    pub async fn start_with_files(folder: &Path, upstream: &Upstream, files: Option<u32>) -> Self {
        Self::start_with(folder, upstream, files.map(|files| format!("ulimit -Sn {files}; ")), &[]).await
    }

    /// As [`Self::start`], with more in its environment. What it logs is in the file `log` of the folder.
    pub async fn start_with_environment(
        folder: &Path,
        upstream: &Upstream,
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_with(folder, upstream, None, environment).await
    }

    /// As [`Self::start_with_environment`], where the system allows no more than so many open files.
    pub async fn start_with_few_files(
        folder: &Path,
        upstream: &Upstream,
        files: u32,
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_with(folder, upstream, Some(format!("ulimit -n {files}; ")), environment).await
    }

    /// As [`Self::start_with_environment`], without waiting until it is ready.
    pub fn launch(folder: &Path, upstream: &Upstream, environment: &[(&str, &str)]) -> Self {
        Self::launch_program(gateway(), folder, upstream, environment)
    }

    /// As [`Self::launch`], of this program.
    pub fn launch_program(
        program: PathBuf,
        folder: &Path,
        upstream: &Upstream,
        environment: &[(&str, &str)],
    ) -> Self {
        Self::launch_with(program, folder, upstream, None, environment)
    }

    async fn start_with(
        folder: &Path,
        upstream: &Upstream,
        limit: Option<String>,
        environment: &[(&str, &str)],
    ) -> Self {
        let this = Self::launch_with(gateway(), folder, upstream, limit, environment);
        this.until_ready().await;
        this
    }

    fn launch_with(
        program: PathBuf,
        folder: &Path,
        upstream: &Upstream,
        limit: Option<String>,
        environment: &[(&str, &str)],
    ) -> Self {
        // The clients and the provider of a test are all in its process.
        rlimit::increase_nofile_limit(u64::MAX).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let base = format!("http://{listen}");
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let child = run(&program, folder, &listen, &upstream.url, limit, &environment);
        let (upstream, folder) = (upstream.url.clone(), folder.to_owned());
        Self { base, listen, upstream, folder, environment, program, child }
    }

    /// Ends it as `kill -9` would, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again where it was.
    pub async fn restart(&mut self) {
        self.restart_as(self.program.clone()).await;
    }

    /// Starts it again where it was, with another value of a variable of its environment.
    pub async fn restart_with(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self.restart().await;
    }

    /// Starts this program where it was.
    pub async fn restart_as(&mut self, program: PathBuf) {
        self.child = run(&program, &self.folder, &self.listen, &self.upstream, None, &self.environment);
        self.program = program;
        self.until_ready().await;
    }

    /// Tells it to stop, as an operator's `kill` would.
    pub fn terminate(&self) {
        let status = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Tells it to stop, as Ctrl-C would.
    pub fn interrupt(&self) {
        let status = Command::new("kill").arg("-INT").arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// What it has logged, by a thread of its own, which sleeps once it has written all.
    pub fn log(&self) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.has_written() {
            assert!(Instant::now() < deadline, "the log is not written to its end");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Whether the thread that writes the log sleeps, or the process has ended.
    fn has_written(&self) -> bool {
        let state = |thread: &Path| {
            let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
        };
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        // Nobody has waited for it yet, or somebody has.
        if matches!(state(&process), Some('Z') | None) {
            return true;
        }
        let threads = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        let mut paths = threads.map(|thread| thread.path());
        let is_log = |thread: &PathBuf| std::fs::read(thread.join("comm")).is_ok_and(|name| name == b"log\n");
        paths.find(is_log).is_some_and(|thread| state(&thread) == Some('S'))
    }

    /// The files that it has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Its threads.
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// The most memory that it had, in bytes.
    pub fn peak_memory(&self) -> usize {
        peak_memory(self.child.id())
    }

    /// Its exit code, once it has ended.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Waits until it says that it is ready.
    pub async fn until_ready(&self) {
        let http = reqwest::Client::new();
        let url = format!("{}/readyz", self.base);
        let ready = async || http.get(&url).send().await.is_ok_and(|answer| answer.status() == 200);
        assert!(eventually(ready).await, "antwort serve did not become ready; {}", self.state());
    }

    /// What the system says of it, and the end of what it logged.
    fn state(&self) -> String {
        let id = self.child.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or("it has ended");
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(10).collect();
        format!("{state}\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The most memory that a process had, in bytes.
pub fn peak_memory(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

fn run(
    program: &Path,
    folder: &Path,
    listen: &str,
    upstream: &str,
    limit: Option<String>,
    environment: &[(String, String)],
) -> Child {
    let limit = limit.unwrap_or_default();
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("{limit}exec \"$0\" serve"))
        .arg(program)
        .current_dir(folder)
        .env_clear()
        .env("ANTWORT_LISTEN", listen)
        .env("ANTWORT_UPSTREAM_URL", upstream)
        .env("ANTWORT_STORE_URL", format!("sqlite:{}", folder.join("test.db").display()))
        .env("ANTWORT_LOG", "error")
        .envs(environment.iter().cloned())
        .stdin(Stdio::null());
    if !environment.is_empty() {
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
    }
    command.spawn().unwrap()
}
