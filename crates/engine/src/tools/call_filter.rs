//! Enforces `tool_choice`, allowed tools and the limit of calls on what the model calls, before the machine sees it.
//!
//! Every tool stays visible to the model (for its prompt cache), so a model may call a tool that it must not. Such
//! a call never becomes an item, not even in a stream; the model is given an error for it in the next turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::choice::{AllowedTools, RequiredTools};
use super::offered::OfferedTools;
use antwort_protocol::id::IdGenerator;
use antwort_protocol::item::hosted::{McpCall, McpCallError};
use antwort_protocol::item::{CustomToolCall, FunctionCall, Item, ItemStatus};
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;
use antwort_response::presentation::Presentation;
use antwort_response::turn::{CallKind, CallState, ModelEvent, ModelTool, RefusedCall};
use antwort_tools::{ToolError, ToolErrorCode};

/// A call that was rejected.
#[derive(Debug, Clone)]
pub(crate) struct RejectedCall {
    kind: CallKind,
    name: String,
    namespace: Option<String>,
    arguments: String,
    rejection: Rejection,
    /// What the provider has sent of the call, to be sent back with it.
    state: CallState,
}

/// What was rejected of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RejectedTurn {
    /// The model is told of a call.
    pub any: bool,
    /// A call was the model's mistake.
    pub(crate) by_mistake: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rejection {
    /// The request does not allow the call; why is said to the model.
    Forbidden(ToolErrorCode, String),
    /// The run has reached `max_tool_calls`.
    Limit,
    /// The call is dropped without an error to the model, which may make it again in the next turn.
    Dropped(&'static str),
}

/// Filters the calls of one turn after the other.
pub(crate) struct CallFilter {
    allowed: AllowedTools,
    /// What must be called, until it was.
    required: RequiredTools,
    tools: Arc<[Arc<ModelTool>]>,
    parallel: bool,
    /// Calls of this turn that were let through.
    passed: usize,
    /// Calls of server-side tools that this turn may still make.
    left: u64,
    /// A call of this run was rejected as it was beyond `max_tool_calls`.
    limit_exceeded: bool,
    /// Bytes of rejected calls, over all turns.
    bytes: usize,
    denied: BTreeMap<u32, RejectedCall>,
}

impl CallFilter {
    /// `required` holds until it is met; `parallel`: whether a turn may hold several calls.
    pub(crate) fn new(
        allowed: AllowedTools,
        required: RequiredTools,
        tools: Arc<[Arc<ModelTool>]>,
        parallel: bool,
    ) -> Self {
        Self {
            allowed,
            required,
            tools,
            parallel,
            passed: 0,
            left: u64::MAX,
            limit_exceeded: false,
            bytes: 0,
            denied: BTreeMap::new(),
        }
    }

    /// Replaces the tools, after a server has changed its own; `allowed` are places among the new ones.
    pub(crate) fn replace_tools(&mut self, allowed: AllowedTools, tools: Arc<[Arc<ModelTool>]>) {
        if self.allowed != AllowedTools::None {
            self.allowed = allowed;
        }
        self.tools = tools;
    }

    /// Rejects every call from now on.
    pub(crate) fn deny_all(&mut self) {
        self.allowed = AllowedTools::None;
    }

    /// Begins a turn that may make up to this many calls of server-side tools.
    pub(crate) fn begin_turn(&mut self, left: u64) {
        self.left = left;
        self.passed = 0;
    }

    /// Returns the event if it may pass; collects it otherwise.
    pub(crate) fn filter(&mut self, event: ModelEvent) -> Option<ModelEvent> {
        let size = event.size();
        match event {
            ModelEvent::CallStarted { slot, kind, call_id, name, namespace, fields } => {
                let Some(rejection) = self.rejection(kind, namespace.as_deref(), &name) else {
                    self.passed += 1;
                    self.left = self.left.saturating_sub(u64::from(is_run_here(kind)));
                    return Some(ModelEvent::CallStarted { slot, kind, call_id, name, namespace, fields });
                };
                tracing::debug!(tool = %name, ?rejection, "rejected a tool call");
                self.limit_exceeded |= rejection == Rejection::Limit;
                self.bytes += size;
                let arguments = String::new();
                let fields = fields.map(|fields| *fields).unwrap_or_default();
                let state = CallState { id: call_id, fields };
                let denied = RejectedCall { kind, name, namespace, arguments, rejection, state };
                self.denied.insert(slot, denied);
                None
            }
            ModelEvent::CallState { slot, fields } => match self.denied.get_mut(&slot) {
                Some(denied) => {
                    self.bytes += size;
                    denied.state.fields = *fields;
                    None
                }
                None => Some(ModelEvent::CallState { slot, fields }),
            },
            ModelEvent::CallId { slot, call_id } => match self.denied.get_mut(&slot) {
                Some(denied) => {
                    self.bytes += size;
                    denied.state.id = Some(call_id);
                    None
                }
                None => Some(ModelEvent::CallId { slot, call_id }),
            },
            ModelEvent::CallDelta { slot, delta } => match self.denied.get_mut(&slot) {
                Some(denied) => {
                    self.bytes += size;
                    denied.arguments.push_str(&delta);
                    None
                }
                None => Some(ModelEvent::CallDelta { slot, delta }),
            },
            event => Some(event),
        }
    }

    /// Bytes of rejected calls, which count against the size limits of the run.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a call of this turn was rejected with an error to the model.
    pub(crate) fn has_rejected(&self) -> bool {
        self.denied.values().any(RejectedCall::is_reported_to_model)
    }

    /// Whether the turn has calls that are made or answered with an error.
    pub(crate) fn has_calls(&self) -> bool {
        self.passed > 0 || self.has_rejected()
    }

    /// Restores that a call was rejected as it was beyond `max_tool_calls`, of a run that was resumed.
    pub(crate) fn exceed_limit(&mut self) {
        self.limit_exceeded = true;
    }

    /// Whether a call was rejected as it was beyond `max_tool_calls`.
    pub(crate) fn limit_exceeded(&self) -> bool {
        self.limit_exceeded
    }

    /// Whether the turn lacks the call that `tool_choice` requires. A call beyond the limit counts as made.
    pub(crate) fn lacks_required_call(&self) -> bool {
        self.required != RequiredTools::None
            && self.passed == 0
            && self.denied.values().all(|denied| denied.rejection != Rejection::Limit)
    }

    /// The required call was made.
    pub(crate) fn clear_required(&mut self) {
        self.required = RequiredTools::None;
    }

    /// The rejected calls of the turn that the model is told of, by slot and in their order.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (u32, &RejectedCall)> {
        let told = self.denied.iter().filter(|(_, denied)| denied.is_reported_to_model());
        told.map(|(slot, denied)| (*slot, denied))
    }

    /// Ends the turn.
    pub(crate) fn end_turn(&mut self) -> RejectedTurn {
        let denied = std::mem::take(&mut self.denied);
        RejectedTurn {
            any: denied.values().any(RejectedCall::is_reported_to_model),
            by_mistake: denied.values().any(RejectedCall::is_mistake),
        }
    }

    fn rejection(&self, kind: CallKind, namespace: Option<&str>, name: &str) -> Option<Rejection> {
        let forbidden = |reason: String| Some(Rejection::Forbidden(ToolErrorCode::AccessDenied, reason));
        let place = OfferedTools::find(&self.tools, namespace, name);
        match (&self.allowed, place) {
            (AllowedTools::None, _) => return Some(Rejection::Dropped("tool_choice is \"none\"")),
            (_, None) => {
                let unknown = ToolError::unknown(name);
                return Some(Rejection::Forbidden(unknown.code, unknown.message));
            }
            (AllowedTools::Only(places), Some(place)) if !places.contains(&place) => {
                return forbidden(format!("tool '{name}' is not among the allowed tools of this request"));
            }
            (_, Some(place)) if !self.required.admits(place) => {
                return forbidden(format!("tool '{name}' is not the tool that tool_choice requires"));
            }
            _ => {}
        }
        if !self.parallel && self.passed > 0 {
            return Some(Rejection::Dropped("parallel_tool_calls is false"));
        }
        (is_run_here(kind) && self.left == 0).then_some(Rejection::Limit)
    }
}

