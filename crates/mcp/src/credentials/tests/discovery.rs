//! Discovery by metadata, and metadata that must not be trusted.

use super::*;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const ISSUER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// Documents of a server that is its own authorization server.
fn documents(base: &str) -> BTreeMap<String, Value> {
    BTreeMap::from([
        (
            format!("{RESOURCE}/mcp"),
            json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}),
        ),
        (ISSUER.to_owned(), issuer(base, base)),
    ])
}

fn issuer(name: &str, base: &str) -> Value {
    json!({"issuer": name, "token_endpoint": format!("{base}/token")})
}

/// A server with these documents and a token endpoint.
async fn with(change: impl Fn(&str, &mut BTreeMap<String, Value>) + Send + Sync + 'static) -> Server {
    Server::spawn(move |base, seen, before| {
        let mut all = documents(base);
        change(base, &mut all);
        match (seen.path.as_str(), all.get(&seen.path)) {
            ("/token", _) => (200, json!({"access_token": format!("t{before}"), "expires_in": 3600})),
            (_, Some(document)) => (200, document.clone()),
            (_, None) => (404, json!({})),
        }
    })
    .await
}

fn of(server: &Server, egress: &Arc<Egress>) -> Arc<dyn Credentials> {
    let auth = json!({"type": "client_credentials", "client_id": "id", "client_secret": "s3cret"});
    source(auth, egress, &format!("{}/mcp?key=q", server.base)).for_caller(None).unwrap()
}

fn challenge(server: &Server, said: &str) -> WwwAuthenticate {
    WwwAuthenticate::parse(said, &Url::parse(&server.base).unwrap(), false)
}

async fn refusal(change: impl Fn(&str, &mut BTreeMap<String, Value>) + Send + Sync + 'static) -> String {
    let server = with(change).await;
    let error = failure(&*of(&server, &at_home())).await.to_string();
    assert!(server.asked().is_empty(), "{error}");
    error
}

