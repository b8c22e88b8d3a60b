//! Fixed headers: from the configuration, the caller or a request.

use super::request::InvalidHeader;
use super::*;

fn requested(
    authorization: Option<&str>,
    headers: &[(&str, &str)],
) -> Result<Arc<dyn Credentials>, InvalidHeader> {
    for_request(authorization, headers.iter().copied())
}

#[tokio::test]
async fn fixed_headers_are_sent_and_never_shown() {
    let said = json!({"headers": {"X-Key": "k3y"}, "auth": {"type": "bearer", "token": "t0ken"}});
    let server = Url::parse("https://h/mcp").unwrap();
    let source = CredentialSource::new(&settings(said), &egress(&[]), &server).unwrap();
    let credentials = source.for_caller(caller("Bearer callers").as_ref()).unwrap();
    let headers = credentials.headers().await.unwrap();
    assert_eq!((shown(&headers), headers["x-key"].to_str().unwrap()), (Some("Bearer t0ken"), "k3y"));
    assert!(!credentials.rejected(&headers, &WwwAuthenticate::default()).await, "there are no others");
    let text =
        format!("{headers:?} {:?} {:?}", StaticHeaders::new((*headers).clone()), credentials.fingerprint());
    assert!(!text.contains("t0ken") && !text.contains("k3y"), "{text}");
}

#[test]
fn fingerprints_differ_where_credentials_do() {
    let print =
        |authorization, headers: &[(&str, &str)]| requested(authorization, headers).unwrap().fingerprint();
    assert_eq!(
        print(Some("a"), &[("x", "1"), ("y", "2")]),
        print(Some("Bearer a"), &[("Y", "2"), ("X", "1")])
    );
    let all = [
        print(None, &[]),
        print(Some("a"), &[]),
        print(Some("b"), &[]),
        print(None, &[("x", "1")]),
        print(None, &[("x", "12")]),
        print(None, &[("x1", "2")]),
        print(None, &[("x", "1"), ("y", "2")]),
        print(None, &[("x", "2"), ("y", "1")]),
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(!all.iter().take(index).any(|other| other == one), "{index}");
    }
}

#[tokio::test]
async fn a_requests_authorization_is_a_bearer_token_with_or_without_the_word() {
    for said in ["abc", "Bearer abc", "bearer  abc", " abc "] {
        let headers = requested(Some(said), &[]).unwrap().headers().await.unwrap();
        assert_eq!(shown(&headers), Some("Bearer abc"), "{said}");
    }
    let headers = requested(None, &[("Authorization", "Basic YTpi")]).unwrap().headers().await.unwrap();
    assert_eq!(shown(&headers), Some("Basic YTpi"));
}

#[test]
fn headers_that_belong_to_the_transport_are_refused_without_their_values() {
    for name in
        ["Host", "content-length", "Mcp-Session-Id", "mcp-protocol-version", "Last-Event-ID", "TE", "upgrade"]
    {
        let error = requested(None, &[(name, "s3cret")]).err().unwrap();
        assert_eq!(error.to_string(), format!("the header `{name}` is set by the gateway"));
    }
    let many: Vec<_> = (0..100).map(|index| format!("x{index}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "s3cret")).collect();
    for (authorization, headers, problem) in [
        (Some("a"), &[("Authorization", "s3cret")][..], "conflicts with the field"),
        (None, &[("x", "s3cret"), ("X", "s3cret")], "is given twice"),
        (None, &[("x y", "s3cret")], "is not a valid header name"),
        (None, &[("x", "s3cret\r\nhost: h")], "has an invalid header value"),
        (Some("s3cret s3cret"), &[], "`authorization` is empty, or contains"),
        (Some(""), &[], "`authorization` is empty, or contains"),
        (None, &many, "exceeds the limit"),
    ] {
        let error = requested(authorization, headers).err().unwrap();
        let text = format!("{error} {error:?}");
        assert!(text.contains(problem) && !text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn the_callers_own_header_is_forwarded_as_it_came() {
    let source = source(json!({"type": "forward"}), &egress(&[]), "https://h/mcp");
    let of = |header: &str| source.for_caller(caller(header).as_ref()).unwrap();
    assert_eq!(shown(&of("Bearer one").headers().await.unwrap()), Some("Bearer one"));
    assert_eq!(shown(&of("Basic YTpi").headers().await.unwrap()), Some("Basic YTpi"));
    assert_eq!(of("Bearer one").fingerprint(), of("Bearer one").fingerprint());
    assert_ne!(of("Bearer one").fingerprint(), of("Bearer two").fingerprint());
    let error = source.for_caller(None).err().unwrap();
    assert!(matches!(error, McpError::Unauthorized { .. }));
    assert!(error.to_string().contains("the caller sent no bearer token"), "{error}");
}
