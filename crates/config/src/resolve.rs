//! Converts the configuration as written into settings: addresses, keys and limits are parsed and checked against each
//! other.
//!
//! Continues after an error, so that all are reported together. Model servers are in `provider`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use tracing_subscriber::EnvFilter;
use url::Url;

use self::checker::{Checker, parse_http};
use super::auth::{ApiKeySettings, AuthSettings};
use super::error::Diagnostics;
use super::file_hashes::FileHashes;
use super::interpolate::Lookup;
use super::jobs::Role;
use super::raw::{Raw, RawAuth, RawKey, RawSeal};
use super::request_limits;
use super::settings::{SealKey, SealSettings, Settings, UiSwitch, WebSocketSettings};
use super::store::StoreUrl;
use super::tree::Tree;
use antwort_identity::Scope;

mod agents;
mod checker;
mod egress;
mod mcp;
mod network;
mod pass_through;
mod provider;
mod routes;
mod store;
mod tools;
mod webhooks;

/// Resolves `raw`, which was read from `tree`; errors are added to `diagnostics`.
pub(super) fn settings(
    raw: Raw,
    tree: &Tree,
    environment: Lookup<'_>,
    diagnostics: &mut Diagnostics,
) -> Settings {
    let mut check = Checker { tree, diagnostics, contents: FileHashes::default() };
    let clients = network::for_all_clients(&raw.network, &raw.tls, environment, &mut check);
    let seal = check.seal(raw.seal, &raw.store.url);
    let store = check.store(raw.store, &seal);
    let mut settings = Settings {
        listen: check.listen(raw.listen),
        role: raw.role,
        jobs: raw.jobs,
        auth: check.auth(raw.auth),
        providers: provider::resolve_all(raw.providers, &clients, &mut check),
        seal,
        config: raw.config,
        log: raw.log,
        server: raw.server,
        sse: raw.sse,
        engine: raw.engine,
        tools: raw.tools,
        mcp: raw.mcp,
        egress: raw.egress,
        network: raw.network,
        tls: raw.tls,
        agents: raw.agents,
        compat: raw.compat,
        store,
        bus: raw.bus,
        ui: raw.ui,
        telemetry: raw.telemetry,
        models: raw.models,
        webhooks: raw.webhooks,
        contents: FileHashes::default(),
    };
    check.check_exposure(&settings);
    check.check_page(&settings);
    check.check_limits(&settings);
    check.check_shares(&settings);
    check.check_operation(&settings);
    agents::limits(&settings.engine, &mut check);
    tools::check(&settings.tools, settings.server.public_url.as_deref(), &mut check);
    egress::check(&settings.egress, &mut check);
    network::egress(&mut settings.egress, &clients, &mut check);
    settings.telemetry.http = clients;
    mcp::check(&settings.mcp, &mut check);
    webhooks::check(&settings.webhooks, &mut check);
    routes::check(&settings, &mut check);
    pass_through::check(&settings.server.pass_through, &mut check);
    agents::check(&settings.agents, &settings.mcp.servers, &mut check);
    settings.contents = check.contents;
    settings
}

/// Parses `listen`.
pub(super) fn parse_listen(text: &str) -> Option<SocketAddr> {
    // Other names would have to be resolved, possibly to several addresses; this one is always the same.
    text.replacen("localhost:", "127.0.0.1:", 1).parse().ok()
}

