//! Access tokens: how they are requested, cached and shared.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};

use super::*;

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", BASE64_STANDARD.encode(der))
}

#[tokio::test]
async fn a_client_secret_gets_a_token_that_is_kept() {
    let server = giving(3600).await;
    let credentials = with_secret(&server);
    for _ in 0..3 {
        assert_eq!(shown(&credentials.headers().await.unwrap()), Some("Bearer t0"));
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    let basic = BASE64_STANDARD.encode("id:s3cret");
    assert_eq!(asked[0].authorization.as_deref(), Some(format!("Basic {basic}").as_str()));
    assert_eq!(asked[0].form["grant_type"], "client_credentials");
    assert_eq!(asked[0].form["resource"], "https://mcp.example/mcp");
    assert!(!asked[0].form.contains_key("client_secret") && !asked[0].form.contains_key("scope"));
}

#[tokio::test]
async fn names_and_secrets_are_encoded_before_they_are_put_together() {
    let server = giving(3600).await;
    let auth = json!({"type": "client_credentials", "client_id": "a:b", "client_secret": "p%/ü",
        "scopes": ["read", "write"], "resource": "urn:x", "token_url": format!("{}/token", server.base)});
    let credentials = source(auth, &at_home(), "https://h").for_caller(None).unwrap();
    credentials.headers().await.unwrap();
    let asked = server.asked();
    let basic = BASE64_STANDARD.encode("a%3Ab:p%25%2F%C3%BC");
    assert_eq!(asked[0].authorization.as_deref(), Some(format!("Basic {basic}").as_str()));
    assert_eq!(
        (asked[0].form["scope"].as_str(), asked[0].form["resource"].as_str()),
        ("read write", "urn:x")
    );
}

#[tokio::test]
async fn assertions_are_signed_for_the_token_endpoint_and_used_once() {
    let rng = SystemRandom::new();
    let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
    let ec_public = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref()).unwrap();
    let ed = Ed25519KeyPair::generate_pkcs8(&rng).unwrap();
    let ed_public = Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap();
    for (der, public, algorithm) in [
        (ec.as_ref(), DecodingKey::from_ec_der(ec_public.public_key().as_ref()), Algorithm::ES256),
        (ed.as_ref(), DecodingKey::from_ed_der(ed_public.public_key().as_ref()), Algorithm::EdDSA),
    ] {
        // Tokens expire at once, so that every call of `headers` needs a new assertion.
        let server = giving(1).await;
        let endpoint = format!("{}/token", server.base);
        let auth = json!({"type": "client_credentials", "client_id": "id", "private_key": pem(der),
            "key_id": "k1", "token_url": endpoint});
        let credentials = source(auth, &at_home(), "https://h").for_caller(None).unwrap();
        credentials.headers().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1000)).await;
        credentials.headers().await.unwrap();
        let mut ids = Vec::new();
        for asked in server.asked() {
            assert_eq!(asked.authorization, None);
            assert_eq!(
                asked.form["client_assertion_type"],
                "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            );
            let mut rules = Validation::new(algorithm);
            rules.set_audience(&[&endpoint]);
            rules.set_issuer(&["id"]);
            let jwt =
                jsonwebtoken::decode::<Value>(&asked.form["client_assertion"], &public, &rules).unwrap();
            assert_eq!((jwt.claims["sub"].as_str(), jwt.header.kid.as_deref()), (Some("id"), Some("k1")));
            let life = jwt.claims["exp"].as_u64().unwrap() - jwt.claims["iat"].as_u64().unwrap();
            assert_eq!(life, 60);
            ids.push(jwt.claims["jti"].as_str().unwrap().to_owned());
        }
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1]);
    }
}

#[tokio::test]
async fn a_token_is_had_anew_before_it_expires() {
    let server = giving(1).await;
    let credentials = with_secret(&server);
    assert_eq!(shown(&credentials.headers().await.unwrap()), Some("Bearer t0"));
    tokio::time::sleep(Duration::from_millis(950)).await;
    assert_eq!(shown(&credentials.headers().await.unwrap()), Some("Bearer t1"), "before its last tenth");
}

