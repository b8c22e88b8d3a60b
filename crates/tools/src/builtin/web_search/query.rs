//! A search query.

/// Maximum number of results.
pub(super) const MAX_LIMIT: usize = 20;

/// A search query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SearchQuery {
    /// The search text.
    pub text: String,
    /// Number of results, 1 to 20; `None`: depends on `context_size`.
    pub limit: Option<usize>,
    /// Restricts results to these domains and their subdomains; empty: no restriction.
    pub allowed_domains: Vec<String>,
    /// Location hint: ISO country code of two letters. Not every engine supports locations.
    pub country: Option<String>,
    /// Location hint: region within the country.
    pub region: Option<String>,
    /// Location hint: city within the region.
    pub city: Option<String>,
    /// Location hint: IANA time zone.
    pub timezone: Option<String>,
    /// How much text the model reads.
    pub(crate) context_size: ContextSize,
}

/// How much text of the results the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ContextSize {
    /// 3 results of 300 characters.
    Low,
    /// 5 results of 600 characters.
    #[default]
    Medium,
    /// 10 results of 2,000 characters.
    High,
}

impl ContextSize {
    pub(super) fn results(self) -> usize {
        match self {
            Self::Low => 3,
            Self::Medium => 5,
            Self::High => 10,
        }
    }

    pub(super) fn snippet_chars(self) -> usize {
        match self {
            Self::Low => 300,
            Self::Medium => 600,
            Self::High => 2000,
        }
    }
}

impl SearchQuery {
    /// A query with default options.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Number of results to return.
    pub(crate) fn wanted(&self) -> usize {
        self.limit.unwrap_or(self.context_size.results()).clamp(1, MAX_LIMIT)
    }
}
