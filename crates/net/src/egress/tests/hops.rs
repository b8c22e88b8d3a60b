//! Requests that are sent: redirects, names that change their address, limits of size and time.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap as Headers, StatusCode as Status, header};
use axum::response::IntoResponse;
use axum::routing::{any, get, post};

use super::*;

fn moved(status: u16, to: &str) -> impl IntoResponse + use<> {
    (Status::from_u16(status).unwrap(), [(header::LOCATION, to.to_owned())])
}

/// Tells what it was sent.
async fn echo(method: axum::http::Method, headers: Headers, body: String) -> String {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned();
    format!("{method} {} {} {body}", header("x-key"), header("content-type"))
}

fn with_key() -> HeaderMap {
    HeaderMap::from_iter([("x-key".parse().unwrap(), HeaderValue::from_static("secret"))])
}

fn text(answer: &EgressResponse) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

#[tokio::test]
async fn fetches_and_posts() {
    let port = serve(Router::new().route("/", any(echo))).await;
    let egress = Egress::new(&allowing(&["127.0.0.1"])).unwrap();
    let url = format!("http://127.0.0.1:{port}/");
    let answer = egress.get(&url, with_key()).await.unwrap();
    assert_eq!((answer.status, text(&answer)), (200, "GET secret - "));
    assert_eq!(answer.content_type.as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.final_url.as_str(), url);
    let answer = egress.post_json(&url, HeaderMap::new(), &serde_json::json!({"a": 1})).await.unwrap();
    assert_eq!(text(&answer), r#"POST - application/json {"a":1}"#);
    let answer = egress.post_form(&url, HeaderMap::new(), "a=1".to_owned()).await.unwrap();
    assert_eq!(text(&answer), "POST - application/x-www-form-urlencoded a=1");
}

#[tokio::test]
async fn redirects_are_followed_within_an_origin_and_lose_their_headers_beyond_it() {
    let other = serve(Router::new().route("/", any(echo))).await;
    let elsewhere = format!("http://127.0.0.1:{other}/");
    let away = elsewhere.clone();
    let routes = Router::new()
        .route("/echo", any(echo))
        .route("/near/{status}", any(|Path(status): Path<u16>| async move { moved(status, "/echo") }))
        .route("/far/{status}", any(move |Path(status): Path<u16>| async move { moved(status, &away) }))
        .route("/lost", any(|| async { Status::FOUND }));
    let port = serve(routes).await;
    let egress = Egress::new(&allowing(&["127.0.0.1"])).unwrap();
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let body = serde_json::json!(1);
    for status in [301, 302, 303, 307, 308] {
        let answer = egress.get(&url(&format!("/near/{status}")), with_key()).await.unwrap();
        assert_eq!(text(&answer), "GET secret - ", "{status}");
        assert_eq!(answer.final_url.as_str(), url("/echo"));
        let answer = egress.get(&url(&format!("/far/{status}")), with_key()).await.unwrap();
        assert_eq!(text(&answer), "GET - - ", "{status}");
        let answer = egress.post_json(&url(&format!("/near/{status}")), with_key(), &body).await.unwrap();
        let kept = if status < 307 { "GET secret - " } else { "POST secret application/json 1" };
        assert_eq!(text(&answer), kept, "{status}");
        let answer = egress.post_json(&url(&format!("/far/{status}")), with_key(), &body).await.unwrap();
        if status < 307 {
            assert_eq!(text(&answer), "GET - - ", "{status}");
        } else {
            assert_eq!((answer.status, text(&answer)), (status, ""), "bodies stay at home");
        }
    }
    assert_eq!(egress.get(&url("/lost"), HeaderMap::new()).await.unwrap().status, 302);
}

#[tokio::test]
async fn no_redirect_leads_inside() {
    for target in [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/",
        "http://127.0.0.2/",
        "http://[::1]/",
        "http://2130706434/",
        "file:///etc/passwd",
        "FTP://127.0.0.1/",
        "http://user:password@127.0.0.1/",
    ] {
        let port = serve(Router::new().route("/", get(move || async move { moved(302, target) }))).await;
        let egress = Egress::new(&allowing(&["127.0.0.1"])).unwrap();
        let error = egress.get(&format!("http://127.0.0.1:{port}/"), HeaderMap::new()).await.unwrap_err();
        assert!(error.is_refusal(), "{target}: {error}");
        assert!(!error.to_string().contains("169.254"), "{error}");
    }
}

#[tokio::test]
async fn allowed_domains_hold_on_every_hop() {
    let port = serve(Router::new().route("/", get(|| async { moved(302, "http://elsewhere.test/") }))).await;
    let options =
        EgressOptions { allowed_domains: Some(vec!["127.0.0.1".into()]), ..allowing(&["127.0.0.1"]) };
    let egress = Egress::new(&options).unwrap();
    let error = egress.get(&format!("http://127.0.0.1:{port}/"), HeaderMap::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "a redirect's target is not among the allowed domains");
}

#[tokio::test]
async fn redirects_are_counted() {
    let step = |Path(left): Path<u16>| async move {
        if left == 0 {
            "there".into_response()
        } else {
            moved(302, &format!("/{}", left - 1)).into_response()
        }
    };
    let port = serve(Router::new().route("/{left}", get(step))).await;
    let egress = Egress::new(&allowing(&["127.0.0.1"])).unwrap();
    let url = |left: u16| format!("http://127.0.0.1:{port}/{left}");
    assert_eq!(text(&egress.get(&url(3), HeaderMap::new()).await.unwrap()), "there");
    let error = egress.get(&url(4), HeaderMap::new()).await.unwrap_err();
    assert_eq!(error, EgressError::TooManyRedirects { limit: 3 });
    let none = EgressOptions { max_redirects: 0, ..allowing(&["127.0.0.1"]) };
    let error = Egress::new(&none).unwrap().get(&url(1), HeaderMap::new()).await.unwrap_err();
    assert_eq!(error, EgressError::TooManyRedirects { limit: 0 });
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_judged_at_each_connection() {
    let once = || async { ([(header::CONNECTION, "close")], "allowed") };
    let port = serve(Router::new().route("/", get(once))).await;
    // Whoever looked the name up first and connected by a second answer would not notice.
    let rebinding = Scripted::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let egress = Egress::with_resolver(&allowing(&["127.0.0.1"]), rebinding.clone()).unwrap();
    let url = format!("http://rebinding.test:{port}/");
    assert_eq!(text(&egress.get(&url, HeaderMap::new()).await.unwrap()), "allowed");
    assert_eq!(rebinding.asked.load(Ordering::SeqCst), 1, "what was judged is what is connected to");
    let second = egress.get(&url, HeaderMap::new()).await.unwrap_err();
    assert!(refused_address(&second), "{second}");
}

#[tokio::test]
async fn a_public_answer_does_not_vouch_for_the_next_one() {
    let resolver = Scripted::new(&[&["93.184.216.34", "10.0.0.1"], &["127.0.0.1"]]);
    let rules = Arc::new(EgressRules::parse(&[], None).unwrap());
    let guard = GuardedResolver { resolver, rules, port: None };
    let ask = || reqwest::dns::Resolve::resolve(&guard, "rebinding.test".parse().unwrap());
    let first: Vec<_> = ask().await.unwrap().map(|address| address.ip().to_string()).collect();
    assert_eq!(first, ["93.184.216.34"]);
    assert!(ask().await.is_err_and(|error| error.is::<super::super::resolve::AddressesRefused>()));
}

#[tokio::test]
async fn addresses_that_are_not_allowed_are_left_out_of_those_that_are_tried() {
    let port = serve(Router::new().route("/", get(|| async { "here" }))).await;
    let resolver = Scripted::new(&[&["10.0.0.1", "::1", "127.0.0.1"]]);
    let egress = Egress::with_resolver(&allowing(&["127.0.0.1"]), resolver).unwrap();
    let answer = egress.get(&format!("http://mixed.test:{port}/"), HeaderMap::new()).await.unwrap();
    assert_eq!(text(&answer), "here");
}

#[tokio::test]
async fn a_name_is_opened_by_its_entry_and_only_at_its_port() {
    let port = serve(Router::new().route("/", get(|| async { "here" }))).await;
    let other = serve(Router::new().route("/", get(|| async { "other" }))).await;
    for (entry, opened) in [
        ("inner.test".to_owned(), true),
        (format!("inner.test:{port}"), true),
        (format!("127.0.0.1:{port}"), true),
        (format!("127.0.0.0/8:{port}"), true),
        (format!("inner.test:{other}"), false),
        (format!("127.0.0.1:{other}"), false),
        ("other.test".to_owned(), false),
        ("test".to_owned(), false),
    ] {
        let egress = Egress::with_resolver(&allowing(&[&entry]), Scripted::new(&[&["127.0.0.1"]])).unwrap();
        let answer = egress.get(&format!("http://Inner.test:{port}/"), HeaderMap::new()).await;
        match answer {
            Ok(answer) => assert!(opened && text(&answer) == "here", "{entry}"),
            Err(error) => assert!(!opened && refused_address(&error), "{entry}: {error}"),
        }
    }
}

#[tokio::test]
async fn answers_are_limited_in_size_whether_or_not_they_say_it() {
    let stream = || async {
        let pieces = futures_util::stream::iter((0..64).map(|_| Ok::<_, io::Error>(vec![b'x'; 1024])));
        axum::body::Body::from_stream(pieces)
    };
    let routes = Router::new()
        .route("/said", get(|| async { "x".repeat(64 * 1024) }))
        .route("/unsaid", get(stream))
        .route("/small", post(|| async { "x".repeat(4096) }));
    let port = serve(routes).await;
    let options = EgressOptions { max_response_bytes: 4096, ..allowing(&["127.0.0.1"]) };
    let egress = Egress::new(&options).unwrap();
    for path in ["said", "unsaid"] {
        let error =
            egress.get(&format!("http://127.0.0.1:{port}/{path}"), HeaderMap::new()).await.unwrap_err();
        assert_eq!(error, EgressError::TooLarge { limit: 4096 }, "{path}");
    }
    let url = format!("http://127.0.0.1:{port}/small");
    assert_eq!(
        egress.post_json(&url, HeaderMap::new(), &serde_json::Value::Null).await.unwrap().body.len(),
        4096
    );
}

#[tokio::test]
async fn failures_are_told_apart() {
    let hang = || async {
        std::future::pending::<()>().await;
        ""
    };
    let cut = || async {
        let pieces: [Result<&str, io::Error>; 2] = [Ok("a"), Err(io::ErrorKind::Other.into())];
        axum::body::Body::from_stream(futures_util::stream::iter(pieces))
    };
    let port = serve(Router::new().route("/hang", get(hang)).route("/cut", get(cut))).await;
    let options = EgressOptions { timeout: Duration::from_millis(100), ..allowing(&["127.0.0.1"]) };
    let egress = Egress::new(&options).unwrap();
    let error = egress.get(&format!("http://127.0.0.1:{port}/hang"), HeaderMap::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 0.1 s");
    let patient = Egress::new(&allowing(&["127.0.0.1"])).unwrap();
    let error = patient.get(&format!("http://127.0.0.1:{port}/cut"), HeaderMap::new()).await.unwrap_err();
    assert!(matches!(&error, EgressError::Broken { host, .. } if host == "127.0.0.1"), "{error}");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let error =
        patient.get(&format!("http://127.0.0.1:{free}/?key=secret"), HeaderMap::new()).await.unwrap_err();
    assert!(matches!(&error, EgressError::Connect { host, .. } if host == "127.0.0.1"), "{error}");
}

#[tokio::test]
async fn a_client_for_streams_is_guarded_too() {
    let port = serve(Router::new().route("/", get(|| async { moved(302, "/x") }))).await;
    let egress = Egress::with_resolver(&options(), Scripted::new(&[&["127.0.0.1"]])).unwrap();
    let url = Url::parse(&format!("http://inner.test:{port}/")).unwrap();
    assert!(egress.client(&url).unwrap().get(url.clone()).send().await.is_err());
    let egress = Egress::new(&allowing(&["127.0.0.1"])).unwrap();
    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    let response = egress.client(&url).unwrap().get(url).send().await.unwrap();
    assert_eq!(response.status(), 302);
}
