//! Calls of the client's functions that the response waits for without ending: they are announced, and their outputs become
//! items behind them.

use std::time::Duration;

use super::items::FlushMode;
use super::{Events, ResponseMachine, Violation};
use antwort_protocol::a2a::A2aToolCall;
use antwort_protocol::elicitation::Elicitation;
use antwort_protocol::event::ResponseEvent;
use antwort_protocol::id::Id;
use antwort_protocol::item::{CustomToolCallOutput, FunctionCallOutput, Item, ItemStatus, ToolOutput};
use antwort_protocol::json::{self, RawJson};

/// The output of a call whose response has ended before it was answered.
const NOT_ANSWERED: &str = "the response ended before the client had answered this call";

/// A call of the client's that has no output yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCall {
    /// The place of its item.
    pub output_index: u32,
    /// The id of its item.
    pub item_id: Id,
    /// By which it is answered.
    pub call_id: String,
    /// The name of the function or custom tool.
    pub name: String,
    /// The namespace that declared it.
    pub namespace: Option<String>,
    /// The arguments, or the input of a custom tool.
    pub arguments: String,
    /// Whether it is a call of a custom tool.
    pub is_custom: bool,
}

/// The event by which the client is asked for the output of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputEvent {
    /// `antwort:input_required`
    #[default]
    Responses,
    /// `input-required`, as A2A clients know it.
    A2a,
}

/// How long the client has to answer.
#[derive(Debug, Clone, Copy)]
pub struct InputDeadline {
    /// From the event on.
    pub timeout: Duration,
    /// The same in Unix seconds.
    pub expires_at: i64,
}

/// Arguments as the object that A2A clients expect: a text that is none is the argument `input`, as models are shown it.
fn arguments_object(text: &str) -> RawJson {
    match serde_json::from_str::<RawJson>(text) {
        Ok(object) if object.get().starts_with('{') => object,
        _ if text.trim().is_empty() => RawJson::from(&serde_json::json!({})),
        _ => wrap(text),
    }
}

fn wrap(input: &str) -> RawJson {
    RawJson::from(&serde_json::json!({ "input": input }))
}

fn input_required(call: &ClientCall, expires_at: i64) -> ResponseEvent {
    ResponseEvent::InputRequired {
        item_id: call.item_id.clone(),
        output_index: call.output_index,
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        namespace: call.namespace.clone(),
        arguments: call.arguments.clone(),
        elicitation: None,
        expires_at,
    }
}

impl ResponseMachine {
    /// The calls of this turn that the client makes and has not answered.
    pub fn open_client_calls(&self) -> Vec<ClientCall> {
        let items = self.turn_output();
        let is_answered = |id: &str| {
            items.iter().any(|item| match item {
                Item::FunctionCallOutput(output) => output.call_id == id,
                Item::CustomToolCallOutput(output) => output.call_id == id,
                _ => false,
            })
        };
        let places = (self.turn.first..).filter_map(|place| u32::try_from(place).ok());
        let calls = places.zip(items).filter_map(|(place, item)| client_call(place, item));
        // A server-side call that is shown as a function has its result in the history.
        calls
            .filter(|call| self.history_of(call.output_index).is_none() && !is_answered(&call.call_id))
            .collect()
    }

    /// Ends the items of the turn, whose server-side calls are finished. The client is asked for the outputs of the calls that
    /// are returned, from the commit of this state on.
    pub fn ask_client(&mut self, out: &mut Events) -> Result<Vec<ClientCall>, Violation> {
        self.drain_pending(FlushMode::Force, out)?;
        self.close(ItemStatus::Completed, out)?;
        self.finalize_state(out)?;
        self.turn.asks_client = true;
        Ok(self.open_client_calls())
    }

    /// Announces the calls that the client is to answer in time.
    pub fn require_inputs(
        &mut self,
        calls: &[ClientCall],
        event: InputEvent,
        deadline: InputDeadline,
        out: &mut Events,
    ) {
        for call in calls {
            let event = match event {
                InputEvent::Responses => input_required(call, deadline.expires_at),
                InputEvent::A2a => self.a2a_input_required(call, deadline.timeout),
            };
            self.emit_infallible(event, out);
        }
    }

    fn a2a_input_required(&self, call: &ClientCall, timeout: Duration) -> ResponseEvent {
        let name = match &call.namespace {
            Some(namespace) => format!("{namespace}__{}", call.name),
            None => call.name.clone(),
        };
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let arguments =
            if call.is_custom { wrap(&call.arguments) } else { arguments_object(&call.arguments) };
        let question =
            A2aToolCall::new(self.response().id.clone(), call.call_id.clone(), name, arguments, timeout);
        ResponseEvent::A2aInputRequired(Box::new(question))
    }

    /// Announces a question that a server-side call asks the user until this time, in Unix seconds. False if the item of the
    /// call is not shown yet: calls are shown one after the other.
    pub fn ask_user(
        &mut self,
        slot: u32,
        call_id: &str,
        question: &Elicitation,
        expires_at: i64,
        out: &mut Events,
    ) -> bool {
        let Some((item_id, output_index, call)) = self.shown_server_call(slot) else { return false };
        let event = ResponseEvent::InputRequired {
            item_id: item_id.clone(),
            output_index,
            call_id: call_id.to_owned(),
            name: call.name.clone(),
            namespace: call.namespace.clone(),
            arguments: call.arguments.clone(),
            elicitation: Some(Box::new(question.clone())),
            expires_at,
        };
        self.emit_infallible(event, out);
        true
    }

    /// Adds the output of a call; if it has none, a text that says why.
    pub fn finish_client_call(
        &mut self,
        call: &ClientCall,
        output: ToolOutput,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let size = json::to_text(&output).len();
        let (call_id, pending) = (call.call_id.clone(), ItemStatus::InProgress);
        let item = if call.is_custom {
            let id = self.ids.next("ctco");
            Item::CustomToolCallOutput(CustomToolCallOutput { id, status: pending, call_id, output })
        } else {
            let id = self.ids.next("fco");
            Item::FunctionCallOutput(FunctionCallOutput {
                id,
                status: pending,
                call_id,
                name: None,
                namespace: None,
                output,
            })
        };
        let place = self.add_item(item, out)?;
        self.count(size);
        self.finish_item(place, out, |item| match item {
            Item::FunctionCallOutput(output) => output.status = ItemStatus::Completed,
            Item::CustomToolCallOutput(output) => output.status = ItemStatus::Completed,
            _ => {}
        })
    }

    /// Ends the wait of a response that ends: a conversation with a call that has no output could not be continued.
    pub(super) fn abandon_client_calls(&mut self, out: &mut Events) -> Result<(), Violation> {
        if !self.turn.asks_client {
            return Ok(());
        }
        for call in self.open_client_calls() {
            let output = ToolOutput::Text(NOT_ANSWERED.to_owned());
            self.finish_client_call(&call, output, out)?;
        }
        Ok(())
    }
}

fn client_call(output_index: u32, item: &Item) -> Option<ClientCall> {
    Some(match item {
        Item::FunctionCall(call) if call.status == ItemStatus::Completed => ClientCall {
            output_index,
            item_id: call.id.clone(),
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            namespace: call.namespace.clone(),
            arguments: call.arguments.clone(),
            is_custom: false,
        },
        Item::CustomToolCall(call) if call.status == ItemStatus::Completed => ClientCall {
            output_index,
            item_id: call.id.clone(),
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            namespace: call.namespace.clone(),
            arguments: call.input.clone(),
            is_custom: true,
        },
        _ => return None,
    })
}
