//! Calls that a person has to allow: how answers find their requests, and what they are worth.
//!
//! A request is an item; beside it the store keeps hashes of the arguments and of the tool's definition, the
//! owner, and until when it can be answered. An approval is good for one call: of the same tool as it was shown,
//! with the same arguments, by the same owner. See ADR 0010.

use std::collections::{HashMap, HashSet};

use aws_lc_rs::digest;

use super::mcp::Listed;
use super::{Parts, unix_now};
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::item::hosted::{McpApprovalRequest, McpApprovalResponse, McpCall, McpCallError};
use crate::protocol::item::{Item, ItemStatus};
use crate::protocol::parse::shorten;
use crate::response::machine::AskedCall;
use crate::response::turn::ToolCallRequest;
use crate::store::{Claim, Owner, PendingApproval};
use crate::tools::canonical;

/// A call that a person has allowed.
pub(super) struct Approved {
    /// The request that was answered.
    request: Id,
    /// What was allowed.
    pub call: ToolCallRequest,
    arguments: [u8; 32],
    /// Of the tool as it is now; `None`: it is not there any more.
    definition: Option<[u8; 32]>,
    /// The tool is another one than the person was shown.
    pub is_outdated: bool,
    param: String,
}

/// Whether a request of this server waits for an answer that this input gives.
pub(super) fn awaits(label: &str, past: &[Item], input: &[Item]) -> bool {
    answers(past, input).any(|(_, answer, request)| answer.approve && request.server_label == label)
}

/// Checks the answers of the input, and finds the calls that are allowed by them.
pub(super) async fn check(
    parts: &Parts,
    owner: &Owner,
    past: &[Item],
    input: &[Item],
    servers: &[Listed],
) -> Result<Vec<Approved>, ApiError> {
    check_pairs(past, input)?;
    let mut approved = Vec::new();
    for (i, answer, request) in answers(past, input) {
        let param = format!("input[{i}].approval_request_id");
        let arguments = hash(&request.arguments);
        let known = parts.store.approval(owner, request.id.as_str()).await?;
        if !answer.approve {
            if let Some(known) = known {
                // A call that was denied cannot be allowed later.
                let (arguments, definition) = (&known.arguments, &known.definition);
                parts
                    .store
                    .claim_approval(owner, request.id.as_str(), arguments, definition, unix_now())
                    .await?;
            }
            continue;
        }
        let Some(known) = known else { return Err(not_open(&param, &request.id)) };
        if known.arguments != arguments {
            return Err(ApiError::invalid(
                "approval_mismatch",
                param,
                format!(
                    "The call of approval request '{}' is not the one that was asked for: its arguments differ.",
                    shorten(request.id.as_str())
                ),
            ));
        }
        let Some(server) = servers.iter().find(|server| **server.label() == request.server_label) else {
            return Err(ApiError::invalid(
                "invalid_value",
                param,
                format!(
                    "The MCP server '{}' of the approved call is not among 'tools'.",
                    shorten(&request.server_label)
                ),
            ));
        };
        let definition = server.tool(&request.name).map(|tool| tool.fingerprint);
        approved.push(Approved {
            request: request.id.clone(),
            call: ToolCallRequest {
                name: request.name.clone(),
                namespace: Some(request.server_label.clone()),
                arguments: request.arguments.clone(),
            },
            arguments,
            is_outdated: definition.is_some_and(|definition| definition != known.definition),
            definition: definition.map(|_| known.definition),
            param,
        });
    }
    Ok(approved)
}

/// Uses an approval up, right before its call is made. `None`: the tool is gone, so that nothing is made.
pub(super) async fn claim(parts: &Parts, owner: &Owner, approved: &Approved) -> Result<(), ApiError> {
    // A definition that has changed since it was checked is met by the next list; what is claimed is what was shown.
    let Some(definition) = &approved.definition else { return Ok(()) };
    let id = approved.request.as_str();
    match parts.store.claim_approval(owner, id, &approved.arguments, definition, unix_now()).await? {
        Claim::Granted => Ok(()),
        Claim::Unknown | Claim::Used | Claim::Mismatch => Err(not_open(&approved.param, &approved.request)),
    }
}

impl Approved {
    /// The request, as the call's item names it.
    pub(super) fn request_id(&self) -> String {
        self.request.to_string()
    }
}