#[tokio::test]
async fn the_token_endpoint_is_found_and_remembered() {
    let server = with(|_, _| ()).await;
    let credentials = of(&server, &at_home());
    let first = credentials.headers().await.unwrap();
    assert_eq!(shown(&first), Some("Bearer t0"));
    assert!(credentials.rejected(&first, &WwwAuthenticate::default()).await);
    assert_eq!(shown(&credentials.headers().await.unwrap()), Some("Bearer t1"));
    let paths: Vec<_> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, [&format!("{RESOURCE}/mcp"), ISSUER, "/token", "/token"]);
    assert_eq!(server.asked()[0].form["resource"], format!("{}/mcp", server.base), "without the query");
    let before_the_token = server.seen().into_iter().take(2);
    assert!(before_the_token.into_iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn every_place_of_the_standards_is_looked_at() {
    // Metadata at the origin, the OpenID document of an issuer with a path, the secret in the form.
    let server = with(|base, all| {
        all.clear();
        let issuer = format!("{base}/tenant");
        all.insert(RESOURCE.into(), json!({"resource": base, "authorization_servers": [issuer]}));
        let document = json!({"issuer": format!("{issuer}/"), "token_endpoint": format!("{base}/token"),
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"]});
        all.insert(format!("/tenant{OPENID}"), document);
    })
    .await;
    assert!(of(&server, &at_home()).headers().await.is_ok());
    let asked = &server.asked()[0];
    assert_eq!(asked.authorization, None);
    assert_eq!((asked.form["client_id"].as_str(), asked.form["client_secret"].as_str()), ("id", "s3cret"));
    assert_eq!(asked.form["resource"], server.base);
    // No resource metadata: the server is its own issuer.
    let server = with(|base, all| {
        all.clear();
        all.insert(OPENID.into(), issuer(base, base));
    })
    .await;
    assert!(of(&server, &at_home()).headers().await.is_ok());
}

#[tokio::test]
async fn an_issuers_assertion_is_for_the_issuer() {
    let server = with(|_, _| ()).await;
    let der =
        aws_lc_rs::signature::Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let auth = json!({"type": "client_credentials", "client_id": "id", "private_key": pem});
    let credentials = source(auth, &at_home(), &format!("{}/mcp", server.base)).for_caller(None).unwrap();
    credentials.headers().await.unwrap();
    let jwt = server.asked()[0].form["client_assertion"].clone();
    let claims = jsonwebtoken::dangerous::insecure_decode::<Value>(jwt).unwrap().claims;
    assert_eq!(claims["aud"], server.base);
}

#[tokio::test]
async fn metadata_of_others_are_refused() {
    let error = refusal(|base, all| {
        all.insert(ISSUER.into(), issuer("https://other.example", base));
    });
    assert!(error.await.contains("name another issuer"));
    let error = refusal(|base, all| {
        let document = json!({"resource": format!("{base}/other"), "authorization_servers": [base]});
        all.insert(format!("{RESOURCE}/mcp"), document);
    });
    assert!(error.await.contains("name another resource"));
    let error = refusal(|_, all| {
        all.remove(ISSUER);
    });
    assert!(error.await.contains("the authorization server has no metadata"));
    let error = refusal(|base, all| {
        all.insert(ISSUER.into(), json!({"issuer": base}));
    });
    assert!(error.await.contains("names no token endpoint"));
}

#[tokio::test]
async fn secrets_go_to_https_only_and_not_inside() {
    let error = refusal(|base, all| {
        all.insert(ISSUER.into(), json!({"issuer": base, "token_endpoint": "http://tokens.example/token"}));
    });
    assert!(error.await.contains("the token endpoint has no https URL"));
    let error = refusal(|base, all| {
        let document =
            json!({"resource": format!("{base}/mcp"), "authorization_servers": ["http://issuer.example"]});
        all.insert(format!("{RESOURCE}/mcp"), document);
    });
    assert!(error.await.contains("the authorization server has no https URL"));
    for inside in ["https://10.0.0.1/token", "https://[::1]/token", "https://169.254.169.254/token"] {
        let error = refusal(move |base, all| {
            all.insert(ISSUER.into(), json!({"issuer": base, "token_endpoint": inside}));
        });
        assert!(error.await.contains("is not allowed"), "{inside}");
        let error = refusal(move |base, all| {
            let document = json!({"resource": format!("{base}/mcp"), "authorization_servers": [inside]});
            all.insert(format!("{RESOURCE}/mcp"), document);
        });
        assert!(error.await.contains("is not allowed"), "{inside}");
    }
}

#[tokio::test]
async fn a_challenge_says_where_the_metadata_are() {
    let server = with(|base, all| {
        all.clear();
        let document =
            json!({"resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/as")]});
        all.insert("/elsewhere".into(), document);
        all.insert(format!("{ISSUER}/as"), issuer(&format!("{base}/as"), base));
    })
    .await;
    let credentials = of(&server, &at_home());
    let nothing = credentials.headers().await.unwrap();
    assert_eq!(shown(&nothing), None, "nobody knows yet");
    let said = format!("Bearer resource_metadata=\"{}/elsewhere\"", server.base);
    let challenge = challenge(&server, &said);
    assert!(credentials.rejected(&nothing, &challenge).await);
    let headers = credentials.headers().await.unwrap();
    assert_eq!(shown(&headers), Some("Bearer t0"));
    assert!(credentials.rejected(&nothing, &challenge).await, "what was sent before had no token");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_server_that_wants_a_token_and_says_nothing_gives_it_at_its_root() {
    let server = with(|_, all| all.clear()).await;
    let credentials = of(&server, &at_home());
    let nothing = credentials.headers().await.unwrap();
    assert_eq!(shown(&nothing), None);
    assert!(server.asked().is_empty(), "nobody has asked for a token yet");
    assert!(credentials.rejected(&nothing, &WwwAuthenticate::default()).await);
    assert_eq!(shown(&credentials.headers().await.unwrap()), Some("Bearer t0"));
    assert_eq!(server.asked()[0].form["resource"], format!("{}/mcp", server.base));
}

#[tokio::test]
async fn a_challenge_does_not_lead_inside() {
    let server = with(|_, all| all.clear()).await;
    let credentials = of(&server, &at_home());
    let nothing = credentials.headers().await.unwrap();
    let inside = challenge(&server, "Bearer resource_metadata=\"https://192.168.1.1/x\"");
    assert!(credentials.rejected(&nothing, &inside).await);
    assert!(matches!(failure(&*credentials).await, McpError::Egress(_)));
}

#[tokio::test]
async fn the_first_authorization_server_stays_the_only_one() {
    let server = Server::spawn(|base, seen, before| match seen.path.as_str() {
        "/token" if before == 0 => (200, json!({"access_token": "t0", "expires_in": 3600})),
        "/token" => (400, json!({"error": "invalid_client"})),
        path if path == format!("{RESOURCE}/mcp") => {
            let now = if before == 0 { base.to_owned() } else { format!("{base}/other") };
            (200, json!({"resource": format!("{base}/mcp"), "authorization_servers": [now]}))
        }
        ISSUER => (200, issuer(base, base)),
        _ => (200, issuer(&format!("{base}/other"), base)),
    })
    .await;
    let credentials = of(&server, &at_home());
    let first = credentials.headers().await.unwrap();
    assert!(credentials.rejected(&first, &WwwAuthenticate::default()).await);
    assert!(failure(&*credentials).await.to_string().contains("invalid_client"));
    let error = failure(&*credentials).await.to_string();
    assert!(error.contains("another authorization server than before"), "{error}");
}
