//! Reads a request: counts its entries, then parses field by field, then checks fields against each other.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::limits::RequestSizeCounter;
use super::{CreateResponse, RequestSizeLimits, body, fields};
use crate::error::ApiError;
use crate::json::RawJson;
use crate::parse::{self, FromJson, ParseError, check_cancelled, truncate_for_display};

impl CreateResponse {
    /// Parses a request body. The request is boxed: each future that takes it would have room for it, some of them twice.
    ///
    /// Unknown fields are kept in [`Self::extra`] until the provider is known, which may accept them.
    pub fn parse(body: &[u8]) -> Result<Box<Self>, ApiError> {
        Self::parse_with_limits(body, RequestSizeLimits::default())
    }

    /// As [`Self::parse`], with these size limits.
    pub fn parse_with_limits(body: &[u8], limits: RequestSizeLimits) -> Result<Box<Self>, ApiError> {
        Self::read(&body::split_fields(body)?, limits, true)
    }

    /// `needs_input`: a request that continues nothing must have input.
    pub(super) fn read(
        pairs: &body::RawFields<'_>,
        limits: RequestSizeLimits,
        needs_input: bool,
    ) -> Result<Box<Self>, ApiError> {
        // All fields are counted before any is parsed: the cost of parsing is bounded by the counts.
        RequestSizeCounter::new(limits).check(pairs)?;
        let given = |name: &str| pairs.iter().any(|(key, raw)| key == name && !parse::is_null(raw));
        check_exclusive(given)?;
        let mut request = Box::<Self>::default();
        let mut seen = HashSet::with_capacity(pairs.len());
        for (name, raw) in pairs {
            // A duplicate field means that two parsers of the body may read different values.
            if !seen.insert(name.as_ref()) {
                let problem = ParseError::invalid("", "the field is given twice.");
                return Err(problem.into_api_error(&truncate_for_display(name)));
            }
            request.bytes += raw.get().len();
            request
                .read_field(name, raw)
                .map_err(|error| error.into_api_error(&truncate_for_display(name)))?;
        }
        let continues = request.previous_response_id.is_some() || request.conversation.is_some();
        if needs_input && request.input.is_empty() && !continues {
            return Err(request.missing_input());
        }
        request.check_field_combinations(given)?;
        Ok(request)
    }

    /// The error for a request without input; whoever sends chat completions' `messages` is told what to send.
    fn missing_input(&self) -> ApiError {
        let mut error = ParseError::missing("input").into_api_error("");
        if self.extra.iter().any(|(name, _)| name == "messages") {
            error
                .body
                .message
                .push_str(" Use 'input' in place of 'messages': a text, or the list of messages.");
        }
        error
    }

    fn read_field(&mut self, name: &str, raw: &RawValue) -> Result<(), ParseError> {
        // Null means "not given", also for unknown fields.
        if parse::is_null(raw) {
            return Ok(());
        }
        check_cancelled()?;
        match fields::READERS.binary_search_by_key(&name, |(field, _)| field) {
            Ok(found) => match fields::READERS.get(found) {
                Some((_, read)) => read(self, raw),
                None => Ok(()),
            },
            Err(_) => {
                self.extra.push((name.to_owned(), RawJson::from_json(raw)?.into()));
                Ok(())
            }
        }
    }

    /// Checks rules that concern several fields.
    fn check_field_combinations(&self, given: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        if given("stream_options") && !self.stream {
            let problem = "it is only allowed together with 'stream': true.";
            return Err(ParseError::invalid("", problem).into_api_error("stream_options"));
        }
        Ok(())
    }
}

/// Checked before anything is parsed.
fn check_exclusive(given: impl Fn(&str) -> bool) -> Result<(), ApiError> {
    if given("previous_response_id") && given("conversation") {
        let problem = "give either 'previous_response_id' or 'conversation'.";
        let error = ParseError::invalid("", problem).with_code("mutually_exclusive_parameters");
        return Err(error.into_api_error("previous_response_id"));
    }
    if given("prompt") && given("agent") {
        let problem = "give either 'prompt' or 'agent': both name an agent profile.";
        let error = ParseError::invalid("", problem).with_code("mutually_exclusive_parameters");
        return Err(error.into_api_error("agent"));
    }
    Ok(())
}
