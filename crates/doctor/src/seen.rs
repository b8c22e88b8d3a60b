//! What the answers to all questions show in passing.

use std::collections::BTreeSet;

use super::excerpt::{excerpt, quoted};
use super::exchange::Exchange;
use super::listing::Listing;
use antwort_config::Preset;

/// Calls whose ids are kept.
const MAX_IDS: usize = 200;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub listing: Listing,
    pub model: String,
    /// The context window, and where it stands.
    pub context_window: Option<(u64, String)>,
    /// The kind of server, from what it says about itself.
    pub preset: Option<Preset>,
    pub answers: usize,
    pub(crate) with_comments: usize,
    pub(crate) with_empty_choices: usize,
    pub(crate) hidden_errors: Vec<String>,
    pub(crate) limit_headers: BTreeSet<String>,
    /// What came with the last 429, if there was one.
    pub too_many: Option<String>,
    /// An error that had a status of its own.
    pub(crate) open_error: Option<u16>,
    pub calls: Calls,
}

/// The calls of all answers.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub count: usize,
    pub(crate) without_id: usize,
    pub(crate) without_index: usize,
    pub ids: Vec<String>,
    /// Indexes of the calls of an answer with several.
    pub several: Option<Vec<Option<u64>>>,
    /// Finish reasons of answers with calls that the limit of tokens did not cut.
    pub finish: BTreeSet<String>,
}

impl Seen {
    /// Takes in an answer.
    pub(super) fn take(&mut self, exchange: &Exchange) {
        if exchange.status.is_none() {
            return;
        }
        self.answers += 1;
        self.with_comments += usize::from(exchange.comments > 0);
        self.with_empty_choices += usize::from(exchange.reply.empty_choices > 0);
        if exchange.has_hidden_error() && self.hidden_errors.len() < 8 {
            self.hidden_errors.push(quoted(exchange.error_message()));
        } else if exchange.error.is_some() {
            self.open_error = exchange.status;
        }
        let limits = exchange.headers.iter().filter(|(name, _)| name.contains("ratelimit"));
        self.limit_headers.extend(limits.map(|(name, _)| excerpt(name)).take(16));
        if exchange.header("x-litellm-version").is_some() {
            self.preset = Some(Preset::LiteLlm);
        }
        if exchange.status == Some(429) {
            let wait = exchange.header("retry-after");
            let wait = wait.map_or("no retry-after".to_owned(), |wait| format!("retry-after: {wait}"));
            self.too_many = Some(wait);
        }
        self.calls.take(exchange);
    }
}

impl Calls {
    fn take(&mut self, exchange: &Exchange) {
        let calls = &exchange.reply.calls;
        self.count += calls.len();
        for call in calls {
            self.without_id += usize::from(call.id.is_none());
            self.without_index += usize::from(call.index.is_none() && exchange.chunks > 0);
            self.ids.extend(call.id.clone().filter(|_| self.ids.len() < MAX_IDS));
        }
        if calls.len() > 1 && exchange.chunks > 0 {
            self.several = Some(calls.iter().map(|call| call.index).collect());
        }
        if !calls.is_empty() && exchange.cut.is_none() && !exchange.reply.is_cut_short() {
            self.finish.insert(exchange.reply.finish.as_deref().map_or("none".to_owned(), excerpt));
        }
    }
}