/// Whether the call is made by the gateway in this run, so that it counts against `max_tool_calls`.
fn is_run_here(kind: CallKind) -> bool {
    matches!(kind, CallKind::Server(surface) if surface != Presentation::Approval)
}

impl RejectedCall {
    /// Whether the model is given an error for the call.
    fn is_reported_to_model(&self) -> bool {
        !matches!(self.rejection, Rejection::Dropped(_))
    }

    /// Whether the call was the model's mistake.
    pub(crate) fn is_mistake(&self) -> bool {
        matches!(self.rejection, Rejection::Forbidden(..))
    }

    /// The tool, as the model named it, and its namespace.
    pub(crate) fn tool(&self) -> (Option<&str>, &str) {
        (self.namespace.as_deref(), &self.name)
    }

    pub(crate) fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The code of the error.
    pub(crate) fn code(&self) -> ToolErrorCode {
        match &self.rejection {
            Rejection::Forbidden(code, _) => *code,
            Rejection::Limit => ToolErrorCode::ToolCallLimit,
            Rejection::Dropped(_) => ToolErrorCode::Cancelled,
        }
    }

    fn reason(&self) -> &str {
        match &self.rejection {
            Rejection::Forbidden(_, reason) => reason,
            Rejection::Limit => "skipped: the limit of tool calls is reached",
            Rejection::Dropped(reason) => reason,
        }
    }

