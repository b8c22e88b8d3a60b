//! The conversation as chat messages.
//!
//! Items are many and small; messages are few, and servers are strict about their order. So: all calls of
//! a turn and the text beside them become one assistant message; the outputs of its calls follow it at
//! once, wherever they stood; reasoning joins the message of its turn; system messages go to the head.
//!
//! A prior call of an MCP server, which holds its output, becomes a call and its output. Other hosted items
//! (searches, code, images, shells, approvals, lists of tools) have no form in Chat and are left out:
//! what came of them is in the model's answer.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde::de::IgnoredAny;

use super::content;
use super::message::{Assistant, Call, CallInput, MessageContent, MessagePart, Reasoning};
use super::options::ChatOptions;
use crate::config::{DeveloperRole, ReasoningField, ResultFormat, SystemPlacement};
use crate::protocol::item::hosted::McpCall;
use crate::protocol::item::{Item, Message as MessageItem, Role, ToolOutput};
use crate::provider::errors::ProviderError;
use crate::response::result_text::format_result;
use crate::response::turn::{HistoryItem, ModelRequest, ProviderFields, ProviderState, StatePosition};

pub(super) use super::message::Message;

/// The messages of a request, its instructions first.
pub(super) fn build<'a>(
    request: &'a ModelRequest,
    options: &'a ChatOptions,
) -> Result<Vec<Message<'a>>, ProviderError> {
    let mut builder = Builder::new(request, options);
    if let Some(instructions) = request.instructions.as_deref().filter(|text| !text.is_empty()) {
        builder.add_system(instructions.into(), Role::Developer);
    }
    for context in &request.conversation {
        builder.add(context)?;
    }
    builder.close(Attach::Back)?;
    Ok(builder.finish())
}

struct Builder<'a> {
    options: &'a ChatOptions,
    format: ResultFormat,
    names: HashMap<(Option<&'a str>, &'a str), &'a str>,
    /// What each call gave, by its id, until the call takes it: ids may be used again.
    outputs: HashMap<&'a str, VecDeque<Outputs<'a>>>,
    system: Vec<Cow<'a, str>>,
    messages: Vec<Message<'a>>,
    open: Option<OpenMessage<'a>>,
    /// Reasoning whose message is not known yet.
    pending: PendingReasoning<'a>,
}

/// The assistant message that is being put together.
#[derive(Default)]
struct OpenMessage<'a> {
    message: Assistant<'a>,
    reasoning: PendingReasoning<'a>,
    /// What its calls gave.
    answers: Vec<(&'a str, CallOutput<'a>)>,
    /// The output of one of its calls is an item that is still to come.
    waits: bool,
}

/// What a call gave.
enum CallOutput<'a> {
    Outputs(Outputs<'a>),
    Text(Cow<'a, str>),
}

/// The outputs of one call: one, but for a custom tool that told how far it was before it was done.
type Outputs<'a> = Vec<&'a ToolOutput>;

#[derive(Default)]
struct PendingReasoning<'a> {
    texts: Vec<&'a str>,
    fields: Vec<&'a ProviderFields>,
    /// Another answer begins with them.
    leads: bool,
}

/// To which message reasoning belongs that stands between two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attach {
    /// The one before: nothing of the model follows. Providers send state late.
    Back,
    /// The one to come.
    Forward,
}

impl<'a> Builder<'a> {
    fn new(request: &'a ModelRequest, options: &'a ChatOptions) -> Self {
        // Names are looked up by calls only, which most requests have none of.
        let is_call =
            |item: &Item| matches!(item, Item::FunctionCall(_) | Item::CustomToolCall(_) | Item::McpCall(_));
        let calls = request.conversation.iter().any(|context| is_call(&context.item));
        let tools = if calls { request.tools.iter() } else { [].iter() };
        Self {
            options,
            format: request.result_format,
            names: tools
                .map(|tool| ((tool.namespace.as_deref(), tool.name.as_str()), tool.wire_name.as_str()))
                .collect(),
            outputs: outputs_by_call(&request.conversation),
            system: Vec::new(),
            messages: Vec::new(),
            open: None,
            pending: PendingReasoning::default(),
        }
    }