#[tokio::test]
async fn those_who_come_together_share_one_token() {
    let server = giving(3600).await;
    let credentials = with_secret(&server);
    let all = futures_util::future::join_all((0..50).map(|_| credentials.headers())).await;
    assert!(all.iter().all(|headers| shown(headers.as_ref().unwrap()) == Some("Bearer t0")));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn those_who_come_together_share_one_failure() {
    let server = Server::spawn(|_, _, _| (503, json!({}))).await;
    let credentials = with_secret(&server);
    let all = futures_util::future::join_all((0..50).map(|_| credentials.headers())).await;
    assert!(all.iter().all(|headers| matches!(headers, Err(McpError::Connect(_)))));
    assert_eq!(server.asked().len(), 1);
    failure(&*credentials).await;
    assert_eq!(server.asked().len(), 2, "the next one tries again");
}

#[tokio::test]
async fn a_waiter_that_goes_away_leaves_the_others_their_token() {
    let server = giving(3600).await;
    let credentials = with_secret(&server);
    let gone = tokio::time::timeout(Duration::from_millis(5), credentials.headers()).await;
    assert!(gone.is_err());
    assert!(credentials.headers().await.is_ok());
}

#[tokio::test]
async fn only_the_token_that_was_refused_is_thrown_away_and_not_again_and_again() {
    let server = giving(3600).await;
    let credentials = with_secret(&server);
    let first = credentials.headers().await.unwrap();
    assert!(credentials.rejected(&first, &WwwAuthenticate::default()).await);
    assert!(
        credentials.rejected(&first, &WwwAuthenticate::default()).await,
        "for others that sent it there is a newer one too"
    );
    let second = credentials.headers().await.unwrap();
    assert_eq!(shown(&second), Some("Bearer t1"));
    assert!(credentials.rejected(&first, &WwwAuthenticate::default()).await);
    assert_eq!(shown(&credentials.headers().await.unwrap()), Some("Bearer t1"), "the newer one stays");
    assert!(
        !credentials.rejected(&second, &WwwAuthenticate::default()).await,
        "the server refuses all of them"
    );
    assert_eq!(shown(&credentials.headers().await.unwrap()), Some("Bearer t1"));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn refusals_show_a_code_and_nothing_else() {
    for (status, body, expected) in [
        (
            400,
            json!({"error": "invalid_client", "error_description": "l3ak"}),
            "the token endpoint returned the error invalid_client",
        ),
        (401, json!({"error": "l3ak here"}), "status 401"),
        (400, json!({"error": "l3ak".repeat(40)}), "status 400"),
        (302, json!("l3ak"), "status 302"),
        (503, json!({"error": "l3ak"}), "status 503"),
        (200, json!({"token": "l3ak"}), "has no access_token"),
        (200, json!({"access_token": "l3ak l3ak"}), "white space"),
        (200, json!({"access_token": "l3ak", "token_type": "mac"}), "not a bearer token"),
        (200, json!({"access_token": "l3ak", "expires_in": 0}), "an expired token"),
        (200, json!({"access_token": "l3ak", "expires_in": -5}), "an expired token"),
    ] {
        let server = Server::spawn(move |_, _, _| (status, body.clone())).await;
        let error = failure(&*with_secret(&server)).await;
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected) && !text.contains("l3ak") && !text.contains("s3cret"), "{text}");
        assert!(error.was_not_processed());
    }
    for life in [json!(null), json!("3600"), json!("soon"), json!(1e300), json!(3600.5)] {
        let server =
            Server::spawn(move |_, _, _| (200, json!({"access_token": "t", "expires_in": life}))).await;
        assert!(with_secret(&server).headers().await.is_ok());
    }
}

#[tokio::test]
async fn a_token_endpoint_that_may_not_be_reached_gets_nothing() {
    let server = giving(3600).await;
    let auth = json!({"type": "client_credentials", "client_id": "id", "client_secret": "s3cret",
        "token_url": format!("{}/token", server.base)});
    let credentials = source(auth, &egress(&[]), "https://h").for_caller(None).unwrap();
    assert!(matches!(failure(&*credentials).await, McpError::Egress(_)));
    assert!(server.seen().is_empty());
    let insecure = json!({"auth": {"type": "token_exchange", "client_id": "id", "token_url": "http://h/t"}});
    let found = json!({"auth": {"type": "token_exchange", "client_id": "id"}});
    for auth in [insecure, found] {
        let refused = CredentialSource::new(&settings(auth), &at_home(), &Url::parse("https://h").unwrap());
        assert!(matches!(refused, Err(McpError::Unauthorized { .. })));
    }
}

#[tokio::test]
async fn a_callers_token_is_exchanged_once_for_each_caller() {
    let server = giving(3600).await;
    let auth = json!({"type": "token_exchange", "client_id": "id", "audience": "tickets", "scopes": ["read"],
        "token_url": format!("{}/token", server.base)});
    let source = source(auth, &at_home(), "https://h/mcp");
    let of = |header: &str| source.for_caller(caller(header).as_ref());
    for _ in 0..2 {
        assert_eq!(shown(&of("Bearer one").unwrap().headers().await.unwrap()), Some("Bearer t0"));
        assert_eq!(shown(&of("bearer two").unwrap().headers().await.unwrap()), Some("Bearer t1"));
    }
    assert_ne!(of("Bearer one").unwrap().fingerprint(), of("Bearer two").unwrap().fingerprint());
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    let (form, words) = (&asked[0].form, "urn:ietf:params:oauth:");
    for (key, value) in [
        ("grant_type", format!("{words}grant-type:token-exchange")),
        ("subject_token", "one".to_owned()),
        ("subject_token_type", format!("{words}token-type:access_token")),
        ("audience", "tickets".to_owned()),
        ("resource", "https://h/mcp".to_owned()),
        ("scope", "read".to_owned()),
        ("client_id", "id".to_owned()),
    ] {
        assert_eq!(form[key], value, "{key}");
    }
    for none in [None, caller("Basic YTpi"), caller("Bearer "), caller("")] {
        let error = source.for_caller(none.as_ref()).err().unwrap();
        assert!(error.to_string().contains("requires a token exchange"), "{error}");
    }
}

#[tokio::test]
async fn all_callers_share_the_gateways_own_token() {
    let server = giving(3600).await;
    let auth = json!({"type": "client_credentials", "client_id": "id", "client_secret": "s3cret",
        "token_url": format!("{}/token", server.base)});
    let source = source(auth, &at_home(), "https://h");
    let (one, two) =
        (source.for_caller(None).unwrap(), source.for_caller(caller("Bearer x").as_ref()).unwrap());
    assert_eq!(one.fingerprint(), two.fingerprint());
    assert_eq!(shown(&one.headers().await.unwrap()), shown(&two.headers().await.unwrap()));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_token_endpoint_that_leads_elsewhere_gives_no_token() {
    let other = giving(3600).await;
    for status in [302, 307] {
        let location = format!("{}/token", other.base);
        let server = Server::spawn(move |_, _, _| (status, json!({"location": location}))).await;
        let error = failure(&*with_secret(&server)).await;
        assert!(matches!(error, McpError::Unauthorized { .. }), "{error}");
    }
    for seen in other.seen() {
        assert!(seen.form.is_empty() && seen.authorization.is_none(), "{seen:?}");
    }
}
