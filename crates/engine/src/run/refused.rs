//! Calls of a turn that were refused: the model reads why, whoever goes on with the conversation, and operators see them.

use super::live::Run;
use super::trace::{self, CallOutcomeKind, CallRecord};
use antwort_tools::{RefusedCallAudit, audit_refused_call};

/// Keeps the refused calls of the turn that was read, in the order of the model. A turn that was cut off tells of none.
pub(super) fn refuse_calls(run: &mut Run) {
    if !run.call_filter.has_rejected() || run.machine.is_cut_off() {
        return;
    }
    let mut kept = Vec::new();
    for (slot, call) in run.call_filter.reported() {
        let refused = call.refuse(run.machine.ids());
        let ((namespace, name), code) = (call.tool(), call.code());
        let id = refused.item.id();
        run.parts.metrics.refused_call(code.as_str());
        let tool = match namespace {
            Some(namespace) => format!("{namespace}__{name}"),
            None => name.to_owned(),
        };
        audit_refused_call(&RefusedCallAudit {
            owner: &run.spec.owner,
            agent: run.spec.agent.as_deref(),
            response: &run.spec.response.id,
            request: &run.call.request_id,
            call: id,
            tool: &trace::short(&tool),
            arguments: call.arguments(),
            code,
        });
        // The account names limits by themselves.
        if call.is_mistake() {
            run.state.trace.refuse_call(CallRecord {
                call_id: id.as_str().to_owned(),
                name: trace::short(name),
                outcome: CallOutcomeKind::Failed,
                error: Some(code.as_str().to_owned()),
                ..CallRecord::default()
            });
        }
        kept.push((slot, refused));
    }
    run.machine.keep_refused(kept);
}
