//! The domains that results may come from.

use reqwest::Url;

use crate::tools::ToolError;

/// Domains, in the form in which URLs have them.
pub(super) struct Domains(Vec<String>);

impl Domains {
    /// Reads a list; an empty one holds everything.
    pub(super) fn read(list: &[String]) -> Result<Self, ToolError> {
        let wrong = |entry: &str| ToolError::argument(format!("allowed_domains: '{entry}' is no domain"));
        list.iter().map(|entry| domain(entry).ok_or_else(|| wrong(entry))).collect::<Result<_, _>>().map(Self)
    }

    /// As engines are told.
    pub(super) fn list(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Whether a result's address is one of the web, and of these domains.
    pub(super) fn contains(&self, url: &str) -> bool {
        // Would be read as if it were not there, and shown as if it were.
        if url.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return false;
        }
        let Some(host) = Url::parse(url).ok().and_then(|url| host(&url)) else { return false };
        self.0.is_empty()
            || self.0.iter().any(|domain| {
                // The dot keeps `evilexample.com` out of `example.com`.
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

/// A question with the domains in the way that most engines understand: `text (site:a OR site:b)`.
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
