//! Approvals of MCP calls: finds the request that an answer is to, and checks that the answer is valid for the call.
//!
//! A request is an item; beside it the store keeps hashes of the arguments, and of the tool's definition with the
//! credentials of its server, the owner, and until when it can be answered. An approval is good for one call: of the
//! same tool as it was shown, with the same credentials and arguments, by the same owner. See ADR 0010.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::mcp_servers::ListedServer;
use crate::context::{EngineParts, unix_now};
use crate::history::HistoryEntry;
use antwort_identity::Owner;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::{McpApprovalRequest, McpApprovalResponse, McpCall, McpCallError};
use antwort_protocol::item::{Item, ItemStatus};
use antwort_protocol::parse::truncate_for_display;
use antwort_response::machine::ApprovalRequest;
use antwort_response::turn::ToolCallRequest;
use antwort_store::{ApprovalClaim, ClaimOutcome, PendingApproval};
use antwort_tools::canonical_arguments;
use antwort_util::digest::FieldHasher;

/// An approved call.
pub(crate) struct ApprovedCall {
    request: Id,
    pub call: ToolCallRequest,
    /// Hashes of the call and of the tool, compared with those that were stored with the request.
    claim: ApprovalClaim,
    /// The tool's definition or the credentials of its server have changed since the user was asked.
    pub(crate) is_outdated: bool,
    param: String,
}

/// What becomes of answers to approval requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalAnswers<'a> {
    /// Denied requests are claimed by this response, so that they cannot be approved later; approved ones when their calls are made.
    /// What it has claimed before is as good as open: none of its calls was committed.
    Claim(&'a Id),
    /// The approved calls of this response were committed: they are not approved again.
    Made(&'a Id),
    /// None: nothing is decided yet.
    Check,
}

impl<'a> ApprovalAnswers<'a> {
    /// The response that may have claimed them before, without having made a call.
    fn claimant(self) -> Option<&'a Id> {
        match self {
            Self::Claim(response) => Some(response),
            Self::Made(_) | Self::Check => None,
        }
    }
}

/// What answers to approval requests are checked against.
pub(crate) struct ApprovalContext<'a> {
    pub servers: &'a [ListedServer],
    pub(crate) executes_tools: bool,
    /// `max_tool_calls` of the run.
    pub max_calls: Option<u64>,
    pub answers: ApprovalAnswers<'a>,
}

/// What a response's approval requests belong to.
pub(crate) struct ApprovalScope<'a> {
    pub owner: &'a Owner,
    pub response: &'a Id,
    pub servers: &'a [ListedServer],
}

/// The labels of the servers whose calls the input approves.
pub(crate) fn approved_servers<'a>(past: &'a [Item], input: &'a [Item]) -> HashSet<&'a str> {
    let approved = answers(past, input).filter(|(_, answer, _)| answer.approve);
    approved.map(|(_, _, request)| request.server_label.as_str()).collect()
}

/// Checks the answers of the input and returns the calls that they approve.
pub(crate) async fn check(
    parts: &EngineParts,
    owner: &Owner,
    past: &[Item],
    input: &[Item],
    context: ApprovalContext<'_>,
) -> Result<Vec<ApprovedCall>, ApiError> {
    if !past.iter().chain(input).any(|item| request(item).is_some() || answer(item).is_some()) {
        return Ok(Vec::new());
    }
    check_pairs(past, input)?;
    let answers: Vec<_> = answers(past, input).collect();
    let ids: Vec<Id> = answers.iter().map(|(_, _, request)| request.id.clone()).collect();
    let known = if ids.is_empty() {
        Vec::new()
    } else {
        parts.store.approvals(owner, &ids, context.answers.claimant()).await?
    };
    let (mut approved, mut denied) = (Vec::new(), Vec::new());
    for ((i, answer, request), known) in answers.into_iter().zip(known) {
        let param = format!("input[{i}].approval_request_id");
        match known {
            // A denial that is no longer pending is one that the client replays with its conversation: nothing to do.
            None if !answer.approve || matches!(context.answers, ApprovalAnswers::Made(_)) => {}
            None => return Err(not_open(&param, &request.id)),
            Some(known) if !answer.approve => denied.push((param, known)),
            Some(known) => approved.push(verify(parts, request, &known, &context, param)?),
        }
    }
    if let Some(most) = context.max_calls.filter(|most| *most < approved.len() as u64) {
        return Err(ApiError::invalid(
            "invalid_value",
            "max_tool_calls",
            format!(
                "The input approves {} calls, at most {most} are allowed ('max_tool_calls', or the gateway's setting \
                 engine.limits.max_tool_calls).",
                approved.len()
            ),
        ));
    }
    if let ApprovalAnswers::Claim(by) | ApprovalAnswers::Made(by) = context.answers {
        deny(parts, (owner, by), denied).await?;
    }
    Ok(approved)
}

