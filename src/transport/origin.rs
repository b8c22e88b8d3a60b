//! Protection against cross-site requests and DNS rebinding: accepts web pages of the gateway's own origin and of the
//! configured CORS origins.
//!
//! Browsers send requests of any page to any address, including this machine's; the headers that they add (`Origin`,
//! `Sec-Fetch-Site`, `Host`) cannot be forged by a page. Other clients send neither of the first two. Behind a trusted
//! proxy, the own origin is that of the forwarded host.

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::AppState;
use super::authority::{self, Authority};
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;

const HOST_NOT_ALLOWED: &str = "host_not_allowed";
const ORIGIN_NOT_ALLOWED: &str = "origin_not_allowed";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Addresses of the web page.
const PAGE_PATHS: [&str; 2] = ["/ui", "/ui/"];
/// Headers in which SDKs send API keys.
const CREDENTIAL_HEADERS: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("api-key"), HeaderName::from_static("x-api-key")];
/// Exempt from the host check: probes use names that an orchestrator chose, and their responses hold nothing confidential.
const PROBE_PATHS: [&str; 2] = ["/healthz", "/readyz"];

/// For every route, before authentication: refuses cross-site requests, and requests with an ambiguous host or more than
/// one credential.
pub(super) fn check(app: &AppState, request: &Request) -> Result<(), ErrorResponse> {
    check_request(app, request).map_err(|error| {
        match error.code() {
            HOST_NOT_ALLOWED => app.metrics.request_rejected(HOST_NOT_ALLOWED),
            ORIGIN_NOT_ALLOWED => app.metrics.request_rejected(ORIGIN_NOT_ALLOWED),
            _ => {}
        }
        ErrorResponse(error)
    })
}

fn check_request(app: &AppState, request: &Request) -> Result<(), ApiError> {
    let own = Authority::from_request(request)?;
    let headers = request.headers();
    if let Some(name) = CREDENTIAL_HEADERS.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some())
    {
        return Err(authority::duplicate_header(name.as_str()));
    }
    if app.access.auth.is_open() && !PROBE_PATHS.contains(&request.uri().path()) {
        check_host(own, &app.access.allowed_hosts)?;
    }
    if is_page_visit(request) {
        return Ok(());
    }
    let request_context = request.extensions().get::<RequestContext>();
    let forwarded =
        request_context.and_then(|context| context.origin.host.as_deref()).and_then(Authority::parse);
    check_origin(headers, forwarded.or(own), &app.access.cors_origins)
}

/// Whether somebody follows a link to the web page. Its files are the same for everyone, and no other page sees them.
fn is_page_visit(request: &Request) -> bool {
    let says = |name: &HeaderName, expected: &str| {
        let mut values = request.headers().get_all(name).iter();
        values.next().is_some_and(|value| value.as_bytes() == expected.as_bytes()) && values.next().is_none()
    };
    PAGE_PATHS.contains(&request.uri().path())
        && request.method() == Method::GET
        && !request.headers().contains_key(ORIGIN)
        && says(&SEC_FETCH_MODE, "navigate")
        && says(&SEC_FETCH_DEST, "document")
}

/// Host check of a gateway without keys, against DNS rebinding: a page whose name resolves to this machine could otherwise
/// do and read everything. IP addresses and `localhost` involve no resolver. Forwarded hosts do not count here, as such a
/// page can set that header.
fn check_host(own: Option<Authority<'_>>, allowed: &[String]) -> Result<(), ApiError> {
    let allows = |name: &String| name == "*" || own.is_some_and(|own| own.has_name(name));
    if own.is_some_and(|own| own.is_ip() || own.has_name("localhost")) || allowed.iter().any(allows) {
        return Ok(());
    }
    let found =
        own.map_or_else(|| "no host".to_owned(), |own| format!("'{}'", truncate_for_display(own.host())));
    let message = format!(
        "This gateway has no API keys, so it accepts only localhost, IP addresses and the names in server.allowed_hosts as \
         host; this request is for {found}."
    );
    Err(ApiError::new(ErrorKind::PermissionDenied, message).with_code(HOST_NOT_ALLOWED))
}

fn check_origin(headers: &HeaderMap, own: Option<Authority<'_>>, allowed: &[String]) -> Result<(), ApiError> {
    let any = allowed.iter().any(|origin| origin == "*");
    let mut origins = headers.get_all(ORIGIN).iter().map(HeaderValue::as_bytes);
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter().map(HeaderValue::as_bytes);
    let (origin, another) = (origins.next(), origins.next());
    // Compared byte for byte, as the CORS layer does: browsers write an origin in one way only.
    let is_allowed = another.is_none()
        && origin.is_some_and(|origin| allowed.iter().any(|name| name.as_bytes() == origin));
    if any || is_allowed {
        return Ok(());
    }
    if let Some(origin) = origin
        && (another.is_some() || !is_own(origin, own))
    {
        let origin = String::from_utf8_lossy(origin);
        return Err(origin_error(&format!("pages of the origin '{}'", truncate_for_display(&origin))));
    }
    match sites.find(|site| !matches!(*site, b"same-origin" | b"none")) {
        Some(site) => {
            let site = String::from_utf8_lossy(site);
            Err(origin_error(&format!(
                "pages of other origins (Sec-Fetch-Site is '{}')",
                truncate_for_display(&site)
            )))
        }
        None => Ok(()),
    }
}

