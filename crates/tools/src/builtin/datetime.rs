//! `datetime`: the current time.
//!
//! A format with a `%` is strftime's; any other is a Go layout, which shows how the reference time (Monday,
//! January 2 2006, 15:04:05, UTC-7) would be written; see `time_layout`.

#[cfg(test)]
mod tests;
mod time_layout;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

use crate::{Annotations, Arguments, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};
use antwort_protocol::parse::truncate_for_display;

const DEFAULT_LAYOUT: &str = "2006-01-02 15:04:05";
const DEFAULT_ZONE: &str = "UTC";
/// Maximum bytes of a format.
const MAX_FORMAT: usize = 256;

/// The tool.
pub(crate) struct Datetime {
    clock: fn() -> Timestamp,
}

impl Default for Datetime {
    /// Uses the system clock.
    fn default() -> Self {
        Self::with_clock(Timestamp::now)
    }
}

impl Datetime {
    /// Uses another clock, for tests.
    pub(crate) fn with_clock(clock: fn() -> Timestamp) -> Self {
        Self { clock }
    }
}

#[async_trait]
impl Tool for Datetime {
    fn definition(&self) -> ToolDefinition {
        let parameters = json!({
            "type": "object",
            "properties": {
                "format": {
                    "type": "string",
                    "description": "How to write it: strftime ('%A, %d %B %Y %H:%M') or a Go layout \
                                    ('2006-01-02 15:04:05', the default).",
                },
                "timezone": {
                    "type": "string",
                    "description": "IANA name such as 'Europe/Berlin'. UTC if absent.",
                },
            },
        });
        let returns = json!({
            "type": "object",
            "properties": {
                "timestamp": {"type": "integer"},
                "formatted": {"type": "string"},
                "timezone": {"type": "string"},
                "weekday": {"type": "string"},
            },
            "required": ["timestamp", "formatted", "timezone", "weekday"],
        });
        let description = "Tells the current date, time and weekday in a timezone.";
        ToolDefinition::new("datetime", description, &parameters)
            .with_returns(&returns)
            .with_annotations(Annotations::READ_ONLY_OPEN_WORLD)
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        // Models fill optional arguments with empty strings.
        let text = |name| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (zone, timezone) = zone(text("timezone").unwrap_or(DEFAULT_ZONE))?;
        let now = (self.clock)().to_zoned(zone);
        Ok(ToolOutput::value(json!({
            "timestamp": now.timestamp().as_second(),
            "formatted": format(&now, text("format").unwrap_or(DEFAULT_LAYOUT))?,
            "timezone": timezone,
            "weekday": now.strftime("%A").to_string(),
        })))
    }
}

/// The time zone and its name. An unknown one is an error: the model would take the time of another zone for the one it
/// asked for.
fn zone(name: &str) -> Result<(TimeZone, String), ToolError> {
    let zone = TimeZone::get(name).map_err(|_| {
        let shown = truncate_for_display(name);
        ToolError::argument(format!(
            "timezone '{shown}' is unknown; use an IANA name such as 'Europe/Berlin'"
        ))
    })?;
    let name = zone.iana_name().unwrap_or(name).to_owned();
    Ok((zone, name))
}

fn format(time: &Zoned, format: &str) -> Result<String, ToolError> {
    if format.len() > MAX_FORMAT {
        return Err(ToolError::argument(format!("format is longer than {MAX_FORMAT} bytes")));
    }
    if !format.contains('%') {
        return Ok(time_layout::format(time, format));
    }
    jiff::fmt::strtime::format(format, time)
        .map_err(|error| ToolError::argument(format!("format is invalid: {error}")))
}
