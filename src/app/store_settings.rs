//! What a store of any kind is opened with: who asks, for how long what is kept, and under which name the process writes.

use std::collections::HashMap;
use std::sync::Arc;

use antwort_config::Settings;
use antwort_config::settings::{StoreSettings, TenantRetention};
use antwort_identity::Requester;
use antwort_store as store;

/// The tenant and owner of each key, for fair queueing in the store.
pub(super) fn requesters(settings: &Settings) -> Vec<Requester> {
    settings.auth.keys.values().map(|key| Requester::new(&key.tenant, &key.owner)).collect()
}

/// Retention of the tenants that have their own.
pub(super) fn tenant_retentions(store: &StoreSettings) -> HashMap<Arc<str>, store::TenantRetention> {
    let own = |(tenant, own): (&String, &TenantRetention)| {
        let conversations = own.conversation_ttl.or(own.ttl).or(store.conversation_ttl);
        let retention = store::TenantRetention {
            ttl: own.ttl.map_or(store.ttl, |ttl| ttl.0),
            conversation_ttl: conversations.map_or(store.ttl, |ttl| ttl.0),
            max_bytes: own.max_size.map(|bytes| bytes as u64),
        };
        (tenant.as_str().into(), retention)
    };
    store.tenants.iter().map(own).collect()
}

/// The instance name under which this process owns its runs: stable over restarts, distinct for each process of a host.
pub(super) fn instance(settings: &Settings) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}/{}", host.trim(), settings.listen)
}
