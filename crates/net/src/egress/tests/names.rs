//! URLs that are refused or let through for what they say, and names for what they resolve to.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn check(options: &EgressOptions, url: &str) -> Result<(), EgressError> {
    let url = Url::parse(url).map_err(|_| EgressError::BadUrl("it cannot be read"))?;
    Egress::new(options).unwrap().check(&url)
}

#[tokio::test]
async fn every_spelling_of_an_inner_address_is_refused_before_anything_is_sent() {
    let egress = Egress::new(&options()).unwrap();
    for url in [
        "http://127.0.0.1/",
        "http://127.0.0.1:8080/",
        "HTTP://127.0.0.1/",
        "hTTpS://127.0.0.1/",
        "http://2130706433/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://0x7f.0.0.1/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.1./",
        "http://１２７.0.0.1/",
        "http://127。0。0。1/",
        "http://%31%32%37.0.0.1/",
        "http:127.0.0.1/",
        "http:\\\\127.0.0.1\\",
        "http://0.0.0.0/",
        "http://0/",
        "http://10.0.0.1/",
        "http://192.168.0.1/",
        "http://172.16.5.4/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://255.255.255.255/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[::]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:7f00:1::]/",
        "http://[fc00::1]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://localhost/",
        "http://LOCALHOST:3000/",
        "http://localhost./",
        "http://api.localhost/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://Metadata.Google.Internal./",
        "http://metadata/",
    ] {
        let error = egress.get(url, HeaderMap::new()).await.unwrap_err();
        assert!(refused_address(&error), "{url}: {error}");
        assert!(error.is_refusal());
    }
}

#[tokio::test]
async fn urls_that_are_no_plain_web_addresses_are_refused() {
    let egress = Egress::new(&options()).unwrap();
    for url in [
        "",
        "example.com",
        "/etc/passwd",
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "unix:/run/docker.sock",
        "http://",
        "http:///",
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://:password@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com:80@127.0.0.1/",
        "http://127.0.0.1#@example.com@/x",
        "http://example.com:0/",
        "http://[fe80::1%25eth0]/",
        "http://exam ple.com/",
        "http://1.2.3.4.5/",
        "http://256.0.0.1/",
    ] {
        let error = egress.get(url, HeaderMap::new()).await.unwrap_err();
        assert!(matches!(error, EgressError::BadUrl(_)) || refused_address(&error), "{url}: {error}");
    }
}

#[test]
fn public_urls_pass() {
    for url in [
        "https://example.com/",
        "http://example.com:8080/a?b=c",
        "http://1.1.1.1/",
        "http://[2606:4700::1111]/",
    ] {
        assert_eq!(check(&options(), url), Ok(()), "{url}");
    }
}

#[test]
fn the_allow_list_opens_what_it_says() {
    for (allow, open, closed) in [
        ("127.0.0.1", "http://127.0.0.1:81/", "http://127.0.0.2/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", "http://[::1]/"),
        ("127.0.0.1", "http://localhost/", "http://[64:ff9b::7f00:1]/"),
        ("::ffff:127.0.0.1", "http://127.0.0.1/", "http://[::1]/"),
        ("127.1", "http://127.0.0.1/", "http://127.0.0.2/"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1/"),
        ("127.0.0.1:80", "http://127.0.0.1/", "https://127.0.0.1/"),
        ("127.0.0.1:443", "https://127.0.0.1/", "http://127.0.0.1/"),
        ("10.1.0.0/16", "http://10.1.255.1/", "http://10.2.0.1/"),
        ("10.1.0.0/16:9000", "http://10.1.2.3:9000/", "http://10.1.2.3:9001/"),
        ("::1", "http://[::1]:5/", "http://127.0.0.1/"),
        ("[::1]", "http://[::1]:5/", "http://127.0.0.1/"),
        ("[::1]:5", "http://[::1]:5/", "http://[::1]:6/"),
        ("fd00::/8", "http://[fd12::1]/", "http://[fc00::1]/"),
        ("[fd00::/8]:80", "http://[fd12::1]/", "http://[fd12::1]:81/"),
        ("localhost", "http://localhost:9/", "http://127.0.0.1:9/"),
        ("LocalHost.", "http://localhost/", "http://a.localhost/"),
        ("localhost:9", "http://localhost:9/", "http://localhost:8/"),
        ("metadata.google.internal", "http://metadata.google.internal/", "http://169.254.169.254/"),
        ("169.254.0.0/16", "http://169.254.169.254/", "http://127.0.0.1/"),
    ] {
        let options = allowing(&[allow]);
        assert_eq!(check(&options, open), Ok(()), "{allow} opens {open}");
        assert!(refused_address(&check(&options, closed).unwrap_err()), "{allow} leaves {closed} closed");
    }
}

#[test]
fn allowed_domains_are_the_only_ones() {
    let options = only_domains(&["Example.COM", "bücher.example.", "api.search.test", "1.1.1.1"]);
    for url in [
        "https://example.com/",
        "https://EXAMPLE.com./",
        "https://a.b.example.com/",
        "https://xn--bcher-kva.example/",
        "https://BÜCHER.example/",
        "https://api.search.test:8443/x",
        "http://1.1.1.1/",
    ] {
        assert_eq!(check(&options, url), Ok(()), "{url}");
    }
    for url in [
        "https://evilexample.com/",
        "https://example.com.evil.org/",
        "https://example.co/",
        "https://com/",
        "https://search.test/",
        "https://example.com%2eevil.org/",
        "https://evil.org/example.com",
        "https://evil.org?example.com",
        "https://evil.org#.example.com",
        "https://evil.org\\.example.com/",
        "http://1.1.1.2/",
        "http://127.0.0.1/",
    ] {
        let error = check(&options, url).unwrap_err();
        assert!(matches!(error, EgressError::DomainNotAllowed { .. }), "{url}: {error}");
    }
    let error = check(&options, "https://example.com@evil.org/").unwrap_err();
    assert!(matches!(error, EgressError::BadUrl(_)));
    let none = check(&only_domains(&[]), "https://example.com/").unwrap_err();
    assert_eq!(none.to_string(), "example.com is not among the allowed domains");
}

#[test]
fn both_lists_have_to_agree() {
    let both = EgressOptions { allowed_domains: Some(vec!["example.com".into()]), ..allowing(&["10.0.0.1"]) };
    assert!(matches!(check(&both, "http://10.0.0.1/"), Err(EgressError::DomainNotAllowed { .. })));
    let both = EgressOptions { allowed_domains: Some(vec!["10.0.0.1".into()]), ..both };
    assert_eq!(check(&both, "http://10.0.0.1/"), Ok(()));
}

#[test]
fn entries_that_cannot_be_read_are_named() {
    for entry in [
        "",
        " ",
        "a b",
        "http://example.com",
        "example.com/x",
        "10.0.0.0/33",
        "10.0.0.0/x",
        "host:",
        "host:0",
        "host:65536",
        "host:x",
        "user@host",
        "*.example.com",
        "[::1",
        "1.2.3.4.5",
        "[::1]:0",
    ] {
        let Err(error) = Egress::new(&allowing(&[entry])) else { panic!("'{entry}' was taken") };
        assert_eq!((error.list, error.entry.as_str()), ("allow", entry));
    }
    for entry in ["", "*.example.com", ".example.com", "https://example.com", "example.com:80", "a/b", "a b"]
    {
        let Err(error) = Egress::new(&only_domains(&[entry])) else { panic!("'{entry}' was taken") };
        assert!(error.to_string().starts_with(&format!("allowed_domains: '{entry}' ")), "{error}");
    }
}

#[tokio::test]
async fn names_are_judged_by_what_they_resolve_to() {
    for address in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fd00::1", "0.0.0.0"]
    {
        let inner: &'static [&'static str] = Box::leak(Box::new([address]));
        let egress = Egress::with_resolver(&options(), Scripted::new(&[inner])).unwrap();
        let error = egress.get("http://innocent.example/", HeaderMap::new()).await.unwrap_err();
        assert!(refused_address(&error), "{address}: {error}");
        assert_eq!(error.to_string(), "no connection to innocent.example", "as if nobody had the name");
    }
}