/// Whether an origin is the gateway's own. Its scheme is taken from the page: TLS may be terminated by a proxy.
fn is_own(origin: &[u8], own: Option<Authority<'_>>) -> bool {
    let Some((scheme, rest)) = std::str::from_utf8(origin).ok().and_then(|text| text.split_once("://"))
    else {
        return false;
    };
    let port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    Authority::parse(rest).zip(own).is_some_and(|(origin, own)| origin.is_same(&own, Some(port)))
}

fn origin_error(who: &str) -> ApiError {
    let message = format!("Cross-origin request refused: server.cors.allowed_origins does not allow {who}.");
    ApiError::new(ErrorKind::PermissionDenied, message).with_code(ORIGIN_NOT_ALLOWED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(headers: &[(&str, &str)], own: &str, allowed: &[&str]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"));
        }
        let allowed: Vec<String> = allowed.iter().map(|origin| (*origin).to_owned()).collect();
        let verdict = check_origin(&map, Authority::parse(own), &allowed);
        assert!(verdict.as_ref().map_or_else(|error| error.code() == ORIGIN_NOT_ALLOWED, |()| true));
        verdict.is_ok()
    }

    #[test]
    fn an_origin_is_the_gateways_own_or_allowed_by_name() {
        let page = &["https://app.example"][..];
        for (headers, own, allowed, expected) in [
            (vec![], "gw", &[][..], true),
            (vec![("origin", "http://gw")], "gw", &[][..], true),
            (vec![("origin", "https://gw")], "gw", &[][..], true),
            (vec![("origin", "https://gw")], "GW:443", &[][..], true),
            (vec![("origin", "http://gw:8080")], "gw:8080", &[][..], true),
            (vec![("origin", "http://[::1]:8080")], "[::1]:8080", &[][..], true),
            (vec![("origin", "http://gw")], "gw:8080", &[][..], false),
            (vec![("origin", "http://gw:3000")], "gw:8080", &[][..], false),
            (vec![("origin", "http://gw.evil.example")], "gw", &[][..], false),
            (vec![("origin", "null")], "gw", &[][..], false),
            (vec![("origin", "null")], "null", &[][..], false),
            (vec![("origin", "")], "gw", &[][..], false),
            (vec![("origin", "gw")], "gw", &[][..], false),
            (vec![("origin", "ftp://gw")], "gw", &[][..], false),
            (vec![("origin", "http://gw/")], "gw", &[][..], false),
            (vec![("origin", "http://user@gw")], "gw", &[][..], false),
            (vec![("origin", "http://gw http://evil.example")], "gw", &[][..], false),
            (vec![("origin", "http://gw"), ("origin", "http://gw")], "gw", &[][..], false),
            (vec![("origin", "https://app.example")], "gw", page, true),
            (vec![("origin", "https://app.example:443")], "gw", page, false),
            (vec![("origin", "https://app.example"), ("origin", "https://evil.example")], "gw", page, false),
            (vec![("origin", "https://evil.example"), ("origin", "https://app.example")], "gw", page, false),
            (vec![("origin", "https://evil.example")], "gw", page, false),
            (vec![("origin", "null")], "gw", &["*"][..], true),
        ] {
            assert_eq!(passes(&headers, own, allowed), expected, "{headers:?} at {own}, {allowed:?}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_known_without_an_origin_too() {
        let page = &["https://app.example"][..];
        for (headers, allowed, expected) in [
            (vec![("sec-fetch-site", "none")], &[][..], true),
            (vec![("sec-fetch-site", "same-origin"), ("origin", "http://gw")], &[][..], true),
            (vec![("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")], &[][..], false),
            (vec![("sec-fetch-site", "cross-site")], &[][..], false),
            (vec![("sec-fetch-site", "same-site")], &[][..], false),
            (vec![("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], &[][..], false),
            (vec![("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], &[][..], false),
            (vec![("sec-fetch-site", "cross-site"), ("origin", "http://gw")], &[][..], false),
            (vec![("sec-fetch-site", "cross-site"), ("origin", "https://app.example")], page, true),
            (vec![("sec-fetch-site", "cross-site")], page, false),
            (vec![("sec-fetch-site", "cross-site")], &["*"][..], true),
        ] {
            assert_eq!(passes(&headers, "gw", allowed), expected, "{headers:?}, {allowed:?}");
        }
    }

    #[test]
    fn without_keys_a_name_must_have_been_allowed() {
        let allowed = ["antwort".to_owned(), "Gw.Internal".to_owned()];
        for (own, expected) in [
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("192.168.1.7:8080", true),
            ("[::1]:8080", true),
            ("antwort:8080", true),
            ("gw.internal.", true),
            ("rebind.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("antwort.evil.example", false),
        ] {
            let own = Authority::parse(own);
            assert_eq!(check_host(own, &allowed).is_ok(), expected, "{own:?}");
            assert!(check_host(own, &["*".to_owned()]).is_ok());
        }
        assert!(check_host(None, &allowed).is_err() && check_host(None, &["*".to_owned()]).is_ok());
    }
}
