//! Log lines: JSON for machines, text for people, both to stderr.

use std::io::{IsTerminal, stderr};
use std::panic;

use tracing::Subscriber;
use tracing_subscriber::fmt::format::{FmtSpan, JsonFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use super::json_line::JsonLine;
use crate::config::LogFormat;

/// Writes lines of this form.
pub(super) fn layer<S>(format: LogFormat, filter: EnvFilter) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let terminal = stderr().is_terminal();
    let layer = fmt::layer().with_writer(stderr).with_span_events(FmtSpan::NONE);
    match format {
        LogFormat::Text => layer.with_ansi(colours(terminal)).with_filter(filter).boxed(),
        LogFormat::Auto if terminal => layer.with_ansi(colours(terminal)).with_filter(filter).boxed(),
        LogFormat::Json | LogFormat::Auto => {
            let json = layer.fmt_fields(JsonFields::new()).event_format(JsonLine);
            json.with_filter(filter).boxed()
        }
    }
}

/// As <https://no-color.org> has it.
fn colours(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Logs panics like anything else, without what may be a client's words: only fixed texts are repeated.
pub(super) fn catch_panics() {
    panic::set_hook(Box::new(|info| {
        let what = info.payload().downcast_ref::<&'static str>().copied().unwrap_or("(withheld)");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(what, place, "panic");
    }));
}