#[tokio::test]
async fn a_name_without_addresses_is_no_refusal() {
    let egress = Egress::with_resolver(&options(), Scripted::new(&[&[]])).unwrap();
    let error = egress.get("http://nowhere.example/", HeaderMap::new()).await.unwrap_err();
    assert!(matches!(&error, EgressError::Connect { host, .. } if host == "nowhere.example"), "{error}");
    assert!(!error.is_refusal());
}

#[tokio::test]
async fn callers_cannot_tell_a_name_that_exists_inside_from_one_that_nobody_has() {
    let told = async |answers: &'static [&'static [&'static str]]| {
        let egress = Egress::with_resolver(&options(), Scripted::new(answers)).unwrap();
        egress.get("http://vault.example/", HeaderMap::new()).await.unwrap_err().to_string()
    };
    assert_eq!(told(&[&["10.0.0.7"]]).await, told(&[&[]]).await);
}

/// Where the interesting addresses are, and anywhere.
fn any_v4() -> impl Strategy<Value = Ipv4Addr> {
    let first = prop_oneof![
        prop::sample::select(vec![0_u8, 10, 100, 127, 169, 172, 192, 198, 203, 224, 255]),
        any::<u8>()
    ];
    (first, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| Ipv4Addr::new(a, b, c, d))
}

proptest! {
    #[test]
    fn an_address_is_judged_the_same_however_it_is_spelled(address in any_v4(), url in any::<String>()) {
        let number = u32::from(address);
        let [a, b, c, d] = address.octets();
        let allowed = check(&options(), &format!("http://{address}/"));
        for host in [
            format!("{number}"),
            format!("{number:#x}"),
            format!("0{number:o}"),
            format!("{a:#x}.0{b:o}.{c}.{d}"),
            format!("{a}.{b}.{}", u32::from(c) << 8 | u32::from(d)),
            format!("{a}.{}", number & 0xff_ffff),
            format!("{address}."),
            format!("[{}]", address.to_ipv6_mapped()),
            format!("[64:ff9b::{:x}:{:x}]", number >> 16, number & 0xffff),
        ] {
            let got = check(&options(), &format!("http://{host}/"));
            prop_assert_eq!(got.is_ok(), allowed.is_ok(), "{} as {}", address, host);
        }
        for embedded in [
            format!("2002:{:x}:{:x}::", number >> 16, number & 0xffff),
            format!("::{address}"),
            format!("2001:0:{:x}:{:x}::", number >> 16, number & 0xffff),
        ] {
            let refused = check(&options(), &format!("http://[{embedded}]/"));
            prop_assert!(refused.is_err(), "{}", embedded);
        }
        let _ = check(&options(), &url);
        let _ = EgressRules::parse(std::slice::from_ref(&url), Some(std::slice::from_ref(&url)));
    }

    #[test]
    fn only_one_block_of_ipv6_is_public(address in any::<u128>().prop_map(Ipv6Addr::from)) {
        let public = check(&options(), &format!("http://[{address}]/")).is_ok();
        prop_assert!(!public || address.segments()[0] >> 13 == 1, "{}", address);
    }
}
