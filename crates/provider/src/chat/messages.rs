//! The conversation as chat messages.
//!
//! Servers are strict about the order of messages. So all calls of a turn and the text next to them become one assistant
//! message; the outputs of its calls follow it directly, wherever they were in the input; reasoning is added to the message
//! of its turn; system messages are moved to the front.
//!
//! A prior call of an MCP server, which holds its output, becomes a call and its output. Other hosted items (searches, code,
//! images, shells, approvals, lists of tools) have no equivalent in chat completions and are left out: their results are
//! part of the model's answer.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde::de::IgnoredAny;

use super::call_ids::{client_call_id, provider_call_id};
use super::content;
use super::message::{Assistant, CallInput, MessageCall, MessageContent, MessagePart, MessageReasoning};
use super::options::ChatOptions;
use super::order;
use crate::errors::ProviderError;
use antwort_config::{DeveloperRole, ProviderFeatures, ReasoningField, Roles, SystemPlacement};
use antwort_protocol::item::hosted::McpCall;
use antwort_protocol::item::{Item, ItemStatus, Message as MessageItem, Role, ToolOutput};
use antwort_protocol::result_format::ResultFormat;
use antwort_response::result_text::{ToldResult, format_result};
use antwort_response::turn::{HistoryItem, ModelRequest, ProviderFields, ProviderState, StatePosition};

pub(super) use super::message::ChatMessage;

/// The messages of a request, its instructions first.
pub(super) fn build<'a>(
    request: &'a ModelRequest,
    options: &'a ChatOptions,
) -> Result<Vec<ChatMessage<'a>>, ProviderError> {
    let roles = options.roles.for_model(&request.model);
    let mut builder = Builder::new(request, options, roles);
    if let Some(instructions) = request.instructions.as_deref().filter(|text| !text.is_empty()) {
        builder.add_system(instructions.into(), Role::Developer);
    }
    for context in &request.conversation {
        builder.add(context)?;
    }
    builder.close(Attach::Back)?;
    Ok(order::arrange(builder.finish(), roles))
}

struct Builder<'a> {
    options: &'a ChatOptions,
    roles: Roles,
    format: ResultFormat,
    names: HashMap<(Option<&'a str>, &'a str), &'a str>,
    /// Outputs by call id, in a queue until their call takes them: ids may be reused.
    outputs: HashMap<&'a str, VecDeque<Outputs<'a>>>,
    system: Vec<Cow<'a, str>>,
    messages: Vec<ChatMessage<'a>>,
    open: Option<OpenMessage<'a>>,
    /// Reasoning whose message is not known yet.
    pending: PendingReasoning<'a>,
}

/// The assistant message that is being built.
#[derive(Default)]
struct OpenMessage<'a> {
    message: Assistant<'a>,
    reasoning: PendingReasoning<'a>,
    /// The outputs of its calls, by the ids that the provider knows.
    outputs: Vec<(Cow<'a, str>, CallOutput<'a>)>,
    /// The output of one of its calls is a later item.
    awaits_output: bool,
}

enum CallOutput<'a> {
    Outputs(Outputs<'a>),
    /// Of the gateway's own call: text, and files that follow it.
    Result(Cow<'a, str>, Vec<MessagePart<'a>>),
}

/// The output items of one call: one, unless a custom tool reported progress before its result.
type Outputs<'a> = Vec<&'a ToolOutput>;

#[derive(Default)]
struct PendingReasoning<'a> {
    texts: Vec<&'a str>,
    fields: Vec<&'a ProviderFields>,
    /// Another answer begins with it.
    leads: bool,
}

/// The message to which reasoning between two messages belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attach {
    /// The previous one, as no output of the model follows: providers may send state late.
    Back,
    /// The next one.
    Forward,
}

