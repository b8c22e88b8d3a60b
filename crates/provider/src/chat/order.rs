//! Orders of messages that chat templates demand: a last pass over the messages of a request.
//!
//! Many templates raise an error unless user and assistant alternate, or where the user speaks directly behind the output of a
//! tool. Requests have both: clients send several messages at once, runs end between two turns, an answer may be empty, and
//! files of outputs are sent as a message of the user. What is inserted here is part of this request only: it is not stored,
//! not shown, and not counted.

use std::borrow::Cow;

use super::message::{Assistant, ChatMessage, MessageContent, MessagePart};
use antwort_config::Roles;

/// Stands between the output of a tool and a message of the user.
const ASSISTANT: ChatMessage<'static> = ChatMessage::Inserted { role: "assistant", content: "OK." };
/// Comes first where the conversation begins with an answer, as its beginning was left out.
const USER: ChatMessage<'static> = ChatMessage::Inserted { role: "user", content: "Go on." };

/// Arranges the messages as the roles say.
pub(super) fn arrange(messages: Vec<ChatMessage<'_>>, roles: Roles) -> Vec<ChatMessage<'_>> {
    if !roles.alternate && !roles.assistant_after_tool {
        return messages;
    }
    let mut arranged: Vec<ChatMessage<'_>> = Vec::with_capacity(messages.len() + 1);
    let mut has_begun = false;
    for message in messages {
        if roles.assistant_after_tool
            && is_user(&message)
            && matches!(arranged.last(), Some(ChatMessage::Tool { .. }))
        {
            arranged.push(ASSISTANT);
        }
        let message = match arranged.last_mut() {
            Some(last) if roles.alternate => join(last, message),
            _ => Some(message),
        };
        let Some(message) = message else { continue };
        if roles.alternate && !has_begun && matches!(message, ChatMessage::Assistant(_)) {
            arranged.push(USER);
        }
        has_begun |= is_user(&message) || !matches!(message, ChatMessage::Plain { .. });
        arranged.push(message);
    }
    arranged
}

/// Adds a message to the one before it if both are of the same side; gives it back otherwise.
fn join<'a>(last: &mut ChatMessage<'a>, message: ChatMessage<'a>) -> Option<ChatMessage<'a>> {
    match (last, message) {
        (
            ChatMessage::Plain { role: "user", content: before },
            ChatMessage::Plain { role: "user", content },
        ) => {
            join_contents(before, content);
            None
        }
        // The outputs of calls must follow them.
        (ChatMessage::Assistant(before), ChatMessage::Assistant(message)) if before.calls.is_empty() => {
            join_answers(before, message);
            None
        }
        (_, message) => Some(message),
    }
}

fn join_contents<'a>(before: &mut MessageContent<'a>, content: MessageContent<'a>) {
    match (&mut *before, content) {
        (MessageContent::Text(text), MessageContent::Text(more)) => join_texts(text, more),
        (_, content) => {
            let mut parts = parts_of(std::mem::replace(before, MessageContent::Parts(Vec::new())));
            parts.append(&mut parts_of(content));
            *before = MessageContent::Parts(parts);
        }
    }
}

fn parts_of(content: MessageContent<'_>) -> Vec<MessagePart<'_>> {
    match content {
        MessageContent::Parts(parts) => parts,
        MessageContent::Text(text) if text.is_empty() => Vec::new(),
        MessageContent::Text(text) => vec![MessagePart::Text { text }],
    }
}

fn join_answers<'a>(before: &mut Assistant<'a>, message: Assistant<'a>) {
    let Assistant { text, calls, reasoning } = message;
    join_texts(&mut before.text, text);
    before.calls = calls;
    before.reasoning.field = before.reasoning.field.or(reasoning.field);
    join_texts(&mut before.reasoning.text, reasoning.text);
    before.reasoning.fields.extend(reasoning.fields);
}

/// Texts with a blank line between them. In place: many are joined one after the other.
fn join_texts<'a>(before: &mut Cow<'a, str>, more: Cow<'a, str>) {
    if before.is_empty() {
        *before = more;
    } else if !more.is_empty() {
        let before = before.to_mut();
        before.push_str("\n\n");
        before.push_str(&more);
    }
}