    fn add(&mut self, context: &'a HistoryItem) -> Result<(), ProviderError> {
        // Calls of two turns in one message would change what the provider has seen, and cached, already.
        if context.begins_turn && self.open.is_some() {
            self.close(Attach::Back)?;
        }
        match context.item.as_ref() {
            Item::Message(message) => self.add_message(message, context.state.as_ref()),
            Item::Reasoning(_) => {
                self.add_reasoning(context);
                Ok(())
            }
            Item::FunctionCall(call) => {
                let input = CallInput::Json(object(&call.arguments));
                let name = (call.namespace.as_deref(), call.name.as_str());
                self.add_call(context, &call.call_id, name, input, None)
            }
            Item::CustomToolCall(call) => {
                let input = if self.options.supports.custom_tools {
                    CallInput::Text(&call.input)
                } else {
                    CallInput::Json(wrapped(&call.input).into())
                };
                let name = (call.namespace.as_deref(), call.name.as_str());
                self.add_call(context, &call.call_id, name, input, None)
            }
            Item::FunctionCallOutput(item) => self.add_output(&item.call_id, &item.output),
            Item::CustomToolCallOutput(item) => self.add_output(&item.call_id, &item.output),
            Item::McpCall(call) => {
                let input = CallInput::Json(object(&call.arguments));
                let name = (Some(call.server_label.as_str()), call.name.as_str());
                let outcome = outcome(call, self.format);
                let answer = Some(CallOutput::Text(outcome));
                self.add_call(context, call.id.as_str(), name, input, answer)
            }
            _ => Ok(()),
        }
    }

    /// Reasoning waits for what it led to; state that came amid an answer belongs to that.
    fn add_reasoning(&mut self, context: &'a HistoryItem) {
        let amid = context.state.as_ref().is_some_and(|state| state.place != StatePosition::Leads);
        match &mut self.open {
            Some(open) if amid => open.reasoning.add(context),
            _ => {
                self.pending.add(context);
                self.pending.leads |= !amid && (context.state.is_some() || !self.pending.texts.is_empty());
            }
        }
    }

    fn add_message(
        &mut self,
        message: &'a MessageItem,
        state: Option<&'a ProviderState>,
    ) -> Result<(), ProviderError> {
        if message.role == Role::Assistant {
            // What the model cannot have made (a picture, say) it is not told that it made.
            let text = content::text_of(&message.content, "").unwrap_or_default();
            return self.add_text(text, state);
        }
        self.close(Attach::Back)?;
        let text = content::text_of(&message.content, "\n");
        match (message.role, text) {
            (Role::System | Role::Developer, Some(text)) => self.add_system(text, message.role),
            // Pictures and files are for models to look at, whoever shows them: no server takes them of the system.
            _ => {
                let content = content::user_content(&message.content, self.options.supports)?;
                self.messages.push(Message::Plain { role: "user", content });
            }
        }
        Ok(())
    }

    fn add_system(&mut self, text: Cow<'a, str>, role: Role) {
        if self.options.roles.system == SystemPlacement::Merge {
            self.system.push(text);
        } else {
            let role = self.role(role);
            self.messages.push(Message::Plain { role, content: MessageContent::Text(text) });
        }
    }