impl<'a> Builder<'a> {
    fn new(request: &'a ModelRequest, options: &'a ChatOptions, roles: Roles) -> Self {
        // Names are only needed for calls, which most requests do not have.
        let is_call =
            |item: &Item| matches!(item, Item::FunctionCall(_) | Item::CustomToolCall(_) | Item::McpCall(_));
        let calls = request.conversation.iter().any(|context| is_call(&context.item));
        let tools = if calls { request.tools.iter() } else { [].iter() };
        Self {
            options,
            roles,
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
        // Merging calls of two turns would change the prefix that the provider has cached.
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
                let input = CallInput::Json(as_json_object(&call.arguments));
                let name = (call.namespace.as_deref(), call.name.as_str());
                let id = self.provider_id(context, &call.call_id);
                let refused = self.refused_text(context, &id);
                self.add_call(context, (&call.call_id, id), name, input, refused)
            }
            Item::CustomToolCall(call) => {
                let input = if self.options.supports.custom_tools {
                    CallInput::Text(&call.input)
                } else {
                    CallInput::Json(wrap_input(&call.input).into())
                };
                let name = (call.namespace.as_deref(), call.name.as_str());
                let id = self.provider_id(context, &call.call_id);
                let refused = self.refused_text(context, &id);
                self.add_call(context, (&call.call_id, id), name, input, refused)
            }
            Item::FunctionCallOutput(item) => self.add_output(&item.call_id, &item.output),
            Item::CustomToolCallOutput(item) => self.add_output(&item.call_id, &item.output),
            Item::McpCall(call) => {
                let input = CallInput::Json(as_json_object(&call.arguments));
                let name = (Some(call.server_label.as_str()), call.name.as_str());
                let id = self.provider_id(context, call.id.as_str());
                let output = Some(mcp_result(call, &id, self.format, self.options.supports));
                self.add_call(context, (call.id.as_str(), id), name, input, output)
            }
            _ => Ok(()),
        }
    }

    fn provider_id(&self, context: &'a HistoryItem, own: &'a str) -> Cow<'a, str> {
        provider_call_id(context, own, self.options.short_call_ids)
    }

    /// What the model reads of a call that was refused. `id`: the provider's.
    fn refused_text(&self, context: &'a HistoryItem, id: &str) -> Option<CallOutput<'a>> {
        let reason = context.refused.as_deref()?;
        let text = format_result(self.format, id, ToldResult::Failed(reason));
        Some(CallOutput::Result(text, Vec::new()))
    }

    /// Reasoning is added to the message that follows it; state from within an answer belongs to that answer.
    fn add_reasoning(&mut self, context: &'a HistoryItem) {
        let within = context.state.as_ref().is_some_and(|state| state.place != StatePosition::Before);
        match &mut self.open {
            Some(open) if within => open.reasoning.add(context),
            _ => {
                self.pending.add(context);
                self.pending.leads |= !within && (context.state.is_some() || !self.pending.texts.is_empty());
            }
        }
    }

    fn add_message(
        &mut self,
        message: &'a MessageItem,
        state: Option<&'a ProviderState>,
    ) -> Result<(), ProviderError> {
        if message.role == Role::Assistant {
            // Parts that a model cannot have produced (such as an image) are left out.
            let text = content::text_of(&message.content, "").unwrap_or_default();
            return self.add_text(text, state);
        }
        self.close(Attach::Back)?;
        let text = content::text_of(&message.content, "\n");
        match (message.role, text) {
            (Role::System | Role::Developer, Some(text)) => self.add_system(text, message.role),
            // Messages with images or files become user messages: no server accepts them in system messages.
            _ => {
                let content = content::user_content(&message.content, self.options.supports)?;
                self.messages.push(ChatMessage::Plain { role: "user", content });
            }
        }
        Ok(())
    }

    fn add_system(&mut self, text: Cow<'a, str>, role: Role) {
        if self.roles.system == SystemPlacement::Merge {
            self.system.push(text);
        } else {
            let role = self.role(role);
            self.messages.push(ChatMessage::Plain { role, content: MessageContent::Text(text) });
        }
    }

    fn role(&self, role: Role) -> &'static str {
        match (self.roles.developer, role) {
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
        // Text between calls and their outputs belongs to the turn of these calls.
        if self.open.as_ref().is_some_and(|open| !open.awaits_output) {
            self.close(Attach::Forward)?;
        }
        let open = self.open_message();
        open.reasoning.add_state(state);
        let message = &mut open.message;
        message.text = match std::mem::take(&mut message.text) {
            before if before.is_empty() => text,
            before => Cow::Owned(format!("{before}\n\n{text}")),
        };
        Ok(())
    }

    /// `own`: the id of the call in the conversation; `id`: the provider's.
    fn add_call(
        &mut self,
        context: &'a HistoryItem,
        (own, id): (&'a str, Cow<'a, str>),
        name: (Option<&'a str>, &'a str),
        input: CallInput<'a>,
        output: Option<CallOutput<'a>>,
    ) -> Result<(), ProviderError> {
        // Leading reasoning begins another turn, unless this one still awaits outputs. So does leading state of a call, if
        // the open message has calls already.
        let leads = context.state.as_ref().is_some_and(|state| state.place == StatePosition::Before);
        let begins = self.pending.leads
            || leads && self.open.as_ref().is_some_and(|open| !open.message.calls.is_empty());
        if begins && self.open.as_ref().is_some_and(|open| !open.awaits_output) {
            self.close(Attach::Forward)?;
        }
        let name = match self.names.get(&name) {
            Some(wire_name) => Cow::Borrowed(*wire_name),
            None => unknown_name(name),
        };
        let awaits_output = output.is_none();
        let not_empty = |outputs: &Outputs<'_>| !outputs.is_empty();
        let output = output
            .or_else(|| self.outputs.get_mut(own)?.pop_front().filter(not_empty).map(CallOutput::Outputs));
        let fields = context.call_state.as_ref().map(|state| &state.fields);
        let open = self.open_message();
        open.reasoning.add_state(context.state.as_ref());
        open.message.calls.push(MessageCall { id: id.clone(), name, input, fields });
        open.awaits_output |= awaits_output;
        open.outputs.extend(output.map(|output| (id, output)));
        Ok(())
    }

    /// The open assistant message, a new one if there is none, with the pending reasoning.
    fn open_message(&mut self) -> &mut OpenMessage<'a> {
        let pending = std::mem::take(&mut self.pending);
        let open = self.open.get_or_insert_default();
        open.reasoning.join(pending);
        open
    }

    /// An output item closes the message of its call, which has taken it already; one without a call stays in place.
    fn add_output(&mut self, id: &'a str, output: &'a ToolOutput) -> Result<(), ProviderError> {
        if self.open.is_some() {
            self.close(Attach::Back)?;
        }
        match self.outputs.get_mut(id) {
            Some(waiting) if waiting.front().is_some_and(|first| is_first(first, output)) => {
                let outputs = waiting.pop_front().unwrap_or_default();
                let id = client_call_id(id, self.options.short_call_ids);
                self.write_outputs(vec![(id, CallOutput::Outputs(outputs))])
            }
            _ => Ok(()),
        }
    }

    /// Writes the open assistant message and the outputs of its calls.
    fn close(&mut self, attach: Attach) -> Result<(), ProviderError> {
        let pending = if attach == Attach::Back {
            std::mem::take(&mut self.pending)
        } else {
            PendingReasoning::default()
        };
        let Some(OpenMessage { mut message, mut reasoning, outputs, .. }) = self.open.take() else {
            return Ok(());
        };
        reasoning.join(pending);
        message.reasoning = reasoning.into_reasoning(self.options.reasoning_field);
        self.messages.push(ChatMessage::Assistant(message));
        self.write_outputs(outputs)
    }

    /// Writes tool messages, followed by a user message with parts that tool messages cannot hold, such as images.
    fn write_outputs(&mut self, outputs: Vec<(Cow<'a, str>, CallOutput<'a>)>) -> Result<(), ProviderError> {
        let mut parts: Vec<MessagePart<'a>> = Vec::new();
        for (tool_call_id, output) in outputs {
            let (content, others) = match output {
                CallOutput::Outputs(outputs) => content::outputs_content(&outputs, self.options.supports)?,
                CallOutput::Result(text, files) => (text, files),
            };
            if !others.is_empty() {
                parts.push(MessagePart::Text {
                    text: format!("Output of the tool call {tool_call_id}:").into(),
                });
                parts.extend(others);
            }
            self.messages.push(ChatMessage::Tool { role: "tool", tool_call_id, content });
        }
        if !parts.is_empty() {
            self.messages.push(ChatMessage::Plain { role: "user", content: MessageContent::Parts(parts) });
        }
        Ok(())
    }

    fn finish(self) -> Vec<ChatMessage<'a>> {
        if self.system.is_empty() {
            return self.messages;
        }
        let texts: Vec<&str> = self.system.iter().map(Cow::as_ref).collect();
        let content = MessageContent::Text(Cow::Owned(texts.join("\n\n")));
        let role = self.role(Role::Developer);
        let head = ChatMessage::Plain { role, content };
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

    fn into_reasoning(self, field: ReasoningField) -> MessageReasoning<'a> {
        let field = match field {
            ReasoningField::ReasoningContent => Some("reasoning_content"),
            ReasoningField::Reasoning => Some("reasoning"),
            ReasoningField::None => None,
        };
        MessageReasoning { field, text: content::join(&self.texts, "\n\n"), fields: self.fields }
    }
}

