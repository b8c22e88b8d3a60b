//! Certificates from PEM files: certificate authorities, and client certificates with their key.
//!
//! Each is validated by building a client with it, so that building one later cannot fail because of it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use reqwest::{Certificate, Identity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";

/// A CA file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCaCertificates {
    /// The file holds no certificate.
    #[error("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")]
    NoPem,
    /// One of the certificates is invalid.
    #[error("holds an invalid certificate: {0}")]
    Malformed(String),
}

/// A client certificate or key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClientCertificate {
    /// The certificate file holds no certificate.
    #[error("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    /// The key file holds no key.
    #[error("holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)")]
    NoKey,
    /// The key is encrypted.
    #[error("holds an encrypted private key; provide one without a passphrase")]
    EncryptedKey,
    /// Certificate and key do not match.
    #[error("holds a private key that does not match the certificate")]
    Mismatch,
    /// The certificate or the key is invalid.
    #[error("cannot be used: {0}")]
    Malformed(String),
}

impl InvalidClientCertificate {
    /// Whether it concerns the certificate file rather than the key file.
    pub fn is_about_certificate(&self) -> bool {
        matches!(self, Self::NoCertificate)
    }
}

/// Certificates of one or more authorities.
#[derive(Clone)]
pub struct CaCertificates {
    certificates: Vec<Certificate>,
    /// The same, for clients that are not the HTTP library's.
    der: Vec<CertificateDer<'static>>,
}

impl CaCertificates {
    /// Parses a PEM file of one or more certificates.
    ///
    /// # Errors
    /// If it holds no certificate, or an invalid one.
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidCaCertificates> {
        let pem = sections(pem, |kind| kind == CERTIFICATE);
        let malformed = |error: reqwest::Error| InvalidCaCertificates::Malformed(reason(&error));
        let certificates = Certificate::from_pem_bundle(pem.as_bytes()).map_err(malformed)?;
        if certificates.is_empty() {
            return Err(InvalidCaCertificates::NoPem);
        }
        reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only(certificates.clone())
            .build()
            .map_err(malformed)?;
        let der = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>();
        let der = der.map_err(|error| InvalidCaCertificates::Malformed(error.to_string()))?;
        Ok(Self { certificates, der })
    }

    pub(super) fn certificates(&self) -> impl Iterator<Item = Certificate> {
        self.certificates.iter().cloned()
    }

    pub(super) fn der(&self) -> impl Iterator<Item = CertificateDer<'static>> {
        self.der.iter().cloned()
    }
}

impl fmt::Debug for CaCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} certificates", self.certificates.len())
    }
}

/// A client certificate with its private key. `Debug` does not show the key.
#[derive(Clone)]
pub struct ClientCertificate {
    identity: Identity,
    /// The same, for clients that are not the HTTP library's.
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl ClientCertificate {
    /// Parses two PEM files: the certificate, optionally with intermediate certificates, and its private key.
    ///
    /// # Errors
    /// If a file is invalid, or the key does not match the certificate.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, InvalidClientCertificate> {
        let certificate = sections(certificate, |kind| kind == CERTIFICATE);
        if certificate.is_empty() {
            return Err(InvalidClientCertificate::NoCertificate);
        }
        let key = sections(key, |kind| kind.ends_with(PRIVATE_KEY));
        if key.is_empty() {
            return Err(InvalidClientCertificate::NoKey);
        }
        if key.contains("ENCRYPTED") {
            return Err(InvalidClientCertificate::EncryptedKey);
        }
        let identity = Identity::from_pem(format!("{certificate}{key}").as_bytes());
        let identity = identity.map_err(|error| InvalidClientCertificate::Malformed(reason(&error)))?;
        let malformed =
            |error: rustls::pki_types::pem::Error| InvalidClientCertificate::Malformed(error.to_string());
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>();
        let chain = chain.map_err(malformed)?;
        let key = Arc::new(PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(malformed)?);
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).identity(identity.clone());
        match client.build().map_err(|error| reason(&error)) {
            Ok(_) => Ok(Self { identity, chain, key }),
            Err(why) if why.contains("KeyMismatch") => Err(InvalidClientCertificate::Mismatch),
            Err(why) => Err(InvalidClientCertificate::Malformed(why)),
        }
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity.clone()
    }

    pub(super) fn chain_and_key(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (self.chain.clone(), self.key.clone_key())
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a certificate with its key")
    }
}

/// The PEM sections whose label is wanted; others, and text between them, are skipped.
fn sections(pem: &[u8], wanted: impl Fn(&str) -> bool) -> String {
    let text = String::from_utf8_lossy(pem);
    let mut kept = String::new();
    let mut inside = None;
    for line in text.lines().map(str::trim) {
        if let Some(kind) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) {
            inside = wanted(kind).then_some(kind);
        }
        if inside.is_some() {
            kept.push_str(line);
            kept.push('\n');
        }
        if line.starts_with("-----END ") {
            inside = None;
        }
    }
    kept
}

/// The innermost cause of an error: outer ones only say that the builder failed.
fn reason(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
