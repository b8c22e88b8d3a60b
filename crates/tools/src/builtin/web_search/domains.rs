//! The domain filter of `web_search`.

use reqwest::Url;

use crate::ToolError;

/// Normalized domains, as URLs have them.
pub(super) struct Domains(Vec<String>);

impl Domains {
    /// Parses a list; an empty one allows every domain.
    pub(super) fn read(list: &[String]) -> Result<Self, ToolError> {
        let wrong =
            |entry: &str| ToolError::argument(format!("allowed_domains: '{entry}' is not a domain name"));
        list.iter().map(|entry| domain(entry).ok_or_else(|| wrong(entry))).collect::<Result<_, _>>().map(Self)
    }

    /// The domains, for engines.
    pub(super) fn list(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Whether a URL is HTTP(S) and within these domains.
    pub(super) fn contains(&self, url: &str) -> bool {
        // The URL parser ignores such characters, but clients would display them.
        if url.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return false;
        }
        let Some(host) = Url::parse(url).ok().and_then(|url| host(&url)) else { return false };
        self.0.is_empty()
            || self.0.iter().any(|domain| {
                // Requires a dot before the domain, so `evilexample.com` does not match `example.com`.
                host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
    }
}

fn domain(entry: &str) -> Option<String> {
    let foreign = |c: char| {
        c.is_whitespace() || matches!(c, '/' | '\\' | '?' | '#' | '@' | ':' | '*' | '"' | '(' | ')')
    };
    if entry.contains(foreign) || entry.starts_with('.') {
        return None;
    }
    host(&Url::parse(&format!("http://{entry}/")).ok()?)
}

fn host(url: &Url) -> Option<String> {
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_owned())
}

/// Adds the domains to a query in the common syntax: `text (site:a OR site:b)`.
pub(super) fn with_site_filter(text: &str, domains: &[&str]) -> String {
    match domains {
        [] => text.to_owned(),
        [domain] => format!("{text} site:{domain}"),
        _ => {
            let sites: Vec<_> = domains.iter().map(|domain| format!("site:{domain}")).collect();
            format!("{text} ({})", sites.join(" OR "))
        }
    }
}
