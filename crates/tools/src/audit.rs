//! The audit log of policy decisions and tool calls: events with the target `antwort::audit`.
//!
//! It has neither arguments nor results, only a hash of the arguments by which calls can be matched.

use std::sync::Arc;
use std::time::Duration;

use tracing::Level;

use super::call_key::CallKey;
use super::context::ToolContext;
use super::error::{ToolError, ToolErrorCode};
use super::layers::ToolRequest;
use super::output::ToolOutput;
use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_telemetry::fields::{
    AGENT, ARGUMENTS_SHA256, ATTEMPTS, AUDIT_TARGET, CALL_ID, CODE, DECISION, EXECUTOR, FALLBACK_FROM, MS,
    PRINCIPAL, RECORD, REQUEST_ID, RESPONSE_ID, TENANT, TOOL,
};
use antwort_telemetry::milliseconds;
use antwort_util::digest::short_sha256;

/// 128 bits are enough to tell calls apart.
const HASH_BYTES: usize = 16;

/// Caller and arguments, captured when the call starts because the layers below take ownership of the request.
pub(super) struct CallAudit {
    context: Arc<ToolContext>,
    key: Option<CallKey>,
    /// Hash of the arguments; empty if audit logging is off.
    arguments: String,
}

/// The end of a call, for the record.
pub(super) struct CallEnd<'a> {
    pub tool: &'a str,
    pub executor: &'a str,
    pub decision: &'static str,
    pub code: Option<ToolErrorCode>,
    pub duration: Duration,
    pub attempts: u32,
    /// The preferred executor, which could not be reached.
    pub fallback_from: Option<&'a str>,
}

impl CallAudit {
    pub(super) fn from_request(request: &ToolRequest) -> Self {
        let enabled = tracing::enabled!(target: AUDIT_TARGET, Level::INFO);
        Self {
            context: Arc::clone(&request.context),
            key: request.call.key.clone(),
            arguments: if enabled { hash(&request.call.raw) } else { String::new() },
        }
    }

    /// Records the end of the call.
    pub(super) fn record_call(&self, end: &CallEnd<'_>) {
        tracing::event!(
            target: AUDIT_TARGET,
            Level::INFO,
            {
                { RECORD } = "call",
                { TENANT } = &*self.context.tenant,
                { PRINCIPAL } = &*self.context.principal,
                { AGENT } = self.context.agent.as_deref(),
                { RESPONSE_ID } = self.context.response_id.as_ref().map(tracing::field::display),
                { REQUEST_ID } = self.context.request_id,
                { CALL_ID } = self.key.as_ref().map(tracing::field::display),
                { TOOL } = end.tool,
                { EXECUTOR } = end.executor,
                { ARGUMENTS_SHA256 } = self.arguments,
                { DECISION } = end.decision,
                { CODE } = end.code.map(ToolErrorCode::as_str),
                { MS } = milliseconds(end.duration),
                { ATTEMPTS } = end.attempts,
                { FALLBACK_FROM } = end.fallback_from,
            }
        );
    }
}

/// Records the decision of the policy, before the call is executed.
pub(super) fn record_decision(request: &ToolRequest, denied: Option<&ToolError>) {
    if !tracing::enabled!(target: AUDIT_TARGET, Level::INFO) {
        return;
    }
    let context = &request.context;
    tracing::event!(
        target: AUDIT_TARGET,
        Level::INFO,
        {
            { RECORD } = "decision",
            { TENANT } = &*context.tenant,
            { PRINCIPAL } = &*context.principal,
            { AGENT } = context.agent.as_deref(),
            { RESPONSE_ID } = context.response_id.as_ref().map(tracing::field::display),
            { REQUEST_ID } = context.request_id,
            { CALL_ID } = request.call.key.as_ref().map(tracing::field::display),
            { TOOL } = request.plan.qualified_name(),
            { EXECUTOR } = &*request.plan.definition.executor,
            { ARGUMENTS_SHA256 } = hash(&request.call.raw),
            { DECISION } = if denied.is_some() { "denied" } else { "allowed" },
            { CODE } = denied.map(|error| error.code.as_str()),
        }
    );
}

/// A call that was refused before any tool was found for it.
pub struct RefusedCallAudit<'a> {
    /// The owner of the response.
    pub owner: &'a Owner,
    /// The agent profile of the request, if it names one.
    pub agent: Option<&'a str>,
    /// The response whose model made the call.
    pub response: &'a Id,
    /// The id of the HTTP request.
    pub request: &'a str,
    /// The id of the item that tells of the refusal.
    pub call: &'a Id,
    /// The name that the model has called, with its namespace.
    pub tool: &'a str,
    /// The arguments as the model wrote them; only their hash is logged.
    pub arguments: &'a str,
    /// Why it was refused.
    pub code: ToolErrorCode,
}

/// Records that the request does not allow a call.
pub fn audit_refused_call(call: &RefusedCallAudit<'_>) {
    if !tracing::enabled!(target: AUDIT_TARGET, Level::INFO) {
        return;
    }
    tracing::event!(
        target: AUDIT_TARGET,
        Level::INFO,
        {
            { RECORD } = "decision",
            { TENANT } = &*call.owner.tenant,
            { PRINCIPAL } = &*call.owner.principal,
            { AGENT } = call.agent,
            { RESPONSE_ID } = call.response.as_str(),
            { REQUEST_ID } = call.request,
            { CALL_ID } = call.call.as_str(),
            { TOOL } = call.tool,
            { ARGUMENTS_SHA256 } = hash(call.arguments),
            { DECISION } = "denied",
            { CODE } = call.code.as_str(),
        }
    );
}

/// A response that was to follow the result of a call.
pub struct RefusedFollowUp<'a> {
    /// The owner of the response that made the call.
    pub owner: &'a Owner,
    /// The key of the call, as its own lines have it. It begins with the id of its response.
    pub call: &'a str,
    /// The tool, as in settings.
    pub tool: &'a str,
    /// The code of the error that has prevented it.
    pub code: &'a str,
}

/// Records that no response follows a result, and why.
pub fn audit_refused_follow_up(refused: &RefusedFollowUp<'_>) {
    let response = refused.call.rsplitn(3, '/').last();
    tracing::event!(
        target: AUDIT_TARGET,
        Level::INFO,
        {
            { RECORD } = "follow_up",
            { TENANT } = &*refused.owner.tenant,
            { PRINCIPAL } = &*refused.owner.principal,
            { RESPONSE_ID } = response,
            { CALL_ID } = refused.call,
            { TOOL } = refused.tool,
            { DECISION } = "refused",
            { CODE } = refused.code,
        }
    );
}

/// The decision label of a call, derived from its result.
pub(super) fn decision_label(
    result: &Result<ToolOutput, ToolError>,
    failure: Option<ToolErrorCode>,
) -> &'static str {
    match (result, failure.or_else(|| result.as_ref().err().map(|error| error.code))) {
        (Ok(output), None) if output.meta.cached => "cached",
        (_, Some(ToolErrorCode::AccessDenied | ToolErrorCode::DomainNotAllowed)) => "denied",
        (_, Some(ToolErrorCode::ToolCallLimit)) => "limited",
        (_, Some(ToolErrorCode::InvalidArguments)) => "invalid",
        _ => "allowed",
    }
}

fn hash(arguments: &str) -> String {
    short_sha256(arguments, HASH_BYTES)
}
