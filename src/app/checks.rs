//! Checks of what the settings alone do not show: URLs that only their clients understand, those of PostgreSQL and NATS, and
//! what this binary was built without. Connects to nothing.

use anyhow::Context;

use super::{nats, postgres};
use crate::transport::UiFiles;
use antwort_config::{BusUrl, Settings, StoreUrl, UiSwitch};

const PAGE: &str = "ui.enabled";

/// What is wrong, each with its key.
pub(crate) fn errors(settings: &Settings) -> Vec<String> {
    let store = match &settings.store.url {
        StoreUrl::Postgres(url) => postgres::check_url(url),
        StoreUrl::Sqlite(_) | StoreUrl::Memory => Ok(()),
    };
    let bus = match &settings.bus.url {
        BusUrl::Postgres(url) => postgres::check_url(url),
        BusUrl::Nats(urls) => nats::check(urls, &settings.bus),
        BusUrl::Auto | BusUrl::Store | BusUrl::Local | BusUrl::Poll => Ok(()),
    };
    let page = page(settings).map_err(|error| error.root_cause().to_string());
    let checked = [("store.url", store), ("bus.url", bus), (PAGE, page)];
    checked
        .into_iter()
        .filter_map(|(key, checked)| checked.err().map(|error| format!("{key}: {error}")))
        .collect()
}

/// Whether there is a page, if it is asked for.
pub(super) fn page(settings: &Settings) -> anyhow::Result<()> {
    if settings.ui.enabled != UiSwitch::On {
        return Ok(());
    }
    UiFiles::new(settings.ui.dir.clone()).map(drop).map_err(anyhow::Error::msg).context(PAGE)
}
