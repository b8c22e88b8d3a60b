//! `datetime`: what time it is, which models cannot know.
//!
//! A format that holds a `%` is strftime's; any other is one of Go, which shows how the reference time (Monday,
//! January 2 2006, 15:04:05, seven hours west) would be written. `layout` owns the latter.

mod layout;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

use crate::tools::{Annotations, Arguments, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};

const DEFAULT_LAYOUT: &str = "2006-01-02 15:04:05";
const DEFAULT_ZONE: &str = "UTC";
/// Bytes of a format.
const MAX_FORMAT: usize = 256;

/// The tool.
pub(crate) struct Datetime {
    clock: fn() -> Timestamp,
}

impl Default for Datetime {
    /// By the clock of the system.
    fn default() -> Self {
        Self::with_clock(Timestamp::now)
    }
}

impl Datetime {
    /// By another clock.
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
                    "description": "IANA name such as 'Europe/Berlin'. UTC if absent or unknown.",
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
            .with_annotations(Annotations::LOOKS_OUTSIDE)
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        // Models fill in optional arguments with empty strings.
        let text = |name| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (zone, timezone) = zone(text("timezone").unwrap_or(DEFAULT_ZONE));
        let now = (self.clock)().to_zoned(zone);
        Ok(ToolOutput::value(json!({
            "timestamp": now.timestamp().as_second(),
            "formatted": format(&now, text("format").unwrap_or(DEFAULT_LAYOUT))?,
            "timezone": timezone,
            "weekday": now.strftime("%A").to_string(),
        })))
    }
}

/// The zone of a name, and the name of what was found: an unknown one is UTC, and is not said to be anything else.
fn zone(name: &str) -> (TimeZone, String) {
    match TimeZone::get(name) {
        Ok(zone) => {
            let name = zone.iana_name().unwrap_or(name).to_owned();
            (zone, name)
        }
        Err(_) => (TimeZone::UTC, DEFAULT_ZONE.to_owned()),
    }
}

fn format(time: &Zoned, format: &str) -> Result<String, ToolError> {
    if format.len() > MAX_FORMAT {
        return Err(ToolError::argument(format!("format is longer than {MAX_FORMAT} bytes")));
    }
    if !format.contains('%') {
        return Ok(layout::format(time, format));
    }
    jiff::fmt::strtime::format(format, time)
        .map_err(|error| ToolError::argument(format!("format cannot be used: {error}")))
}
