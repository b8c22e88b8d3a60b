//! Well-known URLs of metadata documents, and their parsing.

use reqwest::Url;
use serde_json::Value;

use antwort_config::mcp::is_safe_for_secrets;

/// Protected resource metadata (RFC 9728).
pub(super) struct ResourceMetadata {
    /// Resource identifier, a URL.
    pub(super) name: String,
    /// Authorization servers of the resource.
    pub(super) issuers: Vec<String>,
}

impl ResourceMetadata {
    /// Parses a document; `None` if required fields are missing.
    pub(super) fn read(document: &Value) -> Option<Self> {
        let name = document.get("resource")?.as_str()?.to_owned();
        let issuers = document.get("authorization_servers")?.as_array()?;
        let issuers: Vec<_> = issuers.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        (!issuers.is_empty()).then_some(Self { name, issuers })
    }

    /// Whether the resource is the server, or a path prefix of it at the same origin.
    pub(super) fn covers(&self, server: &Url) -> bool {
        let Ok(resource) = Url::parse(&self.name) else { return false };
        let prefix = resource.path().trim_end_matches('/');
        let below = server.path().strip_prefix(prefix);
        resource.origin() == server.origin()
            && resource.query().is_none_or(|query| server.query() == Some(query))
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// URLs of a server's resource metadata, in the order in which they are tried.
pub(super) fn resource_documents(server: &Url) -> Vec<Url> {
    let well_known = "/.well-known/oauth-protected-resource";
    let path = server.path().trim_end_matches('/');
    let mut urls = vec![at(server, &format!("{well_known}{path}")), at(server, well_known)];
    urls.dedup();
    urls
}

/// URLs of an authorization server's metadata, in the order in which they are tried.
pub(super) fn issuer_documents(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut urls = vec![
        at(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        at(issuer, &format!("/.well-known/openid-configuration{path}")),
        at(issuer, &format!("{path}/.well-known/openid-configuration")),
    ];
    urls.dedup();
    urls
}

fn at(origin: &Url, path: &str) -> Url {
    let mut url = origin.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The `resource_metadata` URL of a challenge, if it may be fetched: at the server's origin, or https.
pub(in super::super) fn challenged_url(challenge: &str, server: &Url) -> Option<Url> {
    let url = Url::parse(&parameter(challenge, "resource_metadata")?).ok()?;
    let no_userinfo = url.username().is_empty() && url.password().is_none();
    (no_userinfo && (url.origin() == server.origin() || url.scheme() == "https" && is_safe_for_secrets(&url)))
        .then_some(url)
}

/// A parameter of a challenge, ignoring text inside quoted values of others.
pub(in super::super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some((before, after)) = rest.split_once('=') {
        let key = before.trim_end().rsplit([' ', '\t', ',']).next().unwrap_or_default();
        let after = after.trim_start();
        let (value, tail) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find([',', ' ', '\t']).unwrap_or(after.len());
                let (value, tail) = after.split_at(end);
                (value.to_owned(), tail)
            }
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = tail;
    }
    None
}

/// Splits at the closing quote: the unescaped value and the rest.
fn unquoted(quoted: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = quoted.chars();
    while let Some(next) = chars.next() {
        match next {
            '"' => break,
            '\\' => value.extend(chars.next()),
            other => value.push(other),
        }
    }
    (value, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn metadata_are_looked_for_where_they_may_be() {
        let well_known = "https://h/.well-known/oauth-protected-resource";
        assert_eq!(
            texts(&resource_documents(&url("https://h/a/mcp?x=y"))),
            [&format!("{well_known}/a/mcp"), well_known]
        );
        assert_eq!(texts(&resource_documents(&url("https://h/"))), [well_known]);
        assert_eq!(
            texts(&issuer_documents(&url("https://h/t"))),
            [
                "https://h/.well-known/oauth-authorization-server/t",
                "https://h/.well-known/openid-configuration/t",
                "https://h/t/.well-known/openid-configuration"
            ]
        );
        assert_eq!(issuer_documents(&url("https://h")).len(), 2);
    }

    #[test]
    fn a_resource_covers_what_is_below_it_and_nothing_else() {
        for (name, covers) in [
            ("https://h/a/mcp", true),
            ("https://h/a/mcp/", true),
            ("https://h/a", true),
            ("https://h", true),
            ("https://h/a/mc", false),
            ("https://h/a/mcp/b", false),
            ("https://h:8443/a", false),
            ("http://h/a", false),
            ("https://h.evil/a", false),
            ("no url", false),
        ] {
            let resource = ResourceMetadata { name: name.into(), issuers: Vec::new() };
            assert_eq!(resource.covers(&url("https://h/a/mcp")), covers, "{name}");
        }
    }

    #[test]
    fn challenges_name_metadata_outside_of_other_quotes() {
        let server = url("http://h/mcp");
        for (challenge, expected) in [
            (r#"Bearer resource_metadata="https://m/x""#, Some("https://m/x")),
            (r#"Bearer realm="a, b", Resource_Metadata = "https://m/x", error="e""#, Some("https://m/x")),
            ("Bearer resource_metadata=https://m/x, a=b", Some("https://m/x")),
            (r#"Negotiate abc==, Bearer resource_metadata="http://h/x""#, Some("http://h/x")),
            (r#"Bearer error_description="resource_metadata=https://m/x""#, None),
            (r#"Bearer error_description="a\"resource_metadata=\"https://m/x""#, None),
            (r#"Bearer resource_metadata="http://m/x""#, None),
            (r#"Bearer resource_metadata="https://u:p@m/x""#, None),
            (r#"Bearer resource_metadata="/x""#, None),
            ("Bearer", None),
            (r#"Bearer resource_metadata=""#, None),
        ] {
            assert_eq!(challenged_url(challenge, &server).as_ref().map(Url::as_str), expected, "{challenge}");
        }
    }
}
