//! The network of a company, in processes of their own: a proxy that alone resolves names, servers with certificates of
//! a private authority.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

use super::eventually;

/// An authority that no system trusts, and the files that it issued.
pub struct TestCa {
    folder: TempDir,
    params: CertificateParams,
    key: KeyPair,
}

/// A certificate with its key, as PEM files.
#[derive(Debug, Clone)]
pub struct IssuedCert {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl TestCa {
    pub fn generate() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "a private authority");
        let key = KeyPair::generate().unwrap();
        let this = Self { folder: tempfile::tempdir().unwrap(), params, key };
        std::fs::write(this.file(), this.params.self_signed(&this.key).unwrap().pem()).unwrap();
        this
    }

    /// Its own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// For a server or a client of this name.
    pub fn issue(&self, name: &str) -> IssuedCert {
        self.issue_by(name, CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// The same, whose time is over.
    pub fn issue_expired(&self, name: &str) -> IssuedCert {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.issue_by(name, params)
    }

    fn issue_by(&self, name: &str, mut params: CertificateParams) -> IssuedCert {
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let file = |kind: &str| self.folder.path().join(format!("{name}.{kind}.pem"));
        let issued = IssuedCert { cert: file("cert"), key: file("key") };
        std::fs::write(&issued.cert, params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
        std::fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }
}

/// A process that says its port first; killed with the test.
pub struct Server {
    pub port: u16,
    said: Arc<Mutex<Vec<String>>>,
    child: Child,
}

impl Server {
    /// A proxy that knows servers on this machine by these names.
    pub fn proxy(arguments: &[&str], names: &[(&str, u16)]) -> Self {
        let names = names.iter().map(|(name, port)| format!("{name}={port}"));
        Self::start("proxy.py", arguments.iter().map(|argument| (*argument).to_owned()).chain(names))
    }

    /// A server with TLS before the one at this port; clients must show a certificate of `clients`.
    pub fn tls(port: u16, own: &IssuedCert, clients: Option<&Path>) -> Self {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let arguments = [port.to_string(), text(&own.cert), text(&own.key)];
        Self::start("tls_server.py", arguments.into_iter().chain(clients.map(text)))
    }

    fn start(script: &str, arguments: impl Iterator<Item = String>) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/network").join(script);
        let mut command = Command::new("python3");
        command.arg(script).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3, which these tests need");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().expect("a port").unwrap().parse().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().push(line);
            }
        });
        Self { port, said, child }
    }

    /// What it has printed since, once there are so many lines.
    pub async fn said(&self, lines: usize) -> Vec<String> {
        assert!(eventually(async || self.said.lock().len() >= lines).await, "{:?}", self.said);
        self.said.lock().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
