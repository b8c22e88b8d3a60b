//! Networks of companies: proxies, private authorities, client certificates. The servers are processes of their own.

mod egress;
mod environment;
mod forwarded;
mod providers;

use antwort::config::{LoadOptions, Settings, load};

use antwort_test_support::gateway::{Builder, Gateway};
use antwort_test_support::network::Server;

/// The settings of a file of this text.
fn settings(yaml: &str, environment: &[(&str, &str)]) -> Settings {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = LoadOptions {
        file: Some("antwort.yaml".into()),
        text: Some(format!("store: {{url: 'memory:'}}\n{yaml}")),
        environment: environment.collect(),
        ..LoadOptions::default()
    };
    load(&options).unwrap_or_else(|errors| panic!("{errors}")).settings
}

/// A gateway before the provider of these settings, which makes one try.
fn gateway(provider: &str) -> Builder {
    let more = "retries: {max: 0}, timeouts: {connect: 10s}";
    Gateway::with(settings(&format!("providers: {{default: {{{provider}, {more}}}}}"), &[]))
}

fn port_of(url: &str) -> u16 {
    reqwest::Url::parse(url).unwrap().port().unwrap()
}

fn url_of(proxy: &Server) -> String {
    format!("http://127.0.0.1:{}", proxy.port)
}