impl Checker<'_> {
    fn listen(&mut self, text: Option<String>) -> SocketAddr {
        let default = Settings::default().listen;
        let Some(text) = text else { return default };
        parse_listen(&text).unwrap_or_else(|| {
            let message =
                format!("expected an address and a port, such as 127.0.0.1:8080, 0.0.0.0:80 or [::]:80, found \"{text}\"");
            self.error(&["listen"], message);
            default
        })
    }

    fn auth(&mut self, raw: RawAuth) -> AuthSettings {
        if raw.none && !raw.keys.is_empty() {
            self.error(&["auth", "none"], "contradicts auth.keys: remove one of the two");
        }
        let mut names_of: BTreeMap<[u8; 32], String> = BTreeMap::new();
        let mut keys = BTreeMap::new();
        for (name, raw) in raw.keys {
            let Some(key) = self.key(&name, raw) else { continue };
            if let Some(other) = names_of.insert(key.hash, name.clone()) {
                self.error(&["auth", "keys", &name], format!("is the same key as `{other}`"));
            }
            keys.insert(name, key);
        }
        AuthSettings { none: raw.none, keys }
    }

    fn key(&mut self, name: &str, raw: RawKey) -> Option<ApiKeySettings> {
        let path = ["auth", "keys", name];
        let hash = match (raw.hash, raw.key) {
            (Some(_), Some(_)) => {
                self.error(&path, "has both `hash` and `key`: one is enough");
                None
            }
            (None, None) => {
                self.missing(&path, "needs `hash` (sha256:…) or `key`");
                None
            }
            (Some(hash), None) => {
                let hash = parse_digest(&hash);
                if hash.is_none() {
                    self.error(&["auth", "keys", name, "hash"], "expected `sha256:` and 64 hex digits");
                }
                hash
            }
            (None, Some(key)) => self.sha256(name, &key),
        }?;
        let owner = raw.owner.unwrap_or_else(|| name.to_owned());
        Some(ApiKeySettings {
            hash,
            tenant: raw.tenant.as_deref().unwrap_or("default").into(),
            owner: Arc::from(owner),
            scopes: raw.scopes.unwrap_or_else(|| vec![Scope::All]),
            dialect: raw.dialect,
            client_action_status: raw.client_action_status,
            store: raw.store,
            max_runs: raw.max_runs,
        })
    }

    fn sha256(&mut self, name: &str, key: &SecretString) -> Option<[u8; 32]> {
        let key = key.expose_secret();
        // Such a key cannot be sent in a header.
        if key.is_empty() || key.contains(|c: char| c.is_whitespace() || c.is_control()) {
            self.error(&["auth", "keys", name, "key"], "is empty or contains white space");
            return None;
        }
        digest::digest(&digest::SHA256, key.as_bytes()).as_ref().try_into().ok()
    }

    /// Beyond loopback keys are required, unless `auth.none` is set.
    fn check_exposure(&mut self, settings: &Settings) {
        let auth = &settings.auth;
        if settings.listen.ip().is_loopback()
            || auth.none
            || !auth.keys.is_empty()
            || self.diagnostics.has_rejected("auth")
        {
            return;
        }
        self.missing(
            &["listen"],
            format!(
                "{} can be reached from other machines, and no key is needed to call it: set ANTWORT_API_KEY or \
                 auth.keys, or set `auth: none`",
                settings.listen
            ),
        );
    }

    /// The page runs whatever its visitor asks: beyond loopback only for those who have a key.
    fn check_page(&mut self, settings: &Settings) {
        if let Some(dir) = settings.ui.dir.as_ref().filter(|dir| !dir.is_dir()) {
            self.error(&["ui", "dir"], format!("{} is not a directory", dir.display()));
        }
        let auth = &settings.auth;
        let is_open = auth.none || auth.keys.is_empty();
        if settings.ui.enabled == UiSwitch::On
            && !settings.listen.ip().is_loopback()
            && is_open
            && !self.diagnostics.has_rejected("auth")
        {
            self.error(
                &["ui", "enabled"],
                format!(
                    "the page would be open to everyone who reaches {}: it needs API keys (ANTWORT_API_KEY or auth.keys)",
                    settings.listen
                ),
            );
        }
    }

    fn seal(&mut self, raw: RawSeal, store: &StoreUrl) -> SealSettings {
        let mut keys = Vec::new();
        for (index, text) in raw.keys.iter().enumerate() {
            match parse_seal_key(text) {
                Some(key) => keys.push(key),
                None => {
                    let message = "expected base64 of exactly 32 bytes, such as the output of `openssl rand -base64 32`";
                    self.error(&["seal", "keys", &index.to_string()], message);
                }
            }
        }
        let beside_store = || match store {
            StoreUrl::Sqlite(path) => {
                let mut name = OsString::from(path);
                name.push(".seal-key");
                Some(PathBuf::from(name))
            }
            StoreUrl::Memory | StoreUrl::Postgres(_) => None,
        };
        SealSettings { keys, file: raw.file.map(PathBuf::from).or_else(beside_store) }
    }

    /// Limits of 0, and limits that contradict each other.
    fn check_limits(&mut self, settings: &Settings) {
        let (server, sse, engine, store) =
            (&settings.server, &settings.sse, &settings.engine, &settings.store);
        for (path, value) in [
            (["log", "queue"], settings.log.queue),
            (["server", "request_body_limit"], server.request_body_limit),
            (["server", "max_runs"], server.max_runs),
            (["server", "max_buffered_body_bytes"], server.max_buffered_body_bytes),
            (["server", "max_connections"], server.max_connections.unwrap_or(1)),
            (["engine", "max_output_items"], engine.max_output_items),
            (["engine", "max_item_bytes"], engine.max_item_bytes),
            (["engine", "max_response_bytes"], engine.max_response_bytes),
            (["engine", "max_conversation_bytes"], engine.max_conversation_bytes),
            (["store", "max_size"], store.max_size.unwrap_or(1)),
            (["jobs", "concurrency"], settings.jobs.concurrency),
            (["jobs", "max_attempts"], settings.jobs.max_attempts as usize),
        ] {
            self.require_nonzero(&path, value == 0);
        }
        for (name, value) in request_limits::each(&server.request_limits) {
            self.require_nonzero(&["server", "request_limits", name], value == 0);
        }
        for (path, value) in [
            (["server", "write_timeout"], server.write_timeout),
            (["server", "queue_timeout"], server.queue_timeout),
            (["server", "body_idle_timeout"], server.body_idle_timeout),
            (["server", "first_byte_timeout"], server.first_byte_timeout),
            (["server", "header_timeout"], server.header_timeout),
            (["server", "keep_alive_timeout"], server.keep_alive_timeout),
            (["sse", "keepalive"], sse.keepalive),
            (["engine", "run_timeout"], engine.run_timeout),
            (["bus", "poll_interval"], settings.bus.poll_interval),
            (["store", "lease"], store.lease),
            (["store", "maintenance_interval"], store.maintenance_interval),
            (["store", "idempotency_ttl"], store.idempotency_ttl),
            (["store", "event_ttl"], store.event_ttl),
            (["store", "statement_timeout"], store.statement_timeout),
            (["store", "ttl"], store.ttl.unwrap_or(Duration::from_secs(1))),
        ] {
            self.require_nonzero(&path, value.is_zero());
        }
        self.check_role(settings.role, &settings.store.url);
        self.check_websocket(&server.websocket);
        if engine.max_item_bytes > engine.max_response_bytes {
            self.error(
                &["engine", "max_item_bytes"],
                "is more than engine.max_response_bytes, so it limits nothing",
            );
        }
        self.check_retention(store);
        self.check_bus(&settings.bus.url, &store.url);
        if store.maintenance_interval * 2 > store.lease {
            let message = "must be at most half of store.lease, or a live process may lose its leases";
            self.error(&["store", "maintenance_interval"], message);
        }
    }

    /// A queue that gateways and workers share needs a database that several processes use.
    fn check_role(&mut self, role: Role, store: &StoreUrl) {
        if role != Role::All && !matches!(store, StoreUrl::Postgres(_)) {
            self.error(
                &["role"],
                "gateways and workers share a PostgreSQL database; with store.url sqlite: or memory: the role is all",
            );
        }
    }

    fn check_websocket(&mut self, websocket: &WebSocketSettings) {
        for (name, is_zero) in [
            ("ping_interval", websocket.ping_interval.is_zero()),
            ("idle_timeout", websocket.idle_timeout.is_zero()),
            ("max_frame_bytes", websocket.max_frame_bytes == 0),
            ("max_age", websocket.max_age.is_zero()),
        ] {
            self.require_nonzero(&["server", "websocket", name], is_zero);
        }
        if websocket.idle_timeout <= websocket.ping_interval {
            let message =
                "must be more than server.websocket.ping_interval, or clients cannot answer in time";
            self.error(&["server", "websocket", "idle_timeout"], message);
        }
    }

    /// Limits of a tenant or key against the shared ones.
    fn check_shares(&mut self, settings: &Settings) {
        let server = &settings.server;
        // An eighth is reserved for small bodies.
        if server.request_body_limit > server.max_buffered_body_bytes / 8 * 7 {
            let message = "is more than seven eighths of server.max_buffered_body_bytes: such a body would never be accepted";
            self.error(&["server", "request_body_limit"], message);
        }
        let all = server.max_runs;
        let per_tenant = server.max_runs_per_tenant.map(|max| (vec!["server", "max_runs_per_tenant"], max));
        let keys = settings.auth.keys.iter();
        let per_key =
            keys.filter_map(|(name, key)| Some((vec!["auth", "keys", name, "max_runs"], key.max_runs?)));
        for (path, max) in per_tenant.into_iter().chain(per_key) {
            self.require_nonzero(&path, max == 0);
            if max > all {
                self.error(&path, "is more than server.max_runs, so it limits nothing");
            }
        }
        let jobs = &settings.jobs;
        if let Some(max) = jobs.max_runs_per_tenant {
            let path = ["jobs", "max_runs_per_tenant"];
            self.require_nonzero(&path, max == 0);
            if max > jobs.concurrency {
                self.error(&path, "is more than jobs.concurrency, so it limits nothing");
            }
        }
    }

    fn check_operation(&mut self, settings: &Settings) {
        if let Err(error) = EnvFilter::builder().parse(&settings.log.filter) {
            let message = format!(
                "expected a level such as `info`, or directives such as `info,antwort=debug`: {error}"
            );
            self.error(&["log", "filter"], message);
        }
        for (index, origin) in settings.server.cors.allowed_origins.iter().enumerate() {
            if !is_origin(origin) {
                let path = ["server", "cors", "allowed_origins", &index.to_string()];
                self.error(
                    &path,
                    format!("expected an origin such as https://app.example.com, or `*`, found \"{origin}\""),
                );
            }
        }
        for (index, name) in settings.server.allowed_hosts.iter().enumerate() {
            if !is_host_name(name) {
                self.error(
                    &["server", "allowed_hosts", &index.to_string()],
                    format!("expected a host name without a port, such as antwort.internal, or `*`, found \"{name}\""),
                );
            }
        }
        for (index, proxy) in settings.server.trusted_proxies.iter().enumerate() {
            if proxy.0.prefix_len() == 0 {
                let path = ["server", "trusted_proxies", &index.to_string()];
                self.error(&path, "contains every address, so that any client could forge its address");
            }
        }
        let telemetry = &settings.telemetry;
        if telemetry.otlp_endpoint.as_deref().is_some_and(|url| parse_http(url).is_none()) {
            self.error(
                &["telemetry", "otlp_endpoint"],
                "expected an http or https URL, such as http://localhost:4318",
            );
        }
        if !(0.0..=1.0).contains(&telemetry.sample_ratio) {
            self.error(&["telemetry", "sample_ratio"], "expected a number from 0 to 1");
        }
    }
}

/// Whether browsers could send this as `Origin`, which has no path.
fn is_origin(text: &str) -> bool {
    let serialized = |url: &Url| match url.scheme() {
        "http" | "https" => url.origin().ascii_serialization() == text,
        // Of extensions and apps, such as chrome-extension://id.
        _ => {
            url.as_str() == text && url.path().is_empty() && url.query().is_none() && url.fragment().is_none()
        }
    };
    text == "*"
        || Url::parse(text).is_ok_and(|url| url.has_host() && url.username().is_empty() && serialized(&url))
}

/// Whether this can be a host name in `Host`.
fn is_host_name(text: &str) -> bool {
    text == "*"
        || (!text.is_empty()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')))
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64)?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
        // `from_str_radix` alone would accept a sign.
        let pair =
            std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|c| c.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(hash)
}

fn parse_seal_key(text: &SecretString) -> Option<SealKey> {
    let bytes = BASE64_STANDARD.decode(text.expose_secret().trim()).ok()?;
    let key: Box<[u8; 32]> = bytes.into_boxed_slice().try_into().ok()?;
    Some(Arc::new(SecretBox::new(key)))
}
