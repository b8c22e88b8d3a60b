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

/// Refuses what this binary was built without, before anything is opened or changed.
pub(super) fn parts(settings: &Settings) -> anyhow::Result<()> {
    if let StoreUrl::Postgres(_) = settings.store.url {
        postgres::present().map_err(anyhow::Error::msg).context("store.url")?;
    }
    let bus = match settings.bus.url {
        BusUrl::Postgres(_) => postgres::present(),
        BusUrl::Nats(_) => nats::present(),
        BusUrl::Auto | BusUrl::Store | BusUrl::Local | BusUrl::Poll => Ok(()),
    };
    bus.map_err(anyhow::Error::msg).context("bus.url")?;
    page(settings)
}

/// The files of the web page, where it is served.
pub(crate) fn page_files(settings: &Settings) -> Option<UiFiles> {
    if !settings.ui.is_served(settings.listen) {
        return None;
    }
    // One that is asked for is there, or the gateway does not start.
    UiFiles::new(settings.ui.dir.clone()).ok()
}

/// Whether there is a page, if it is asked for.
pub(super) fn page(settings: &Settings) -> anyhow::Result<()> {
    if settings.ui.enabled != UiSwitch::On {
        return Ok(());
    }
    UiFiles::new(settings.ui.dir.clone()).map(drop).map_err(anyhow::Error::msg).context(PAGE)
}
