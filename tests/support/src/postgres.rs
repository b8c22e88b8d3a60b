//! PostgreSQL for tests: a server of the test process's own, and a database for each test.
//!
//! `DATABASE_URL` names another server, in whose databases nothing but new ones is touched. A server of the tests' own is
//! a child of a shell that waits for the end of its input: it ends with the test process, however that ends.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use antwort_store_postgres::{PostgresOptions, PostgresStore, migrate};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};
use tokio_util::task::TaskTracker;

use super::network::IssuedCert;

/// The user and the group that are nobody, as root may not run the server.
const NOBODY: u32 = 65534;

/// Makes a cluster, starts its server, and stops and starts it as it is told, until the end of the input.
const SUPERVISOR: &str = r#"
    set -u
    folder=$1 bin=$2; shift 2
    "$bin/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 -N >"$folder/initdb.log" 2>&1 || {
        cat "$folder/initdb.log" >&2; exit 1
    }
    start() {
        "$bin/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= -c max_connections=400 -c shared_buffers=64MB \
            -c unix_socket_permissions=0777 "$@" >>"$folder/log" 2>&1 </dev/null &
        pid=$!
        until "$bin/pg_isready" -q -h "$folder" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
        "$bin/pg_isready" -q -h "$folder" && echo started || { cat "$folder/log" >&2; echo failed; }
    }
    stop() {
        kill -QUIT "$pid" 2>/dev/null; wait "$pid"
    }
    start "$@"
    while read -r line; do
        case $line in
            stop) stop; echo stopped ;;
            start) start "$@" ;;
        esac
    done
    stop
    rm -rf "$folder/data"
"#;

/// A server with its cluster.
pub struct Cluster {
    folder: TempDir,
    /// Of its socket, and of the loopback interface if it listens there.
    port: u16,
    supervisor: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Cluster {
    /// Starts one with these settings (`name=value`).
    pub fn start(settings: &[&str]) -> Self {
        Self::launch(own_folder(), 5432, settings)
    }

    /// Starts one that listens at the loopback interface, too, has this certificate, and lets in whom these lines of its
    /// `pg_hba.conf` let in.
    pub fn start_with_tls(own: &IssuedCert, admitted: &str) -> Self {
        let folder = own_folder();
        let put = |name: &str, text: &[u8], mode: u32| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            give_away(&file);
            file.to_str().unwrap().to_owned()
        };
        let cert = put("server.pem", &std::fs::read(&own.cert).unwrap(), 0o644);
        let key = put("server.key", &std::fs::read(&own.key).unwrap(), 0o600);
        let rules = put("hba.conf", admitted.as_bytes(), 0o644);
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={cert}"),
            format!("ssl_key_file={key}"),
            format!("hba_file={rules}"),
        ];
        Self::launch(folder, port, &settings.each_ref().map(String::as_str))
    }

    fn launch(folder: TempDir, port: u16, settings: &[&str]) -> Self {
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let mut supervisor = shell()
            .args(["-c", SUPERVISOR, "sh"])
            .args([folder.path(), &programs()])
            .args(settings)
            .env("PGPORT", port.to_string())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh, and setpriv for root");
        let (input, output) = (supervisor.stdin.take(), supervisor.stdout.take().unwrap());
        let mut this = Self { folder, port, supervisor, input, output: BufReader::new(output) };
        this.expect("started");
        this
    }

    /// Kills the server as a crash would.
    pub fn stop(&mut self) {
        self.tell("stop");
        self.expect("stopped");
    }

    /// Starts the server again.
    pub fn restart(&mut self) {
        self.tell("start");
        self.expect("started");
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{}/{database}", self.port)
    }

    /// The folder of its socket, and its port.
    pub fn place(&self) -> (&Path, u16) {
        (self.folder.path(), self.port)
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn expect(&mut self, answer: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), answer, "the server of the tests");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.input.take());
        _ = self.supervisor.wait();
    }
}

/// A folder of the user that runs the server.
pub fn own_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    give_away(folder.path());
    folder
}

/// Gives a file to the user that runs the server.
fn give_away(path: &Path) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A shell of that user.
pub fn shell() -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new("sh");
    }
    let mut command = Command::new("setpriv");
    let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()];
    command.args(user).arg("sh");
    command
}

/// The folder of the newest programs that are installed.
fn programs() -> PathBuf {
    let versions = Path::new("/usr/lib/postgresql").read_dir();
    let versions = versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let number = |bin: &PathBuf| bin.parent()?.file_name()?.to_str()?.parse::<f32>().ok();
    let newest = versions
        .filter(|bin| bin.join("initdb").exists())
        .max_by(|a, b| number(a).partial_cmp(&number(b)).unwrap());
    newest
        .or_else(on_path)
        .expect("PostgreSQL is not installed: apt-get install postgresql, or set DATABASE_URL")
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
}

/// Where the databases of the tests are.
enum Server {
    Given(String),
    Own(Cluster),
}

impl Server {
    fn shared() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| match std::env::var("DATABASE_URL") {
            Ok(url) => Self::Given(url),
            Err(_) => Self::Own(Cluster::start(&["fsync=off", "full_page_writes=off"])),
        })
    }

    fn url(&self, database: &str) -> String {
        match self {
            Self::Given(url) => {
                let (server, query) = url.split_once('?').unwrap_or((url, ""));
                let (server, _) = server.rsplit_once('/').expect("DATABASE_URL names a database");
                format!("{server}/{database}?{query}")
            }
            Self::Own(cluster) => cluster.url(database),
        }
    }

    fn admin_url(&self) -> String {
        match self {
            Self::Given(url) => url.clone(),
            Self::Own(cluster) => cluster.url("postgres"),
        }
    }
}

/// A database with the current schema, dropped with the test.
pub struct Database {
    name: String,
}

impl Database {
    /// Makes one.
    pub async fn new() -> Self {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let server = Server::shared();
        let template = TEMPLATE.get_or_init(|| async {
            let mut made = Self::empty().await;
            migrate(&made.url()).await.unwrap();
            // It goes with the server, or is left on a given one.
            std::mem::take(&mut made.name)
        });
        let template = template.await;
        let this = Self { name: new_name() };
        let sql = format!("CREATE DATABASE {} TEMPLATE {template}", this.name);
        connect(&server.admin_url()).await.batch_execute(&sql).await.unwrap();
        this
    }

    /// Makes one without a schema.
    pub async fn empty() -> Self {
        let this = Self { name: new_name() };
        let sql = format!("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'", this.name);
        connect(&Server::shared().admin_url()).await.batch_execute(&sql).await.unwrap();
        this
    }

    /// Its URL.
    pub fn url(&self) -> String {
        Server::shared().url(&self.name)
    }

    /// A connection beside the store's.
    pub async fn sql(&self) -> Client {
        connect(&self.url()).await
    }

    /// The store of a process.
    pub async fn open(&self, change: impl FnOnce(&mut PostgresOptions)) -> PostgresStore {
        let mut options = PostgresOptions::new(self.url(), "test");
        // Many tests share the server.
        options.pool_size = 3;
        change(&mut options);
        PostgresStore::open(options).await.unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        if name.is_empty() {
            return;
        }
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                _ = connect(&Server::shared().admin_url()).await.batch_execute(&sql).await;
            });
        });
        _ = dropped.join();
    }
}

/// A connection to this database.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    TaskTracker::new().spawn(connection);
    client
}

fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("antwort_test_{}_{number}", std::process::id())
}
