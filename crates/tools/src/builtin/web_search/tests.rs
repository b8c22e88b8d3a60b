//! The tool with an engine of the test's, and the engines against servers that answer as the real ones do.

use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use parking_lot::Mutex;

use super::*;
use crate::builtin::tests::{open_egress, serve};
use crate::{FailureStage, ToolErrorCode};

fn hit(title: &str, url: &str, snippet: &str) -> Hit {
    Hit { title: title.to_owned(), url: url.to_owned(), snippet: snippet.to_owned() }
}

/// Finds the same whatever is asked, and keeps what was.
struct Fixed(Vec<Hit>, Mutex<Vec<SearchQuery>>);

#[async_trait]
impl SearchEngine for Fixed {
    async fn search(&self, query: &SearchQuery, _domains: &[&str]) -> Result<Vec<Hit>, ToolError> {
        self.1.lock().push(query.clone());
        Ok(self.0.clone())
    }
}

async fn call(hits: Vec<Hit>, arguments: Value) -> (Result<ToolOutput, ToolError>, Vec<SearchQuery>) {
    let engine = Arc::new(Fixed(hits, Mutex::default()));
    let tool = WebSearch::new(engine.clone());
    let result = tool.call(arguments.as_object().unwrap(), &ToolContext::default()).await;
    let asked = engine.1.lock().clone();
    (result, asked)
}

fn many() -> Vec<Hit> {
    (0..30).map(|n| hit(&format!("Title {n}"), &format!("https://example.com/{n}"), "a snippet")).collect()
}

#[tokio::test]
async fn the_tool_answers_in_the_seeds_shape_with_citations() {
    let hits =
        vec![hit("One", "https://example.com/1", " an\n excerpt "), hit("Two", "http://two.test/", "")];
    let (output, asked) = call(hits, json!({"query": " rust \u{a0}"})).await;
    let output = output.unwrap();
    let expected = json!({
        "query": "rust",
        "results": [
            {"title": "One", "url": "https://example.com/1", "snippet": "an excerpt"},
            {"title": "Two", "url": "http://two.test/", "snippet": ""},
        ],
        "total": 2,
    });
    assert_eq!(output.for_model, expected.to_string());
    assert_eq!(output.structured, Some(expected));
    let cite = |url: &str, title: &str| Citation { url: url.to_owned(), title: title.to_owned() };
    assert_eq!(output.citations, [cite("https://example.com/1", "One"), cite("http://two.test/", "Two")]);
    assert_eq!(asked, [SearchQuery::new("rust")]);
    let (none, _) = call(Vec::new(), json!({"query": "x"})).await;
    assert_eq!(none.unwrap().for_model, r#"{"query":"x","results":[],"total":0}"#);
}

#[tokio::test]
async fn limits() {
    for (arguments, results) in [
        (json!({}), 5),
        (json!({"limit": 2}), 2),
        (json!({"limit": 2.0}), 2),
        (json!({"limit": 0}), 1),
        (json!({"limit": -1}), 1),
        (json!({"limit": 1e300}), 20),
        (json!({"limit": "7"}), 5),
        (json!({"search_context_size": "low"}), 3),
        (json!({"search_context_size": "high"}), 10),
        (json!({"search_context_size": "high", "limit": 4}), 4),
    ] {
        let mut asked = arguments.clone();
        asked["query"] = json!("x");
        let output = call(many(), asked).await.0.unwrap();
        assert_eq!(output.structured.unwrap()["total"], results, "{arguments}");
        assert_eq!(output.citations.len(), results);
    }
}

#[tokio::test]
async fn results_outside_the_allowed_domains_are_dropped() {
    let hits = [
        "https://evilexample.com/",
        "https://example.com.evil.org/",
        "https://example.com@evil.org/",
        "https://evil.org/?example.com",
        "https://docs.Example.com./a",
        "https://example.com/",
        "https://example.com/",
        "javascript:alert('example.com')",
        "ftp://example.com/",
        "https://example.com/a\nb",
        "example.com",
        "https://bücher.example/",
    ];
    let hits: Vec<_> = hits.iter().map(|url| hit("t", url, "")).collect();
    let urls =
        |output: ToolOutput| output.citations.into_iter().map(|citation| citation.url).collect::<Vec<_>>();
    let arguments =
        json!({"query": "x", "limit": 20, "allowed_domains": ["EXAMPLE.com", "xn--bcher-kva.example"]});
    let output = call(hits.clone(), arguments).await.0.unwrap();
    assert_eq!(
        urls(output),
        ["https://docs.Example.com./a", "https://example.com/", "https://bücher.example/"]
    );
    let output = call(hits, json!({"query": "x", "limit": 20, "allowed_domains": []})).await.0.unwrap();
    assert_eq!(urls(output).len(), 7, "only what is no address of the web, or there twice, is dropped");
}

#[tokio::test]
async fn wishes_reach_the_engine_and_mistakes_do_not() {
    let arguments = json!({
        "query": "x", "country": "DE", "region": "Bayern", "city": "", "timezone": "Europe/Berlin",
        "allowed_domains": null, "search_context_size": "low",
    });
    let expected = SearchQuery {
        country: Some("DE".into()),
        region: Some("Bayern".into()),
        timezone: Some("Europe/Berlin".into()),
        context_size: ContextSize::Low,
        ..SearchQuery::new("x")
    };
    assert_eq!(call(many(), arguments).await.1, [expected]);
    for (arguments, message) in [
        (json!({}), "query parameter required"),
        (json!({"query": 5}), "query parameter required"),
        (json!({"query": "  "}), "query parameter required"),
        (json!({"query": "x", "allowed_domains": "a.b"}), "allowed_domains must be an array of strings"),
        (json!({"query": "x", "allowed_domains": [1]}), "allowed_domains must be an array of strings"),
        (
            json!({"query": "x", "allowed_domains": ["https://a.b"]}),
            "allowed_domains: 'https://a.b' is not a domain name",
        ),
        (
            json!({"query": "x", "allowed_domains": ["*.a.b"]}),
            "allowed_domains: '*.a.b' is not a domain name",
        ),
        (json!({"query": "x", "allowed_domains": [""]}), "allowed_domains: '' is not a domain name"),
    ] {
        let (result, asked) = call(many(), arguments.clone()).await;
        let error = result.unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.code),
            (message, ToolErrorCode::InvalidArguments),
            "{arguments}"
        );
        assert_eq!(asked, []);
    }
}