/// Claims the requests of denied calls, so that they cannot be approved later.
async fn deny(
    parts: &EngineParts,
    (owner, by): (&Owner, &Id),
    denied: Vec<(String, PendingApproval)>,
) -> Result<(), ApiError> {
    let Some((param, first)) = denied.first().map(|(param, known)| (param.clone(), known.id.clone())) else {
        return Ok(());
    };
    let claims = denied.into_iter().map(|(_, PendingApproval { id, arguments, definition, .. })| {
        ApprovalClaim { id, arguments, definition }
    });
    match parts.store.claim_approvals(owner, by, claims.collect(), unix_now()).await? {
        ClaimOutcome::Granted => Ok(()),
        // A concurrent request has answered it first, and may have approved it.
        ClaimOutcome::Unknown | ClaimOutcome::Used | ClaimOutcome::Mismatch => Err(not_open(&param, &first)),
    }
}

fn verify(
    parts: &EngineParts,
    request: &McpApprovalRequest,
    known: &PendingApproval,
    context: &ApprovalContext<'_>,
    param: String,
) -> Result<ApprovedCall, ApiError> {
    let call = ToolCallRequest {
        name: request.name.clone(),
        namespace: Some(request.server_label.clone()),
        arguments: request.arguments.clone(),
    };
    let id = truncate_for_display(request.id.as_str());
    if known.arguments != hash(&call) {
        let message = format!(
            "The call in approval request '{id}' differs from the call that was presented for approval."
        );
        return Err(ApiError::invalid("approval_mismatch", param, message));
    }
    let label = &request.server_label;
    let Some(server) = context.servers.iter().find(|server| server.label().as_ref() == label) else {
        let message = format!(
            "The MCP server '{}' of the approved call is not among 'tools'.",
            truncate_for_display(label)
        );
        return Err(ApiError::invalid("invalid_value", param, message));
    };
    if !context.executes_tools {
        let message = "Tools are not executed in this request, so that no call can be approved.";
        return Err(ApiError::invalid("invalid_value", param, message));
    }
    if let Some(problem) = server.problem() {
        let message = format!(
            "The MCP server '{}' of the approved call cannot be reached: {problem}",
            truncate_for_display(label)
        );
        return Err(ApiError::new(ErrorKind::ConnectorUnavailable, message).with_param(param));
    }
    let subject = server.approval_subject(&request.name);
    let is_same =
        |subject: [u8; 64]| parts.seal.fingerprints(&subject).any(|print| print == known.definition);
    Ok(ApprovedCall {
        request: request.id.clone(),
        claim: ApprovalClaim {
            id: request.id.clone(),
            arguments: known.arguments,
            definition: known.definition,
        },
        // If the tool is gone altogether, the call itself fails with "not found".
        is_outdated: subject.is_some_and(|subject| !is_same(subject)),
        call,
        param,
    })
}