    fn role(&self, role: Role) -> &'static str {
        match (self.options.roles.developer, role) {
            (DeveloperRole::User, _) => "user",
            (DeveloperRole::Developer, Role::Developer) => "developer",
            _ => "system",
        }
    }

    fn add_text(
        &mut self,
        text: Cow<'a, str>,
        state: Option<&'a ProviderState>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            self.pending.add_state(state);
            return Ok(());
        }
        // Text between calls and their outputs belongs to the turn of the calls.
        if self.open.as_ref().is_some_and(|open| !open.waits) {
            self.close(Attach::Forward)?;
        }
        let open = self.opened();
        open.reasoning.add_state(state);
        let message = &mut open.message;
        message.text = match std::mem::take(&mut message.text) {
            before if before.is_empty() => text,
            before => Cow::Owned(format!("{before}\n\n{text}")),
        };
        Ok(())
    }

    fn add_call(
        &mut self,
        context: &'a HistoryItem,
        id: &'a str,
        name: (Option<&'a str>, &'a str),
        input: CallInput<'a>,
        answer: Option<CallOutput<'a>>,
    ) -> Result<(), ProviderError> {
        // Reasoning begins another turn, unless this one still waits for outputs; so does a turn's state that is kept
        // with its first call, but for the text before that.
        let leads = context.state.as_ref().is_some_and(|state| state.place == StatePosition::Leads);
        let begins = self.pending.leads
            || leads && self.open.as_ref().is_some_and(|open| !open.message.calls.is_empty());
        if begins && self.open.as_ref().is_some_and(|open| !open.waits) {
            self.close(Attach::Forward)?;
        }
        let name = match self.names.get(&name) {
            Some(wire_name) => Cow::Borrowed(*wire_name),
            None => unknown_name(name),
        };
        let waits = answer.is_none();
        let given = |outputs: &Outputs<'_>| !outputs.is_empty();
        let answer =
            answer.or_else(|| self.outputs.get_mut(id)?.pop_front().filter(given).map(CallOutput::Outputs));
        let open = self.opened();
        open.reasoning.add_state(context.state.as_ref());
        open.message.calls.push(Call { id, name, input, fields: context.call_fields.as_ref() });
        open.waits |= waits;
        open.answers.extend(answer.map(|answer| (id, answer)));
        Ok(())
    }

    /// The open assistant message, a new one if need be, with the reasoning that led to what comes next.
    fn opened(&mut self) -> &mut OpenMessage<'a> {
        let pending = std::mem::take(&mut self.pending);
        let open = self.open.get_or_insert_default();
        open.reasoning.join(pending);
        open
    }

    /// An output ends the turn of its call, which has taken it; one without a call goes where it stands.
    fn add_output(&mut self, id: &'a str, output: &'a ToolOutput) -> Result<(), ProviderError> {
        if self.open.is_some() {
            self.close(Attach::Back)?;
        }
        match self.outputs.get_mut(id) {
            Some(waiting) if waiting.front().is_some_and(|first| is_first(first, output)) => {
                let outputs = waiting.pop_front().unwrap_or_default();
                self.write_answers(vec![(id, CallOutput::Outputs(outputs))])
            }
            _ => Ok(()),
        }
    }

    /// Writes the assistant message that is open, and what its calls gave.
    fn close(&mut self, attach: Attach) -> Result<(), ProviderError> {
        let pending = if attach == Attach::Back {
            std::mem::take(&mut self.pending)
        } else {
            PendingReasoning::default()
        };
        let Some(OpenMessage { mut message, reasoning: mut thoughts, answers, .. }) = self.open.take() else {
            return Ok(());
        };
        thoughts.join(pending);
        message.reasoning = thoughts.into_reasoning(self.options.reasoning_field);
        self.messages.push(Message::Assistant(message));
        self.write_answers(answers)
    }

    /// Writes tool messages, and behind them what these cannot hold.
    fn write_answers(&mut self, answers: Vec<(&'a str, CallOutput<'a>)>) -> Result<(), ProviderError> {
        let mut shown: Vec<MessagePart<'a>> = Vec::new();
        for (tool_call_id, answer) in answers {
            let (content, others) = match answer {
                CallOutput::Outputs(outputs) => content::outputs_content(&outputs, self.options.supports)?,
                CallOutput::Text(text) => (text, Vec::new()),
            };
            self.messages.push(Message::Tool { role: "tool", tool_call_id, content });
            if !others.is_empty() {
                shown.push(MessagePart::Text {
                    text: format!("Output of the tool call {tool_call_id}:").into(),
                });
                shown.extend(others);
            }
        }
        if !shown.is_empty() {
            self.messages.push(Message::Plain { role: "user", content: MessageContent::Parts(shown) });
        }
        Ok(())
    }

    fn finish(self) -> Vec<Message<'a>> {
        if self.system.is_empty() {
            return self.messages;
        }
        let texts: Vec<&str> = self.system.iter().map(Cow::as_ref).collect();
        let content = MessageContent::Text(Cow::Owned(texts.join("\n\n")));
        let role = self.role(Role::Developer);
        let head = Message::Plain { role, content };
        std::iter::once(head).chain(self.messages).collect()
    }
}

