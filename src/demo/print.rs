//! Output of the demo.

use std::io::{IsTerminal, Write};

use super::gateway::Gateway;
use crate::app::checks;
use antwort_config::{Settings, StoreUrl};
use antwort_provider::model_choice::{NoModel, Remedy};

/// What stands in the commands for a model whose name is not known.
const UNKNOWN_MODEL: &str = "MODEL";

/// Writes a line to standard output. A closed pipe does not stop the gateway.
pub(super) fn line(text: &str) {
    let _closed = writeln!(std::io::stdout(), "{text}");
}

/// Writes without a line end, and flushes.
pub(super) fn piece(text: &str) {
    let mut out = std::io::stdout();
    let _closed = write!(out, "{text}").and_then(|()| out.flush());
}

/// Dimmed on a terminal.
pub(super) fn dim(text: &str) -> String {
    styled(text, "2")
}

/// Bold on a terminal.
pub(super) fn bold(text: &str) -> String {
    styled(text, "1")
}

fn styled(text: &str, code: &str) -> String {
    if std::io::stdout().is_terminal() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// The page, and URLs of the gateway, the providers and the store.
pub(super) fn opening(base: &str, settings: &Settings) {
    let store = match &settings.store.url {
        StoreUrl::Sqlite(path) => format!("SQLite, {}", path.display()),
        StoreUrl::Memory => "in memory".to_owned(),
        StoreUrl::Postgres(url) => format!("PostgreSQL, {url}"),
    };
    line(&bold("antwort"));
    if checks::page_files(settings).is_some() {
        line(&format!("  page      {}", page(base)));
    }
    line(&format!("  gateway   {base}"));
    for (name, provider) in &settings.providers {
        line(&format!("  provider  {} ({name})", provider.url));
    }
    line(&format!("  store     {store}"));
    line("");
}

/// What to do if there is no model to name in the commands.
pub(super) fn no_models(failures: &[NoModel]) {
    line(&bold("The models of the model server are not known:"));
    for failure in failures {
        line(&format!("  {}", failure.problem()));
        match failure.remedy() {
            Remedy::Address => {
                line("  Check that the model server runs, and that host and port of its address are right.");
                line(&format!("  Then put the name of one of its models in place of {UNKNOWN_MODEL}."));
                continue;
            }
            Remedy::ApiKey => {
                line(
                    "  Its API key is missing or not accepted: stop the demo, and set ANTWORT_UPSTREAM_API_KEY.",
                );
            }
            Remedy::BaseUrl(url) => line(&format!(
                "  The address of most servers ends in /v1: stop the demo, and try ANTWORT_UPSTREAM_URL={url}"
            )),
            Remedy::Name => {}
        }
        line(&format!(
            "  If the server has no list of models, put the name of one in place of {UNKNOWN_MODEL}."
        ));
    }
    line("");
}

/// Commands to try.
pub(super) fn closing(gateway: &Gateway, model: Option<&str>) {
    let (base, model) = (&gateway.base, model.unwrap_or(UNKNOWN_MODEL));
    let key = if gateway.key.is_some() { " -H \"authorization: Bearer $ANTWORT_API_KEY\"" } else { "" };
    let post = format!("{base}/responses{key} -H 'content-type: application/json'");
    line(&bold("Try it:"));
    if gateway.key.is_some() {
        line("  (with one of the gateway's keys in ANTWORT_API_KEY)");
    }
    line(&format!("  curl -sS {post} -d '{{\"model\":\"{model}\",\"input\":\"Hello\"}}'"));
    line(&format!("  curl -sSN {post} -d '{{\"model\":\"{model}\",\"input\":\"Hello\",\"stream\":true}}'"));
    line(&format!("  curl -sS{key} '{base}/responses?limit=2'"));
    line("");
    line("Serving until Ctrl-C.");
}

/// The address of the web page.
fn page(base: &str) -> String {
    format!("{}/ui/", base.strip_suffix("/v1").unwrap_or(base))
}
