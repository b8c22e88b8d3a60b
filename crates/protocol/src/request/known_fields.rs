//! The fields of a small body, all of which are known.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::RequestSizeLimits;
use super::body::{RawFields, split_fields};
use super::limits::RequestSizeCounter;
use crate::error::ApiError;
use crate::parse::{self, ParseError, truncate_for_display};

/// The fields of a body that are not null.
pub(super) struct KnownFields<'a>(RawFields<'a>);

impl<'a> KnownFields<'a> {
    /// Splits a body into its fields, of which only these are known. An empty body has none.
    pub(super) fn split(body: &'a [u8], known: &[&str], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        if body.trim_ascii().is_empty() {
            return Ok(Self(Vec::new()));
        }
        Self::check(split_fields(body)?, known, limits)
    }

    /// Checks fields that were split before.
    pub(super) fn check(
        pairs: RawFields<'a>,
        known: &[&str],
        limits: RequestSizeLimits,
    ) -> Result<Self, ApiError> {
        let mut seen = HashSet::with_capacity(pairs.len());
        for (name, _) in &pairs {
            let shown = truncate_for_display(name);
            if !known.contains(&name.as_ref()) {
                return Err(ParseError::unknown_field("").into_api_error(&shown));
            }
            if !seen.insert(name.as_ref()) {
                return Err(ParseError::invalid("", "the field is given twice.").into_api_error(&shown));
            }
        }
        RequestSizeCounter::new(limits).check(&pairs)?;
        Ok(Self(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(key, raw)| key == name && !parse::is_null(raw)).map(|(_, raw)| *raw)
    }

    pub(super) fn required(&self, name: &str) -> Result<&'a RawValue, ApiError> {
        self.get(name).ok_or_else(|| ParseError::missing(name).into_api_error(""))
    }

    /// The value of a field.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a RawValue) -> Result<T, ParseError>,
    ) -> Result<Option<T>, ApiError> {
        self.get(name).map(read).transpose().map_err(|error| error.into_api_error(name))
    }
}