impl<'a> PendingReasoning<'a> {
    fn add(&mut self, context: &'a HistoryItem) {
        let Item::Reasoning(item) = context.item.as_ref() else { return };
        match &context.state {
            Some(state) if !state.text.is_empty() => {}
            _ => self.texts.extend(item.content.iter().map(|part| part.text.as_str())),
        }
        self.add_state(context.state.as_ref());
    }

    fn add_state(&mut self, state: Option<&'a ProviderState>) {
        let Some(state) = state else { return };
        self.texts.extend(Some(state.text.as_str()).filter(|text| !text.is_empty()));
        self.fields.extend(Some(&state.fields).filter(|fields| !fields.is_empty()));
    }

    fn join(&mut self, mut more: Self) {
        self.texts.append(&mut more.texts);
        self.fields.append(&mut more.fields);
    }

    fn into_reasoning(self, field: ReasoningField) -> Reasoning<'a> {
        let field = match field {
            ReasoningField::ReasoningContent => Some("reasoning_content"),
            ReasoningField::Reasoning => Some("reasoning"),
            ReasoningField::None => None,
        };
        Reasoning { field, text: content::join(&self.texts, "\n\n"), fields: self.fields }
    }
}

/// What calls gave, by their ids. An output belongs to the last call before it, as a further one if it is custom.
fn outputs_by_call(conversation: &[HistoryItem]) -> HashMap<&str, VecDeque<Outputs<'_>>> {
    let mut outputs: HashMap<&str, VecDeque<Outputs<'_>>> = HashMap::new();
    for context in conversation {
        match context.item.as_ref() {
            Item::FunctionCallOutput(item) => {
                outputs.entry(&item.call_id).or_default().push_back(vec![&item.output]);
            }
            Item::CustomToolCall(item) => outputs.entry(&item.call_id).or_default().push_back(Vec::new()),
            Item::CustomToolCallOutput(item) => {
                let of_calls = outputs.entry(&item.call_id).or_default();
                match of_calls.back_mut() {
                    Some(outputs) => outputs.push(&item.output),
                    None => of_calls.push_back(vec![&item.output]),
                }
            }
            _ => {}
        }
    }
    outputs
}

fn is_first(outputs: &Outputs<'_>, output: &ToolOutput) -> bool {
    outputs.first().is_some_and(|first| std::ptr::eq(*first, output))
}

/// Arguments that a server will parse: those of a call that was no JSON are wrapped, since a history that
/// the server chokes on could never be continued.
fn object(arguments: &str) -> Cow<'_, str> {
    match arguments.trim() {
        "" => Cow::Borrowed("{}"),
        text if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            Cow::Borrowed(arguments)
        }
        _ => Cow::Owned(wrapped(arguments)),
    }
}

/// A text as the only argument of a function.
fn wrapped(input: &str) -> String {
    serde_json::json!({ "input": input }).to_string()
}

/// The name of a tool that the request does not have any more.
fn unknown_name<'a>((namespace, name): (Option<&'a str>, &'a str)) -> Cow<'a, str> {
    match namespace {
        Some(namespace) => Cow::Owned(format!("{namespace}__{name}").chars().take(64).collect()),
        None => Cow::Borrowed(name),
    }
}

/// What a call that the gateway made gave, in words for the model.
fn outcome(call: &McpCall, format: ResultFormat) -> Cow<'_, str> {
    let result = match (&call.output, &call.error) {
        (Some(output), _) => Ok(output.as_str()),
        (None, Some(error)) => {
            return Cow::Owned(format_result(format, call.id.as_str(), Err(&error.message())).into_owned());
        }
        (None, None) => Ok("The call gave nothing."),
    };
    format_result(format, call.id.as_str(), result)
}
