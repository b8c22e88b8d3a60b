//! What it takes to make a run in another process: the request as it was sent, and who sent it.
//!
//! Sealed, since it holds the caller's credentials. A binary reads its own format and the one before.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::context::{EventReader, OnUnservedTool, RunContext};
use crate::run_spec::RunSpec;
use antwort_config::StorePolicy;
use antwort_identity::Owner;
use antwort_limits::run_on_bytes;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::{ClientActionStatus, CreateResponse, RequestSizeLimits, SentFields};
use antwort_response::seal::SealKeys;

/// The format that this binary writes.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct JobSpec {
    format: u32,
    /// The body of the request. As text it is read by later versions, too.
    request: String,
    /// The name of the caller's API key.
    key: String,
    /// SHA-256 of the key. None: none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_hash: Option<[u8; 32]>,
    dialect: Dialect,
    client_action_status: Option<ClientActionStatus>,
    request_id: String,
    traceparent: Option<String>,
    /// Whether tools that the gateway does not serve are left out.
    omits_unserved: bool,
    /// Whether that is so only beside others.
    omits_beside_others: bool,
    /// The caller's own credentials, for MCP servers.
    authorization: Option<String>,
    /// Of a response that follows the result of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain: Option<Chain>,
}

impl JobSpec {
    pub(super) fn new(request: String, caller: &RunContext) -> Self {
        Self {
            format: FORMAT,
            request,
            key: caller.key.to_string(),
            key_hash: caller.key_hash,
            dialect: caller.dialect,
            client_action_status: caller.client_action_status,
            request_id: caller.request_id.clone(),
            traceparent: caller.traceparent.clone(),
            omits_unserved: caller.unserved_tools != OnUnservedTool::Refuse,
            omits_beside_others: caller.unserved_tools == OnUnservedTool::OmitBesideOthers,
            authorization: caller.authorization.as_ref().map(|secret| secret.expose_secret().to_owned()),
            chain: caller.chain.as_deref().cloned(),
        }
    }

    /// `None` if it cannot be sealed.
    pub(super) fn seal(&self, keys: &SealKeys, tenant: &str) -> Option<Arc<[u8]>> {
        keys.seal_run(tenant, &serde_json::to_vec(self).ok()?).map(Into::into)
    }

    /// `None` if it cannot be opened, or has another format.
    pub(super) fn open(keys: &SealKeys, tenant: &str, sealed: &[u8]) -> Option<Self> {
        let plain = keys.open_run(tenant, sealed)?;
        serde_json::from_slice(&plain).ok().filter(|spec: &Self| spec.format == FORMAT)
    }

    /// The body of the request.
    pub(super) fn text(&self) -> &str {
        &self.request
    }

    /// The name of the caller's API key.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// SHA-256 of the caller's API key.
    pub(super) fn key_hash(&self) -> Option<&[u8; 32]> {
        self.key_hash.as_ref()
    }

    /// Of a response that follows the result of a tool: what was made before it.
    pub(super) fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }

    /// The request. It was within the limits when it was accepted.
    pub(super) fn request(&self) -> Result<Box<CreateResponse>, ApiError> {
        let mut request =
            CreateResponse::parse_with_limits(self.request.as_bytes(), RequestSizeLimits::UNLIMITED)?;
        request.sent = SentFields::of_body(self.request.as_bytes());
        Ok(request)
    }

    /// Who asks for the run, on behalf of this owner.
    pub(super) fn caller(self, owner: Owner) -> RunContext {
        RunContext {
            owner,
            key: self.key.into(),
            key_hash: self.key_hash,
            dialect: self.dialect,
            client_action_status: self.client_action_status,
            // It was accepted to be stored.
            store: StorePolicy::Allow,
            request_id: self.request_id,
            log: None,
            traceparent: self.traceparent,
            unserved_tools: match (self.omits_unserved, self.omits_beside_others) {
                (false, _) => OnUnservedTool::Refuse,
                (true, false) => OnUnservedTool::Omit,
                (true, true) => OnUnservedTool::OmitBesideOthers,
            },
            // It was accepted with those it has.
            lists_unserved_fields: true,
            events: EventReader::Client,
            keepalive: None,
            authorization: self.authorization.map(SecretString::from),
            connection: None,
            chain: self.chain.map(Arc::new),
            generates: true,
        }
    }
}

/// What it takes to make the response that follows the result of a tool, sealed: the request without its input, and who sent it.
pub(crate) fn of_follow_up(keys: &SealKeys, run: &RunSpec, caller: &RunContext) -> Option<Arc<[u8]>> {
    let sent = run.sent.as_ref()?;
    run_on_bytes(sent.bytes(), || {
        let request = sent.continued(run.response.id.as_str())?;
        JobSpec::new(request, caller).seal(keys, &run.owner.tenant)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_for_one_tenant_is_opened_for_it_alone() {
        let keys = SealKeys::new(&[vec![7; 32]]).unwrap();
        let spec = JobSpec {
            format: FORMAT,
            request: r#"{"model":"m","input":"hi","background":true}"#.to_owned(),
            key: "key".to_owned(),
            key_hash: Some([7; 32]),
            dialect: Dialect::OpenAi,
            client_action_status: None,
            request_id: "req_1".to_owned(),
            traceparent: None,
            omits_unserved: true,
            omits_beside_others: true,
            authorization: Some("Bearer secret".to_owned()),
            chain: None,
        };
        let sealed = spec.seal(&keys, "acme").unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"), "credentials are not readable");
        assert!(JobSpec::open(&keys, "other", &sealed).is_none());
        let opened = JobSpec::open(&keys, "acme", &sealed).unwrap();
        assert!(opened.request().unwrap().background);
        let owner = Owner { tenant: "acme".into(), principal: "ann".into() };
        let caller = opened.caller(owner);
        assert_eq!(caller.unserved_tools, OnUnservedTool::OmitBesideOthers);
        assert_eq!(caller.authorization.unwrap().expose_secret(), "Bearer secret");
    }
}
