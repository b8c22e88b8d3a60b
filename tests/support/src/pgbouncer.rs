//! PgBouncer of Debian's package in transaction mode: each transaction may run on another connection to the server.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::postgres::{Cluster, own_folder, shell};

/// A pooler before a server; ends with this.
pub struct PgBouncer {
    folder: TempDir,
    port: u16,
    child: Option<Child>,
}

impl PgBouncer {
    /// Starts one that has so many connections to each database, for any number of clients.
    pub fn start(cluster: &Cluster, connections: usize) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let folder = own_folder();
        let (socket, server_port) = cluster.place();
        let config = format!(
            "[databases]\n\
             * = host={} port={server_port} user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             default_pool_size = {connections}\n\
             max_client_conn = 500\n",
            socket.display()
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), config).unwrap();
        let mut this = Self { folder, port, child: None };
        this.restart();
        this
    }

    /// The URL of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Kills it, if it runs, and starts it at the same place.
    pub fn restart(&mut self) {
        self.kill();
        // Debian's stands where only root's path looks.
        let program =
            if Path::new("/usr/sbin/pgbouncer").exists() { "/usr/sbin/pgbouncer" } else { "pgbouncer" };
        let child = shell()
            .args(["-c", &format!("exec {program} -q pgbouncer.ini")])
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh, and setpriv for root");
        self.child = Some(child);
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(
                Instant::now() < until,
                "pgbouncer does not listen: is it installed (Debian: pgbouncer)?"
            );
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

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.kill();
    }
}
