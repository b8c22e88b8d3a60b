//! Checks of webhooks.

use std::collections::BTreeMap;

use super::checker::{Checker, has_credentials, parse_http};
use crate::webhooks::WebhookSettings;

/// Checks each webhook.
pub(super) fn check(webhooks: &BTreeMap<String, WebhookSettings>, check: &mut Checker<'_>) {
    for (name, webhook) in webhooks {
        match parse_http(&webhook.url) {
            None => check.error(&["webhooks", name, "url"], "expected an http or https URL"),
            Some(url) if has_credentials(&url) => {
                let message = "must not hold a user or password: notices are signed with `secret`";
                check.error(&["webhooks", name, "url"], message);
            }
            Some(_) => {}
        }
        if webhook.key().is_none() {
            let message = "expected `whsec_` and the base64 of 24 to 64 bytes, such as `whsec_` and the output of \
                           `openssl rand -base64 32`";
            check.error(&["webhooks", name, "secret"], message);
        }
        if webhook.events.is_empty() {
            check.error(
                &["webhooks", name, "events"],
                "is empty, so nothing is ever sent: name events, or remove it",
            );
        }
        if webhook.tenants.as_ref().is_some_and(Vec::is_empty) {
            check.error(
                &["webhooks", name, "tenants"],
                "is empty, so nothing is ever sent: name tenants, or remove it",
            );
        }
    }
}
