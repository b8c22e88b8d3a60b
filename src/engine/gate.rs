//! Enforces what the client allowed, between the model's answer and the machine.
//!
//! Every tool stays visible to the model (prompt caches), so a model may call what it must not. Such a
//! call never becomes an item, not even in a stream; it goes back to the model as an error.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::choice::Allowed;
use super::offer::Offer;
use crate::protocol::id::IdMint;
use crate::protocol::item::hosted::{McpCall, McpCallError};
use crate::protocol::item::{CustomToolCall, FunctionCall, Item, ItemStatus, ToolOutput};
use crate::protocol::item::{CustomToolCallOutput, FunctionCallOutput};
use crate::response::machine::OWN_SERVER;
use crate::response::turn::{CallKind, Context, ModelEvent, ModelTool};

/// A call that did not pass.
#[derive(Debug, Clone)]
pub(super) struct Denied {
    kind: CallKind,
    name: String,
    namespace: Option<String>,
    arguments: String,
    reason: String,
    /// Whether the model is told. A call beyond the allowed number is only dropped: the model may repeat it.
    answered: bool,
}

/// Watches one turn.
pub(super) struct Gate {
    allowed: Allowed,
    /// In the first turn: those of which one must be called; empty: no such turn, or none any more.
    first: HashSet<usize>,
    tools: Arc<[Arc<ModelTool>]>,
    parallel: bool,
    passed: usize,
    /// Bytes of arguments that did not pass, over all turns.
    bytes: usize,
    denied: BTreeMap<u32, Denied>,
}

impl Gate {
    /// `first`: the tools of which one is demanded in the first turn. `tools`: those of the request. `parallel`:
    /// whether a turn may hold several calls.
    pub(super) fn new(
        allowed: Allowed,
        first: HashSet<usize>,
        tools: Arc<[Arc<ModelTool>]>,
        parallel: bool,
    ) -> Self {
        Self { allowed, first, tools, parallel, passed: 0, bytes: 0, denied: BTreeMap::new() }
    }

    /// Other tools from now on, and other places of the allowed ones among them.
    pub(super) fn replace_tools(&mut self, allowed: Allowed, tools: Arc<[Arc<ModelTool>]>) {
        if self.allowed != Allowed::Nothing {
            self.allowed = allowed;
        }
        self.tools = tools;
    }

    /// From now on no call passes.
    pub(super) fn shut(&mut self) {
        self.allowed = Allowed::Nothing;
    }

    /// Lets an event pass, or keeps it.
    pub(super) fn admit(&mut self, event: ModelEvent) -> Option<ModelEvent> {
        match event {
            ModelEvent::CallStarted { slot, kind, call_id, name, namespace } => {
                let Some((reason, answered)) = self.objection(namespace.as_deref(), &name) else {
                    self.passed += 1;
                    return Some(ModelEvent::CallStarted { slot, kind, call_id, name, namespace });
                };
                tracing::debug!(tool = %name, %reason, "a call was not let through");
                let arguments = String::new();
                self.denied.insert(slot, Denied { kind, name, namespace, arguments, reason, answered });
                None
            }
            ModelEvent::CallDelta { slot, delta } => match self.denied.get_mut(&slot) {
                Some(denied) => {
                    self.bytes += delta.len();
                    denied.arguments.push_str(&delta);
                    None
                }
                None => Some(ModelEvent::CallDelta { slot, delta }),
            },
            event => Some(event),
        }
    }

    /// Bytes of arguments that were kept back.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether anything of this turn was kept back that the model will be told of.
    pub(super) fn kept_back(&self) -> bool {
        self.denied.values().any(|denied| denied.answered)
    }

    /// Ends the turn: what was denied in it and must be told to the model, in order.
    pub(super) fn end_turn(&mut self) -> Vec<Denied> {
        self.passed = 0;
        self.first.clear();
        std::mem::take(&mut self.denied).into_values().filter(|denied| denied.answered).collect()
    }

