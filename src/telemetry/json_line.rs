//! One log event as a line of JSON: its fields beside its message, and of the spans around it only what tells to which
//! request, response, provider and model it belongs. Fields of the event itself count.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Fields of spans that lines have, and their names there.
const OF_SPANS: [(&str, &str); 4] = [
    ("request_id", "request_id"),
    ("response_id", "response_id"),
    ("gen_ai.provider.name", "provider"),
    ("gen_ai.request.model", "model"),
];

/// Writes the lines. Needs the fields of spans as JSON.
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
        let mut line = Line(Map::new());
        line.put("timestamp", time.into());
        line.put("level", metadata.level().as_str().into());
        event.record(&mut line);
        for span in ctx.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<N>>() else { continue };
            let Ok(fields) = serde_json::from_str::<Map<String, Value>>(&fields.fields) else { continue };
            for (name, shown) in OF_SPANS {
                if let Some(value) = fields.get(name).filter(|_| !line.0.contains_key(shown)) {
                    line.put(shown, value.clone());
                }
            }
        }
        line.put("target", metadata.target().into());
        writeln!(to, "{}", Value::Object(line.0))
    }
}

struct Line(Map<String, Value>);

impl Line {
    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }
}