#[tokio::test]
async fn long_texts_are_clipped() {
    let long = vec![hit(&"ä".repeat(500), "https://a.test/", &"word ".repeat(1000))];
    for (size, chars) in [("low", 300), ("medium", 600), ("high", 2000)] {
        let arguments = json!({"query": "x", "search_context_size": size});
        let output = call(long.clone(), arguments).await.0.unwrap().structured.unwrap();
        let snippet = output["results"][0]["snippet"].as_str().unwrap();
        assert!(snippet.ends_with("word…") && snippet.chars().count() <= chars + 1, "{size}");
        assert_eq!(output["results"][0]["title"].as_str().unwrap().chars().count(), 201);
    }
}

fn wish() -> SearchQuery {
    SearchQuery {
        limit: Some(7),
        allowed_domains: vec!["a.test".into(), "b.test".into()],
        country: Some("de".into()),
        city: Some("München".into()),
        ..SearchQuery::new("rust & more")
    }
}

#[tokio::test]
async fn searxng_is_asked_for_json() {
    let answer = async |Query(query): Query<Value>| {
        assert_eq!(query, json!({"q": "rust & more (site:a.test OR site:b.test)", "format": "json"}));
        r#"{"query": "x", "results": [{"url": "https://a.test/", "title": "A", "content": "about", "engine": "e"},
            {"url": "https://b.test/", "title": "B", "content": null}], "answers": []}"#
    };
    let base = serve(Router::new().route("/sub/search", get(answer))).await;
    let engine = Searxng::new(format!("{base}/sub"), open_egress());
    let hits = engine.search(&wish(), &["a.test", "b.test"]).await.unwrap();
    assert_eq!(hits, [hit("A", "https://a.test/", "about"), hit("B", "https://b.test/", "")]);
}

