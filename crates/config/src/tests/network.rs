//! Proxies, certificate authorities and certificates: each error names its key, and no password is shown.

use std::path::Path;

use rcgen::{CertificateParams, KeyPair};

use super::{errors, load_with, settings, yaml};
use crate::show;

const PROVIDER: &str = "url: 'https://provider.test/v1'";

/// A certificate with its key, in this folder.
fn issue(folder: &Path, name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let file = |kind: &str, text: String| {
        let path = folder.join(format!("{name}.{kind}"));
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    (file("cert", params.self_signed(&key).expect("a certificate").pem()), file("key", key.serialize_pem()))
}

#[test]
fn credentials_of_proxies_are_never_shown() {
    let text = "providers: {default: {url: 'https://provider.test/v1', proxy: 'http://me:s3cret@one.test:1'}}\n\
                egress: {proxy: 'https://s3cret@two.test'}\nnetwork: {proxy: environment}";
    let environment = [("HTTPS_PROXY", "http://me:s3cret@three.test:3")];
    let loaded = load_with(text, &environment).expect("valid");
    let shown = format!("{}\n{:?}\n{:?}", show(&loaded), loaded.settings, loaded.warnings);
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(
        shown.contains("http://********@one.test:1") && shown.contains("https://********@two.test"),
        "{shown}"
    );
}

#[test]
fn what_is_no_proxy_is_refused_with_its_key() {
    for (text, environment, key) in [
        (
            format!("providers: {{p: {{{PROVIDER}, proxy: 'socks5://s3cret@x:1'}}}}"),
            vec![],
            "providers.p.proxy",
        ),
        (format!("providers: {{p: {{{PROVIDER}, proxy: 's3cret:3128'}}}}"), vec![], "providers.p.proxy"),
        ("egress: {proxy: 'http://proxy.test/s3cret'}".into(), vec![], "egress.proxy"),
        ("network: {proxy: 'http://s3cret@proxy.test'}".into(), vec![], "network.proxy"),
        ("network: {proxy: environment}".into(), vec![("HTTP_PROXY", "socks5://s3cret@x")], "network.proxy"),
        (
            "providers: {p: {url: 'http://localhost:1/v1', proxy: 'http://proxy.test'}}".into(),
            vec![],
            "providers.p.proxy",
        ),
    ] {
        let found = errors(&text, &environment);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{key}: ")), "{text}: {found:?}");
        assert!(!found[0].contains("s3cret"), "{found:?}");
        assert!(environment.iter().all(|(name, _)| found[0].contains(name)), "{found:?}");
    }
}

#[test]
fn what_is_wrong_with_a_file_of_certificates_is_said_with_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cert, key) = issue(folder.path(), "one.test");
    let (other_cert, _) = issue(folder.path(), "two.test");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let none = write("text", "no PEM");
    let broken = write("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let locked = write("locked", locked);
    let gone = "/nowhere/ca.pem".to_owned();
    let content = format!("file:{key}");
    let of = |said: &str| format!("providers: {{p: {{{PROVIDER}, {said}}}}}");
    let pair = |cert: &str, key: &str| of(&format!("client_cert: '{cert}', client_key: '{key}'"));
    for (text, key, words) in [
        (of(&format!("ca_file: {gone}")), "providers.p.ca_file", "cannot read /nowhere/ca.pem"),
        (of(&format!("ca_file: {none}")), "providers.p.ca_file", "no certificate in PEM"),
        (of(&format!("ca_file: {key}")), "providers.p.ca_file", "no certificate in PEM"),
        (of(&format!("ca_file: {broken}")), "providers.p.ca_file", "invalid certificate"),
        (of(&format!("ca_file: '{content}'")), "providers.p.ca_file", "omit `file:`"),
        (format!("egress: {{ca_file: {none}}}"), "egress.ca_file", "no certificate in PEM"),
        (format!("tls: {{ca_file: {gone}}}"), "tls.ca_file", "cannot read"),
        (of(&format!("client_cert: {cert}")), "providers.p.client_cert", "requires client_key"),
        (of(&format!("client_key: {key}")), "providers.p.client_key", "requires client_cert"),
        (pair(&gone, &key), "providers.p.client_cert", "cannot read"),
        (pair(&cert, &gone), "providers.p.client_key", "cannot read"),
        (pair(&key, &key), "providers.p.client_cert", "no certificate in PEM"),
        (pair(&cert, &cert), "providers.p.client_key", "no private key in PEM"),
        (pair(&cert, &locked), "providers.p.client_key", "encrypted private key"),
        (pair(&other_cert, &key), "providers.p.client_key", "does not match the certificate"),
        (pair(&broken, &key), "providers.p.client_key", "cannot be used"),
        (
            of(&format!("ca_file: {cert}")).replace("https", "http"),
            "providers.p.ca_file",
            "begins with http://",
        ),
    ] {
        let found = errors(&text, &[]);
        let [found] = found.as_slice() else { panic!("{text}: {found:?}") };
        assert!(found.starts_with(&format!("{key}: ")) && found.contains(words), "{text}: {found}");
        assert!(!found.contains("PRIVATE KEY-----\n"), "{found}");
    }
    let fine = settings(&pair(&cert, &key), &[]);
    assert!(fine.providers["p"].http.certificate.is_some());
    let shown = yaml(&fine);
    assert!(shown.contains(&cert) && shown.contains(&key), "{shown}");
}

#[test]
fn trusted_proxies_are_addresses_and_networks_but_not_all_of_them() {
    for wrong in ["10.0.0.0/33", "gw.test", "0.0.0.0/0", "::/0"] {
        let found = errors(&format!("server: {{trusted_proxies: [10.0.0.0/8, '{wrong}']}}"), &[]);
        assert!(found[0].starts_with("server.trusted_proxies[1]: "), "{found:?}");
    }
    let read = settings("server: {trusted_proxies: [10.0.0.1, '::ffff:10.0.0.2', 'fd00::/8']}", &[]);
    let shown: Vec<_> = read.server.trusted_proxies.iter().map(|proxy| proxy.0.to_string()).collect();
    assert_eq!(shown, ["10.0.0.1/32", "10.0.0.2/32", "fd00::/8"]);
}