fn is_user(message: &ChatMessage<'_>) -> bool {
    matches!(message, ChatMessage::Plain { role: "user", .. })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::message::{CallInput, MessageCall};
    use super::*;
    use antwort_config::{DeveloperRole, SystemPlacement};

    fn roles(alternate: bool, assistant_after_tool: bool) -> Roles {
        let (developer, system) = (DeveloperRole::System, SystemPlacement::Merge);
        Roles { developer, system, alternate, assistant_after_tool }
    }

    fn plain(role: &'static str, text: &'static str) -> ChatMessage<'static> {
        ChatMessage::Plain { role, content: MessageContent::Text(text.into()) }
    }

    fn said(text: &'static str, calls: usize) -> ChatMessage<'static> {
        let call = |_| MessageCall {
            id: "c".into(),
            name: "f".into(),
            input: CallInput::Json("{}".into()),
            fields: None,
        };
        let calls = (0..calls).map(call).collect();
        ChatMessage::Assistant(Assistant { text: text.into(), calls, ..Assistant::default() })
    }

    fn tool() -> ChatMessage<'static> {
        ChatMessage::Tool { role: "tool", tool_call_id: "c".into(), content: "out".into() }
    }

    fn parts() -> ChatMessage<'static> {
        let content = MessageContent::Parts(vec![MessagePart::Text { text: "part".into() }]);
        ChatMessage::Plain { role: "user", content }
    }

    /// Each message as `role text`.
    fn shown(messages: Vec<ChatMessage<'_>>, roles: Roles) -> Vec<String> {
        let arranged = serde_json::to_value(arrange(messages, roles)).unwrap();
        let text = |message: &Value| {
            let text = match &message["content"] {
                Value::Array(parts) => parts.iter().map(|part| format!("[{}]", part["text"])).collect(),
                text => text.to_string(),
            };
            format!("{} {text}", message["role"]).replace('"', "")
        };
        arranged.as_array().unwrap().iter().map(text).collect()
    }

    #[test]
    fn neighbours_of_one_side_become_one() {
        let both = roles(true, true);
        let rows: Vec<(Vec<ChatMessage<'_>>, Vec<&str>)> = vec![
            (
                vec![plain("system", "s"), plain("user", "a"), plain("user", "b")],
                vec!["system s", "user a\\n\\nb"],
            ),
            (vec![plain("user", ""), plain("user", "b"), plain("user", "")], vec!["user b"]),
            (vec![plain("user", "a"), parts(), plain("user", "b")], vec!["user [a][part][b]"]),
            (vec![plain("user", "a"), said("x", 0), said("y", 0)], vec!["user a", "assistant x\\n\\ny"]),
            // A call takes the text before it; nothing comes between a call and its output.
            (
                vec![plain("user", "a"), said("x", 0), said("", 1), tool(), said("y", 0)],
                vec!["user a", "assistant x", "tool out", "assistant y"],
            ),
            (
                vec![plain("user", "a"), said("", 1), tool(), parts(), plain("user", "b")],
                vec!["user a", "assistant null", "tool out", "assistant OK.", "user [part][b]"],
            ),
            (vec![plain("system", "s"), said("x", 0)], vec!["system s", "user Go on.", "assistant x"]),
            (vec![plain("system", "s")], vec!["system s"]),
        ];
        for (messages, expected) in rows {
            assert_eq!(shown(messages, both), expected);
        }
    }

    #[test]
    fn each_setting_does_its_own_and_nothing_else() {
        let messages =
            || vec![plain("user", "a"), said("", 1), tool(), plain("user", "b"), plain("user", "c")];
        let as_it_is = ["user a", "assistant null", "tool out", "user b", "user c"];
        assert_eq!(shown(messages(), roles(false, false)), as_it_is);
        let alternate = ["user a", "assistant null", "tool out", "user b\\n\\nc"];
        assert_eq!(shown(messages(), roles(true, false)), alternate);
        let after_tool = ["user a", "assistant null", "tool out", "assistant OK.", "user b", "user c"];
        assert_eq!(shown(messages(), roles(false, true)), after_tool);
        assert_eq!(shown(vec![said("x", 0)], roles(false, true)), ["assistant x"]);
    }
}