/// Consumes all these approvals or none, right before their calls are made.
pub(crate) async fn claim(
    parts: &EngineParts,
    (owner, by): (&Owner, &Id),
    approved: &[ApprovedCall],
) -> Result<(), ApiError> {
    let Some(first) = approved.first() else { return Ok(()) };
    let claims = approved.iter().map(|allowed| allowed.claim.clone()).collect();
    match parts.store.claim_approvals(owner, by, claims, unix_now()).await? {
        ClaimOutcome::Granted => Ok(()),
        ClaimOutcome::Unknown | ClaimOutcome::Used | ClaimOutcome::Mismatch => {
            Err(not_open(&first.param, &first.request))
        }
    }
}

impl ApprovedCall {
    /// The id of the approval request, as the call's item shows it.
    pub(crate) fn request_id(&self) -> String {
        self.request.to_string()
    }
}

/// The approval requests of a response, as they are stored.
pub(crate) fn pending(
    parts: &EngineParts,
    scope: &ApprovalScope<'_>,
    approval_requests: &[ApprovalRequest],
) -> Vec<PendingApproval> {
    let expires_at = unix_now().saturating_add_unsigned(parts.mcp.approvals_expire_after().as_secs());
    let pending = |ApprovalRequest { id, call }: &ApprovalRequest| {
        let label = call.namespace.as_deref().unwrap_or_default();
        let server = scope.servers.iter().find(|server| &**server.label() == label);
        let subject = server.and_then(|server| server.approval_subject(&call.name));
        let definition = subject.and_then(|subject| parts.seal.fingerprints(&subject).next());
        PendingApproval {
            id: id.clone(),
            owner: scope.owner.clone(),
            response: scope.response.clone(),
            arguments: hash(call),
            definition: definition.unwrap_or_default(),
            expires_at,
        }
    };
    approval_requests.iter().map(pending).collect()
}

/// The conversation as the model sees it: without approval requests and answers. A denied call becomes a call with an
/// error. A request that carries provider state for its call stays.
pub(crate) fn project_for_model(items: Vec<HistoryEntry>) -> Vec<HistoryEntry> {
    if !items.iter().any(|(item, _)| request(item).is_some() || answer(item).is_some()) {
        return items;
    }
    let denials: HashMap<String, Option<String>> = items
        .iter()
        .filter_map(|(item, _)| match &**item {
            Item::McpApprovalResponse(answer) if !answer.approve => {
                Some((answer.approval_request_id.clone(), answer.reason.clone()))
            }
            _ => None,
        })
        .collect();
    let told = items.into_iter().filter_map(|(item, state)| match &*item {
        Item::McpApprovalRequest(request) if request.is_abandoned => None,
        Item::McpApprovalRequest(request) => match denials.get(request.id.as_str()) {
            Some(reason) => {
                let call = denied(request.clone(), reason.as_deref());
                Some((Arc::new(Item::McpCall(call)), state))
            }
            None => state.map(|state| (item, Some(state))),
        },
        Item::McpApprovalResponse(_) => None,
        _ => Some((item, state)),
    });
    told.collect()
}

fn denied(request: McpApprovalRequest, reason: Option<&str>) -> McpCall {
    let reason = match reason {
        Some(reason) if !reason.trim().is_empty() => format!(" The user says: {reason}"),
        _ => String::new(),
    };
    McpCall {
        id: request.id,
        server_label: request.server_label,
        name: request.name,
        arguments: request.arguments,
        output: None,
        error: Some(McpCallError::Text(format!(
            "the user did not allow this call, and it was not made.{reason}"
        ))),
        status: ItemStatus::Failed,
        approval_request_id: None,
        files: Vec::new(),
    }
}

