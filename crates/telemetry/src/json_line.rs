//! The JSON log format: one line per event, with its fields next to its message. Of the enclosing spans only those fields are
//! added that identify the request, response, provider and model; the event's own fields take precedence.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{MODEL, PROVIDER, REQUEST_ID, RESPONSE_ID};

/// Span fields that are added to log lines, and their names there.
const SPAN_FIELDS: [(&str, &str); 4] = [
    (REQUEST_ID, REQUEST_ID),
    (RESPONSE_ID, RESPONSE_ID),
    ("gen_ai.provider.name", PROVIDER),
    ("gen_ai.request.model", MODEL),
];
const LINE_CAPACITY: usize = 640;

/// The formatter. Requires span fields formatted as JSON.
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let metadata = event.metadata();
        let mut line = LogLine { text: Vec::with_capacity(LINE_CAPACITY), has: [false; SPAN_FIELDS.len()] };
        line.put("timestamp", &time);
        line.put("level", metadata.level().as_str());
        event.record(&mut line);
        for span in ctx.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<N>>() else { continue };
            let Ok(fields) = serde_json::from_str::<Map<String, Value>>(&fields.fields) else { continue };
            for (i, (name, shown)) in SPAN_FIELDS.iter().enumerate() {
                if let Some(value) = fields.get(*name).filter(|_| line.has.get(i) == Some(&false)) {
                    line.put(shown, value);
                }
            }
        }
        line.put("target", metadata.target());
        line.text.extend_from_slice(b"}\n");
        to.write_str(std::str::from_utf8(&line.text).map_err(|_| fmt::Error)?)
    }
}

/// A line being written.
struct LogLine {
    text: Vec<u8>,
    /// Which of [`SPAN_FIELDS`] it has already.
    has: [bool; SPAN_FIELDS.len()],
}

impl LogLine {
    fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        for (has, (_, shown)) in self.has.iter_mut().zip(SPAN_FIELDS) {
            *has |= shown == name;
        }
        let before = self.text.len();
        self.text.push(if before == 0 { b'{' } else { b',' });
        let written = serde_json::to_writer(&mut self.text, name).and_then(|()| {
            self.text.push(b':');
            serde_json::to_writer(&mut self.text, value)
        });
        if written.is_err() {
            self.text.truncate(before);
        }
    }
}

impl Visit for LogLine {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), &format!("{value:?}"));
    }
}