/// Outputs by call id. An output belongs to the last call of its id before it; custom tools may have several.
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

/// Arguments as a JSON object: arguments that are not JSON are wrapped, as servers refuse a history with invalid ones.
fn as_json_object(arguments: &str) -> Cow<'_, str> {
    match arguments.trim() {
        "" => Cow::Borrowed("{}"),
        text if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            Cow::Borrowed(arguments)
        }
        _ => Cow::Owned(wrap_input(arguments)),
    }
}

/// `{"input": …}`: a text as the only argument of a function.
fn wrap_input(input: &str) -> String {
    serde_json::json!({ "input": input }).to_string()
}

/// The name of a tool that the request does not declare any more.
fn unknown_name<'a>((namespace, name): (Option<&'a str>, &'a str)) -> Cow<'a, str> {
    match namespace {
        Some(namespace) => Cow::Owned(format!("{namespace}__{name}").chars().take(64).collect()),
        None => Cow::Borrowed(name),
    }
}

/// The result of an MCP call for the model, with the files that it can read.
fn mcp_result<'a>(
    call: &'a McpCall,
    id: &str,
    format: ResultFormat,
    supports: ProviderFeatures,
) -> CallOutput<'a> {
    let (files, left_out) = content::result_files(&call.files, supports);
    let text = match left_out {
        0 => mcp_result_text(call, call.output.as_deref(), id, format),
        left_out => {
            let note = format!(
                "[{left_out} of {} files are not shown: this model cannot read them]",
                call.files.len()
            );
            let output = call.output.as_ref().map(|output| format!("{output}\n{note}"));
            Cow::Owned(mcp_result_text(call, output.as_deref(), id, format).into_owned())
        }
    };
    CallOutput::Result(text, files)
}

/// The result of an MCP call as text for the model.
fn mcp_result_text<'a>(
    call: &'a McpCall,
    output: Option<&'a str>,
    id: &str,
    format: ResultFormat,
) -> Cow<'a, str> {
    let result = match (output, &call.error) {
        (Some(output), _) if call.status == ItemStatus::Incomplete => ToldResult::Skipped(output),
        (Some(output), _) => ToldResult::Output(output),
        (None, Some(error)) => {
            let failed = ToldResult::Failed(&error.message());
            return Cow::Owned(format_result(format, id, failed).into_owned());
        }
        (None, None) => ToldResult::Output("The call returned no output."),
    };
    format_result(format, id, result)
}