/// The approving and denying answers of the input with their requests, without those whose calls were made already.
fn answers<'a>(
    past: &'a [Item],
    input: &'a [Item],
) -> impl Iterator<Item = (usize, &'a McpApprovalResponse, &'a McpApprovalRequest)> {
    // Without an answer in the input, a long conversation is not searched.
    let any = input.iter().any(|item| answer(item).is_some());
    let (past, input) = if any { (past, input) } else { (&[][..], &[][..]) };
    // Stored requests take precedence over those that a client replays.
    let requests: HashMap<&str, &McpApprovalRequest> =
        input.iter().chain(past).filter_map(request).map(|request| (request.id.as_str(), request)).collect();
    let made: HashSet<&str> = past.iter().chain(input).filter_map(made_by).collect();
    input.iter().enumerate().filter_map(move |(i, item)| {
        let answer = answer(item)?;
        let id = answer.approval_request_id.as_str();
        let request = requests.get(id)?;
        (!made.contains(id)).then_some((i, answer, *request))
    })
}

/// Checks that each answer is to an earlier request, that each request has at most one answer, and that none is left
/// open.
fn check_pairs(past: &[Item], input: &[Item]) -> Result<(), ApiError> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen: HashMap<&str, bool> = HashMap::new();
    let items = past.iter().map(|item| (None, item));
    for (i, item) in items.chain(input.iter().enumerate().map(|(i, item)| (Some(i), item))) {
        if let Some(request) = request(item) {
            // A client that continues a response and replays its items repeats the same request.
            if seen.insert(request.id.as_str(), false).is_none() {
                open.push(request.id.as_str());
            }
        } else if let Some(answer) = answer(item) {
            let id = answer.approval_request_id.as_str();
            let param = || {
                i.map_or_else(|| "previous_response_id".into(), |i| format!("input[{i}].approval_request_id"))
            };
            match seen.get_mut(id) {
                None => {
                    return Err(ApiError::invalid(
                        "approval_request_not_found",
                        param(),
                        format!("No approval request '{}' in this conversation.", truncate_for_display(id)),
                    ));
                }
                Some(true) => {
                    return Err(ApiError::invalid(
                        "invalid_value",
                        param(),
                        format!("The approval request '{}' is already answered.", truncate_for_display(id)),
                    ));
                }
                Some(answered) => *answered = true,
            }
        }
    }
    match open.iter().find(|id| seen.get(**id) == Some(&false)) {
        None => Ok(()),
        Some(id) => Err(ApiError::invalid(
            "approval_response_not_found",
            "input",
            format!(
                "The approval request '{}' is not answered. Every one must be answered by an \
                 'mcp_approval_response' item with its id as 'approval_request_id'.",
                truncate_for_display(id)
            ),
        )),
    }
}

fn request(item: &Item) -> Option<&McpApprovalRequest> {
    match item {
        // One of an answer that was abandoned waits for nobody.
        Item::McpApprovalRequest(request) if !request.is_abandoned => Some(request),
        _ => None,
    }
}

fn answer(item: &Item) -> Option<&McpApprovalResponse> {
    match item {
        Item::McpApprovalResponse(answer) => Some(answer),
        _ => None,
    }
}

/// The approval request that led to a call which has been made.
fn made_by(item: &Item) -> Option<&str> {
    match item {
        Item::McpCall(call) => call.approval_request_id.as_deref(),
        Item::ServerToolCall(call) => call.approval_request_id.as_deref(),
        _ => None,
    }
}

/// Does not say which of the three it is: a caller could find out about requests of others.
fn not_open(param: &str, id: &Id) -> ApiError {
    ApiError::invalid(
        "approval_not_open",
        param,
        format!(
            "The approval request '{}' cannot be answered: it was answered already, has expired, or is not yours.",
            truncate_for_display(id.as_str())
        ),
    )
}

/// Hashes server, tool and arguments of a call, each with its length in front.
fn hash(call: &ToolCallRequest) -> [u8; 32] {
    let arguments = canonical_arguments(&call.arguments);
    let label = call.namespace.as_deref().unwrap_or_default();
    FieldHasher::new().field(label).field(&call.name).field(arguments).finish()
}
