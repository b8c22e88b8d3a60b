//! The log layer (JSON or text, to the queue of standard error) and the panic hook.

use std::any::Any;
use std::backtrace::Backtrace;
use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, panic, thread};

use tracing::Subscriber;
use tracing_subscriber::fmt::format::{FmtSpan, JsonFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, fmt, reload};

use super::json_line::JsonLine;
use super::log_queue::{self, LogQueue, QueueWriter};
use super::options::LogFormat;

/// How long a thread that panics waits for the log: the process may be about to be aborted.
const MAX_PANIC_WAIT: Duration = Duration::from_millis(100);

/// The log layer in this format.
pub(super) fn layer<S>(
    format: LogFormat,
    queue: Arc<LogQueue>,
    filter: reload::Layer<EnvFilter, S>,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let terminal = stderr().is_terminal();
    let layer = fmt::layer().with_writer(QueueWriter(queue)).with_span_events(FmtSpan::NONE);
    match format {
        LogFormat::Text => layer.with_ansi(colours(terminal)).with_filter(filter).boxed(),
        LogFormat::Auto if terminal => layer.with_ansi(colours(terminal)).with_filter(filter).boxed(),
        LogFormat::Json | LogFormat::Auto => {
            let json = layer.fmt_fields(JsonFields::new()).event_format(JsonLine);
            json.with_filter(filter).boxed()
        }
    }
}

/// Whether to use colours: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
fn colours(terminal: bool) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    terminal && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Logs panics with location and backtrace. Only static panic messages are logged: a formatted one may hold a client's data.
pub(super) fn install_panic_hook() {
    let load_address = load_address().unwrap_or_default();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        log_panic(fixed_text(info.payload()), &place, &load_address);
        log_queue::wait_written_for(MAX_PANIC_WAIT);
    }));
}

fn fixed_text(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("(withheld)")
}

fn log_panic(what: &str, place: &str, load_address: &str) {
    // With the address of each frame: release builds have no symbols, and their debug information maps addresses to names.
    let backtrace = format!("{:#}", Backtrace::force_capture());
    let thread = thread::current();
    tracing::error!(what, place, thread = thread.name(), load_address, backtrace, "panic");
}

/// The load address of the program, to which the addresses in a backtrace are relative.
fn load_address() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let first = maps.lines().find(|line| line.ends_with(&*program.to_string_lossy()))?;
    Some(format!("0x{}", first.split_once('-')?.0))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_is_one_line_with_its_place_and_backtrace_and_without_the_words_of_others() {
        let lines = Lines::default();
        let to = lines.clone();
        let logs = fmt::layer().with_writer(move || to.clone());
        let logs = logs.fmt_fields(JsonFields::new()).event_format(JsonLine);
        let subscriber = tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), logs);
        let words = String::from("what a client said");
        tracing::subscriber::with_default(subscriber, || {
            log_panic(fixed_text(&words), "src/here.rs:1:2", &load_address().unwrap());
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).expect("one line");
        assert_eq!((line["message"].as_str(), line["what"].as_str()), (Some("panic"), Some("(withheld)")));
        assert_eq!(line["place"], "src/here.rs:1:2");
        // Not the name of the crate.
        assert_eq!(line["target"], "antwort::telemetry::logs");
        assert!(line["load_address"].as_str().unwrap().starts_with("0x"), "{line}");
        let backtrace = line["backtrace"].as_str().unwrap();
        // Names, where there are some, and addresses for where there are none.
        assert!(backtrace.contains("log_panic") && backtrace.contains("0x"), "{backtrace}");
        assert_eq!(fixed_text(&"fixed"), "fixed");
    }
}