/// Keeps what a person is asked, before they are asked.
pub(super) async fn ask(
    parts: &Parts,
    owner: &Owner,
    response: &Id,
    asked: &[AskedCall],
    servers: &[Listed],
) -> Result<(), ApiError> {
    let expires_at = unix_now().saturating_add_unsigned(parts.mcp.approvals_expire_after().as_secs());
    let pending = asked.iter().map(|AskedCall { id, call }| {
        let label = call.namespace.as_deref().unwrap_or_default();
        let server = servers.iter().find(|server| &**server.label() == label);
        PendingApproval {
            id: id.clone(),
            owner: owner.clone(),
            response: response.clone(),
            arguments: hash(&call.arguments),
            definition: server
                .and_then(|server| server.tool(&call.name))
                .map_or([0; 32], |tool| tool.fingerprint),
            expires_at,
        }
    });
    Ok(parts.store.ask_approval(pending.collect()).await?)
}

/// The conversation as the model sees it: requests and answers are left out, but for calls that were denied.
pub(super) fn tell(items: impl Iterator<Item = Item>) -> Vec<Item> {
    let items: Vec<Item> = items.collect();
    if !items.iter().any(|item| request(item).is_some() || answer(item).is_some()) {
        return items;
    }
    let denials: HashMap<String, Option<String>> = items
        .iter()
        .filter_map(|item| match item {
            Item::McpApprovalResponse(answer) if !answer.approve => {
                Some((answer.approval_request_id.clone(), answer.reason.clone()))
            }
            _ => None,
        })
        .collect();
    let told = items.into_iter().filter_map(|item| match item {
        Item::McpApprovalRequest(request) => {
            let reason = denials.get(request.id.as_str())?;
            Some(Item::McpCall(denied(request, reason.as_deref())))
        }
        Item::McpApprovalResponse(_) => None,
        item => Some(item),
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
    }
}

/// The answers of the input with the requests that they are to, but for those whose calls were made already.
fn answers<'a>(
    past: &'a [Item],
    input: &'a [Item],
) -> impl Iterator<Item = (usize, &'a McpApprovalResponse, &'a McpApprovalRequest)> {
    let requests: HashMap<&str, &McpApprovalRequest> =
        past.iter().chain(input).filter_map(request).map(|request| (request.id.as_str(), request)).collect();
    let made: HashSet<&str> = past.iter().chain(input).filter_map(made_by).collect();
    input.iter().enumerate().filter_map(move |(i, item)| {
        let answer = answer(item)?;
        let id = answer.approval_request_id.as_str();
        let request = requests.get(id)?;
        (!made.contains(id)).then_some((i, answer, *request))
    })
}

/// Each answer is to a request before it, each request has one answer at most, and none is left open.
fn check_pairs(past: &[Item], input: &[Item]) -> Result<(), ApiError> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen: HashMap<&str, bool> = HashMap::new();
    let items = past.iter().map(|item| (None, item));
    for (i, item) in items.chain(input.iter().enumerate().map(|(i, item)| (Some(i), item))) {
        if let Some(request) = request(item) {
            // A client that continues a response and replays it too means the same request.
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
                        format!("No approval request '{}' in this conversation.", shorten(id)),
                    ));
                }
                Some(true) => {
                    return Err(ApiError::invalid(
                        "invalid_value",
                        param(),
                        format!("The approval request '{}' is already answered.", shorten(id)),
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
                shorten(id)
            ),
        )),
    }
}

fn request(item: &Item) -> Option<&McpApprovalRequest> {
    match item {
        Item::McpApprovalRequest(request) => Some(request),
        _ => None,
    }
}

fn answer(item: &Item) -> Option<&McpApprovalResponse> {
    match item {
        Item::McpApprovalResponse(answer) => Some(answer),
        _ => None,
    }
}

/// The request by which a call was allowed that has been made.
fn made_by(item: &Item) -> Option<&str> {
    match item {
        Item::McpCall(call) => call.approval_request_id.as_deref(),
        Item::ServerToolCall(call) => call.approval_request_id.as_deref(),
        _ => None,
    }
}

/// Nobody learns whether it was another's, is used up, or has expired.
fn not_open(param: &str, id: &Id) -> ApiError {
    ApiError::invalid(
        "approval_not_open",
        param,
        format!(
            "The approval request '{}' cannot be answered: it was answered already, has expired, or is not yours.",
            shorten(id.as_str())
        ),
    )
}

fn hash(arguments: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, &canonical(arguments)).as_ref());
    hash
}