    /// The call as it stays in the conversation.
    pub(crate) fn refuse(&self, ids: &mut IdGenerator) -> RefusedCall {
        let call_id = ids.next("call").to_string();
        let status = ItemStatus::Completed;
        let (name, namespace) = (self.name.clone(), self.namespace.clone());
        let is_empty = self.arguments.trim().is_empty();
        let item = match self.kind {
            CallKind::Server(_) => self.server_call(ids),
            CallKind::Function => Item::FunctionCall(FunctionCall {
                id: ids.next("fc"),
                status,
                call_id,
                name,
                namespace,
                arguments: if is_empty { "{}".to_owned() } else { self.arguments.clone() },
            }),
            CallKind::Custom => Item::CustomToolCall(CustomToolCall {
                id: ids.next("ctc"),
                status,
                call_id,
                name,
                namespace,
                input: self.arguments.clone(),
            }),
        };
        let holds_error = matches!(item, Item::McpCall(_));
        RefusedCall {
            item,
            reason: (!holds_error).then(|| self.reason().into()),
            state: self.state.clone(),
            is_passing: !self.is_mistake(),
            after: None,
            before: None,
        }
    }

    fn server_call(&self, ids: &mut IdGenerator) -> Item {
        Item::McpCall(McpCall {
            id: ids.next("mcp"),
            server_label: self.namespace.clone().unwrap_or_else(|| BUILTIN_SERVER_LABEL.to_owned()),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            output: None,
            error: Some(McpCallError::Text(self.reason().to_owned())),
            status: ItemStatus::Failed,
            approval_request_id: None,
            files: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(slot: u32, name: &str) -> ModelEvent {
        ModelEvent::CallStarted {
            slot,
            kind: CallKind::Function,
            call_id: None,
            name: name.into(),
            namespace: None,
            fields: None,
        }
    }

    fn gate(allowed: AllowedTools, parallel: bool) -> CallFilter {
        let tools = ["a", "b"].map(|name| ModelTool {
            wire_name: name.into(),
            name: name.into(),
            namespace: None,
            description: None,
            input: antwort_response::turn::ToolInput::Json { schema: None, strict: None },
            kind: CallKind::Function,
        });
        CallFilter::new(allowed, RequiredTools::None, tools.map(Arc::new).into(), parallel)
    }

    #[test]
    fn a_call_outside_the_allowed_tools_never_passes_nor_do_its_arguments() {
        let mut filter = gate(AllowedTools::Only([0].into()), true);
        assert!(filter.filter(start(0, "b")).is_none());
        assert!(filter.filter(ModelEvent::CallDelta { slot: 0, delta: "{}".into() }).is_none());
        assert!(filter.filter(start(1, "a")).is_some());
        let denied: Vec<_> = filter.reported().collect();
        assert_eq!(denied.len(), 1);
        assert_eq!(denied[0].1.arguments, "{}");
        assert_eq!(
            filter.bytes(),
            start(0, "b").size() + 2,
            "what is kept back counts against the limits of size"
        );
        assert!(denied[0].1.reason().contains("not among the allowed tools"));
    }

    #[test]
    fn a_tool_that_does_not_exist_is_answered() {
        let mut filter = gate(AllowedTools::All, true);
        assert!(filter.filter(start(0, "zzz")).is_none());
        assert_eq!(filter.reported().next().unwrap().1.code(), ToolErrorCode::ToolNotFound);
        assert!(filter.end_turn().by_mistake);
        assert!(!filter.end_turn().any, "a turn's denials are told once");
    }

    #[test]
    fn one_call_a_turn_where_parallel_calls_are_off_and_none_where_choice_is_none() {
        let mut one = gate(AllowedTools::All, false);
        assert!(one.filter(start(0, "a")).is_some());
        assert!(one.filter(start(1, "b")).is_none());
        assert!(!one.end_turn().any, "a surplus call is dropped without a word");
        one.begin_turn(1);
        assert!(one.filter(start(0, "b")).is_some(), "the next turn may call again");
        assert!(gate(AllowedTools::None, true).filter(start(0, "a")).is_none());
    }

    #[test]
    fn only_calls_that_the_gateway_makes_count_against_its_limit() {
        let call = |slot, kind| match start(slot, "a") {
            ModelEvent::CallStarted { call_id, name, namespace, fields, .. } => {
                ModelEvent::CallStarted { slot, kind, call_id, name, namespace, fields }
            }
            other => other,
        };
        let mut filter = gate(AllowedTools::All, true);
        filter.begin_turn(1);
        let kinds = [
            CallKind::Function,
            CallKind::Server(Presentation::Approval),
            CallKind::Server(Presentation::Mcp),
        ];
        for (slot, kind) in (0..).zip(kinds) {
            assert!(filter.filter(call(slot, kind)).is_some(), "{kind:?}");
        }
        assert!(!filter.limit_exceeded());
        assert!(filter.filter(call(3, CallKind::Server(Presentation::Hidden))).is_none());
        assert!(filter.limit_exceeded() && filter.has_rejected());
        assert!(filter.filter(call(4, CallKind::Function)).is_some());
        assert_eq!(filter.reported().count(), 1);
        let denied = filter.end_turn();
        assert!(denied.any && !denied.by_mistake, "the model is told, and did nothing wrong");
    }
}