    fn objection(&self, namespace: Option<&str>, name: &str) -> Option<(String, bool)> {
        let place = Offer::find(&self.tools, namespace, name);
        match (&self.allowed, place) {
            (Allowed::Nothing, _) => return Some(("tool_choice is \"none\"".into(), false)),
            (_, None) => return Some((format!("there is no tool '{name}'"), true)),
            (Allowed::Only(places), Some(place)) if !places.contains(&place) => {
                return Some((format!("tool '{name}' is not among the allowed tools of this request"), true));
            }
            (_, Some(place)) if !self.first.is_empty() && !self.first.contains(&place) => {
                return Some((format!("tool '{name}' is not the one that was asked for"), true));
            }
            _ => {}
        }
        (!self.parallel && self.passed > 0).then(|| ("parallel_tool_calls is false".into(), false))
    }
}

impl Denied {
    /// The call and its error, as the model sees them in the next turn.
    pub(super) fn into_history(self, ids: &mut IdMint) -> Vec<Context> {
        let call_id = ids.next("call").to_string();
        let status = ItemStatus::Completed;
        let output = ToolOutput::Text(format!("Error: {}.", self.reason));
        let (call, answer) = match self.kind {
            CallKind::Server(_) => return vec![self.into_server_call(ids).into()],
            CallKind::Function => (
                Item::FunctionCall(FunctionCall {
                    id: ids.next("fc"),
                    status,
                    call_id: call_id.clone(),
                    name: self.name,
                    namespace: self.namespace,
                    arguments: if self.arguments.trim().is_empty() { "{}".into() } else { self.arguments },
                }),
                Item::FunctionCallOutput(FunctionCallOutput { id: ids.next("fco"), status, call_id, output }),
            ),
            CallKind::Custom => (
                Item::CustomToolCall(CustomToolCall {
                    id: ids.next("ctc"),
                    status,
                    call_id: call_id.clone(),
                    name: self.name,
                    namespace: self.namespace,
                    input: self.arguments,
                }),
                Item::CustomToolCallOutput(CustomToolCallOutput {
                    id: ids.next("ctco"),
                    status,
                    call_id,
                    output,
                }),
            ),
        };
        vec![call.into(), answer.into()]
    }

    fn into_server_call(self, ids: &mut IdMint) -> Item {
        Item::McpCall(McpCall {
            id: ids.next("mcp"),
            server_label: self.namespace.unwrap_or_else(|| OWN_SERVER.to_owned()),
            name: self.name,
            arguments: self.arguments,
            output: None,
            error: Some(McpCallError::Text(self.reason)),
            status: ItemStatus::Failed,
            approval_request_id: None,
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
        }
    }

    fn gate(allowed: Allowed, parallel: bool) -> Gate {
        let tools = ["a", "b"].map(|name| ModelTool {
            wire_name: name.into(),
            name: name.into(),
            namespace: None,
            description: None,
            input: crate::response::turn::ToolInput::Json { schema: None, strict: None },
            kind: CallKind::Function,
        });
        Gate::new(allowed, HashSet::new(), tools.map(Arc::new).into(), parallel)
    }

    #[test]
    fn a_call_outside_the_allowed_tools_never_passes_nor_do_its_arguments() {
        let mut gate = gate(Allowed::Only([0].into()), true);
        assert!(gate.admit(start(0, "b")).is_none());
        assert!(gate.admit(ModelEvent::CallDelta { slot: 0, delta: "{}".into() }).is_none());
        assert!(gate.admit(start(1, "a")).is_some());
        let denied = gate.end_turn();
        assert_eq!(denied.len(), 1);
        assert_eq!(denied[0].arguments, "{}");
        assert_eq!(gate.bytes(), 2, "what is kept back counts against the limits of size");
        assert!(denied[0].reason.contains("not among the allowed tools"));
    }

    #[test]
    fn a_tool_that_does_not_exist_is_answered() {
        let mut gate = gate(Allowed::All, true);
        assert!(gate.admit(start(0, "zzz")).is_none());
        assert_eq!(gate.end_turn().len(), 1);
        assert!(gate.end_turn().is_empty(), "a turn's denials are told once");
    }

    #[test]
    fn one_call_a_turn_where_parallel_calls_are_off_and_none_where_choice_is_none() {
        let mut one = gate(Allowed::All, false);
        assert!(one.admit(start(0, "a")).is_some());
        assert!(one.admit(start(1, "b")).is_none());
        assert!(one.end_turn().is_empty(), "a surplus call is dropped without a word");
        assert!(one.admit(start(0, "b")).is_some(), "the next turn may call again");
        assert!(gate(Allowed::Nothing, true).admit(start(0, "a")).is_none());
    }
}