#[tokio::test]
async fn brave_gets_its_key_in_a_header() {
    let answer = async |headers: HeaderMap, Query(query): Query<Value>| {
        assert_eq!(headers["x-subscription-token"], "k3y");
        assert_eq!(headers["x-loc-country"], "de");
        assert_eq!(headers["x-loc-city"].as_bytes(), "München".as_bytes());
        let expected = json!({"q": "rust & more site:a.test", "count": "7", "text_decorations": "false", "country": "DE"});
        assert_eq!(query, expected);
        r#"{"type": "search", "web": {"results": [{"title": "A", "url": "https://a.test/", "description": "about"}]}}"#
    };
    let base = serve(Router::new().route("/res/v1/web/search", get(answer))).await;
    let engine = Brave::new(base, &"k3y".to_owned().into(), open_egress()).unwrap();
    assert_eq!(engine.search(&wish(), &["a.test"]).await.unwrap(), [hit("A", "https://a.test/", "about")]);
    let nothing =
        serve(Router::new().route("/res/v1/web/search", get(async || r#"{"type": "search"}"#))).await;
    let engine = Brave::new(nothing, &"k3y".to_owned().into(), open_egress()).unwrap();
    assert_eq!(engine.search(&wish(), &[]).await.unwrap(), []);
    assert!(Brave::new(String::new(), &"k\n".to_owned().into(), open_egress()).is_none());
}

#[tokio::test]
async fn tavily_gets_a_body_and_a_bearer() {
    let answer = async |headers: HeaderMap, body: axum::Json<Value>| {
        assert_eq!(headers["authorization"], "Bearer k3y");
        let expected = json!({
            "query": "rust & more", "max_results": 7, "search_depth": "advanced", "include_domains": ["a.test"],
        });
        assert_eq!(body.0, expected);
        r#"{"results": [{"title": "A", "url": "https://a.test/", "content": "about", "score": 0.9}]}"#
    };
    let base = serve(Router::new().route("/search", post(answer))).await;
    let engine = Tavily::new(base, &"k3y".to_owned().into(), open_egress()).unwrap();
    let query = SearchQuery { context_size: ContextSize::High, ..wish() };
    assert_eq!(engine.search(&query, &["a.test"]).await.unwrap(), [hit("A", "https://a.test/", "about")]);
}

#[tokio::test]
async fn duckduckgo_answers_without_a_key() {
    let answer = async |Query(query): Query<Value>| {
        let expected = json!({"q": "rust & more", "format": "json", "no_html": "1", "no_redirect": "1"});
        assert_eq!(query, expected);
        // Types as the service has them, the answer of a calculator among them.
        r#"{"Abstract": "A language.", "AbstractText": "A language.", "AbstractSource": "Wikipedia",
            "AbstractURL": "https://en.wikipedia.org/wiki/Rust", "Heading": "Rust", "Answer": {}, "Image": "",
            "Results": [{"FirstURL": "https://rust-lang.org/", "Text": "Official site - Rust", "Icon": {"Height": 16}}],
            "RelatedTopics": [
                {"FirstURL": "https://duckduckgo.com/c/Languages", "Text": "Languages", "Result": "<a>"},
                {"Name": "Other", "Topics": [{"FirstURL": "/Iron", "Text": "Iron - A metal."}]}],
            "Type": "A"}"#
    };
    let base = serve(Router::new().route("/", get(answer))).await;
    let hits = DuckDuckGo::new(base, open_egress()).search(&wish(), &["a.test"]).await.unwrap();
    assert_eq!(
        hits,
        [
            hit("Rust", "https://en.wikipedia.org/wiki/Rust", "A language."),
            hit("Official site", "https://rust-lang.org/", "Official site - Rust"),
            hit("Languages", "https://duckduckgo.com/c/Languages", "Languages"),
            hit("Iron", "https://duckduckgo.com/Iron", "Iron - A metal."),
        ]
    );
    let nothing = async || r#"{"Abstract": "", "AbstractURL": "", "Results": [], "RelatedTopics": []}"#;
    let base = serve(Router::new().route("/", get(nothing))).await;
    assert_eq!(DuckDuckGo::new(base, open_egress()).search(&wish(), &[]).await.unwrap(), []);
}

#[tokio::test]
async fn failures() {
    for (status, body, message, fault) in [
        (401, "k3y", "search API returned status 401", FailureStage::Tool),
        (429, "k3y", "search API returned status 429", FailureStage::Tool),
        (500, "k3y", "search API returned status 500", FailureStage::Transport),
        (200, "<html>k3y", "failed to parse search response: it is not JSON", FailureStage::Tool),
        (
            200,
            r#"{"results": "k3y"}"#,
            "failed to parse search response: expected fields are missing",
            FailureStage::Tool,
        ),
    ] {
        let answer = move || async move { (StatusCode::from_u16(status).unwrap(), body) };
        let base = serve(Router::new().route("/search", post(answer))).await;
        let engine = Tavily::new(base, &"k3y".to_owned().into(), open_egress()).unwrap();
        let error = WebSearch::new(Arc::new(engine))
            .search(SearchQuery::new("x"), &ToolContext::default())
            .await
            .unwrap_err();
        assert_eq!((error.message.as_str(), error.stage), (message, fault));
        assert!(!format!("{error:?}").contains("k3y"));
    }
    let engine = Searxng::new("http://127.0.0.2:9".into(), open_egress());
    let error = engine.search(&SearchQuery::new("x"), &[]).await.unwrap_err();
    assert_eq!((error.code, error.stage), (ToolErrorCode::DomainNotAllowed, FailureStage::NotSent));
}

#[tokio::test]
async fn a_question_that_no_address_holds_is_the_models_mistake() {
    for text in ["x".repeat(100_000), "é".repeat(30_000)] {
        let (result, asked) = call(many(), json!({"query": text})).await;
        assert_eq!(result.unwrap_err().code, ToolErrorCode::InvalidArguments);
        assert!(asked.is_empty());
    }
}
