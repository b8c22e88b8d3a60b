//! `input`, checked part by part.
//!
//! Checks here need nothing but the item itself. Whether calls and outputs pair and references can be resolved
//! depends on the stored conversation, and is checked by the engine.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::scalar::check_length;
use super::unserved::{self, UnservedField};
use crate::content::{ContentPart, InputAudio, InputFile, InputImage, InputVideo};
use crate::item::{InputItem, Item, Message, Role, ToolOutput};
use crate::parse::{self, FromJson, ParseError};

const MAX_TEXT_CHARS: usize = 10_485_760;
const MAX_IMAGE_URL_CHARS: usize = 20_971_520;
const MAX_FILE_CHARS: usize = 73_400_320;
pub(super) const MAX_CALL_ID_CHARS: usize = 64;
/// Items that one request stores in a conversation.
const MAX_STORED_ITEMS: usize = 20;
/// Of the sealed summary in a compaction item.
const MAX_SUMMARY_CHARS: usize = 10_485_760;

/// Parses a string, which is one user message, or a list of items. Fields of tools that have no effect are added to
/// `unserved`.
pub(super) fn read(raw: &RawValue, unserved: &mut Vec<UnservedField>) -> Result<Vec<InputItem>, ParseError> {
    match raw.get().as_bytes().first() {
        Some(b'"') => {
            let text: Cow<'_, str> = parse::read(raw)?;
            check_length("", &text, MAX_TEXT_CHARS)?;
            Ok(match text.is_empty() {
                true => Vec::new(),
                false => vec![InputItem::Item(Item::Message(Message::user(text)))],
            })
        }
        Some(b'[') => {
            let items = parse::elements(raw)?;
            let read = |(i, raw): (usize, &&RawValue)| {
                let item = read_item(raw).map_err(|e| e.at(i))?;
                note_unserved(&item, raw, ("input", i), unserved);
                Ok(item)
            };
            let items = items.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
            check_triggers(&items)?;
            Ok(items)
        }
        _ => {
            let got = parse::json_type(raw);
            Err(ParseError::wrong_type("", format!("expected a string or an array of items, got {got}.")))
        }
    }
}

/// Adds the fields without effect of the tools that an item declares.
fn note_unserved(
    item: &InputItem,
    raw: &RawValue,
    (list, i): (&str, usize),
    unserved: &mut Vec<UnservedField>,
) {
    #[derive(Deserialize)]
    struct Declaration<'a> {
        #[serde(borrow)]
        tools: &'a RawValue,
    }
    if let InputItem::Item(Item::AdditionalTools(_)) = item
        && let Ok(Declaration { tools }) = parse::read(raw)
    {
        unserved::in_tools(tools, &format!("{list}[{i}].tools"), unserved);
    }
}

/// Reads items that are stored in a conversation as they are.
pub(super) fn read_stored(
    raw: &RawValue,
    unserved: &mut Vec<UnservedField>,
) -> Result<Vec<Item>, ParseError> {
    let items = parse::elements_up_to(raw, MAX_STORED_ITEMS)?;
    let items = items.iter().enumerate().map(|(i, raw)| {
        let item = read_item(raw).map_err(|e| e.at(i))?;
        note_unserved(&item, raw, ("items", i), unserved);
        match item {
            InputItem::Item(Item::FunctionCallOutput(output)) if output.call_id.is_empty() => {
                Err(ParseError::missing("call_id").at(i))
            }
            InputItem::Item(item) => Ok(item),
            InputItem::Reference(_) => {
                let problem = "a reference cannot be stored in a conversation; send the item itself.";
                Err(ParseError::unsupported("type", problem).at(i))
            }
        }
    });
    let items = items.collect::<Result<Vec<_>, _>>()?;
    match items.iter().rposition(|item| matches!(item, Item::CompactionTrigger(_))) {
        Some(i) if !matches!(items.get(i + 1), Some(Item::Compaction(_))) => {
            let problem = "a compaction is asked for by the input of a response.";
            Err(ParseError::unsupported("type", problem).at(i))
        }
        _ => Ok(items),
    }
}

/// A trigger compacts everything before it: it may only be followed by its own compaction, in a conversation that is
/// replayed.
fn check_triggers(items: &[InputItem]) -> Result<(), ParseError> {
    let is_trigger = |item: &InputItem| matches!(item, InputItem::Item(Item::CompactionTrigger(_)));
    let misplaced = items.windows(2).position(
        |pair| matches!(pair, [a, b] if is_trigger(a) && !matches!(b, InputItem::Item(Item::Compaction(_)))),
    );
    match misplaced {
        Some(i) => Err(ParseError::invalid("type", "a 'compaction_trigger' must be the last item.").at(i)),
        None => Ok(()),
    }
}

fn read_item(raw: &RawValue) -> Result<InputItem, ParseError> {
    parse::check_cancelled()?;
    let mut item = InputItem::from_json(raw)?;
    if let InputItem::Item(Item::McpCall(call)) = &mut item {
        // Only the store has them: what a client writes there would be sent to the provider unchecked.
        call.files = Vec::new();
    }
    match &item {
        InputItem::Item(item) => check_item(item)?,
        InputItem::Reference(id) if id.as_str().is_empty() => {
            return Err(ParseError::invalid("id", "must not be empty."));
        }
        InputItem::Reference(_) => {}
    }
    Ok(item)
}

fn check_item(item: &Item) -> Result<(), ParseError> {
    if let Some(id) = call_id(item) {
        if id.is_empty() {
            return Err(
                ParseError::invalid("call_id", "must not be empty.").with_code("string_below_min_length")
            );
        }
        check_length("call_id", &id, MAX_CALL_ID_CHARS)?;
    }
    match item {
        Item::Message(message) => check_parts(&message.content, |part| check_role(message.role, part))
            .map_err(|e| e.within("content")),
        Item::Compaction(compaction) => {
            check_length("encrypted_content", &compaction.encrypted_content, MAX_SUMMARY_CHARS)
        }
        Item::FunctionCallOutput(output) => check_output(&output.output).map_err(|e| e.within("output")),
        Item::CustomToolCallOutput(output) => check_output(&output.output).map_err(|e| e.within("output")),
        Item::Opaque(item) if item.kind() == "computer_call_output" => {
            let picture = |name| item.text(&["output", name]);
            check_picture(picture("image_url").as_deref(), picture("file_id").as_deref())
                .map_err(|e| e.within("output"))
        }
        _ => Ok(()),
    }
}

/// The id by which a call and its output refer to each other.
fn call_id(item: &Item) -> Option<Cow<'_, str>> {
    match item {
        Item::FunctionCall(item) => Some(item.call_id.as_str().into()),
        // Without one, it is found by the name of its function.
        Item::FunctionCallOutput(item) if item.call_id.is_empty() && item.name.is_some() => None,
        Item::FunctionCallOutput(item) => Some(item.call_id.as_str().into()),
        Item::CustomToolCall(item) => Some(item.call_id.as_str().into()),
        Item::CustomToolCallOutput(item) => Some(item.call_id.as_str().into()),
        Item::Opaque(item) => item.text(&["call_id"]),
        _ => None,
    }
}

/// Checks the output of a call.
pub(super) fn check_output(output: &ToolOutput) -> Result<(), ParseError> {
    match output {
        ToolOutput::Text(text) => check_length("", text, MAX_TEXT_CHARS),
        ToolOutput::Parts(parts) => check_parts(parts, |part| match part {
            ContentPart::Refusal(_) => Err(misplaced("a tool's output holds no refusal.")),
            _ => Ok(()),
        }),
    }
}

fn check_parts(
    parts: &[ContentPart],
    allowed: impl Fn(&ContentPart) -> Result<(), ParseError>,
) -> Result<(), ParseError> {
    for (i, part) in parts.iter().enumerate() {
        allowed(part).and_then(|()| check_part(part)).map_err(|e| e.at(i))?;
    }
    Ok(())
}

/// Which content parts a role may have. Text parts of either direction are accepted everywhere: clients mix the names
/// up.
fn check_role(role: Role, part: &ContentPart) -> Result<(), ParseError> {
    use ContentPart::{InputText, OutputText, Refusal};
    match (role, part) {
        (_, InputText(_) | OutputText(_)) | (Role::Assistant, Refusal(_)) => Ok(()),
        (_, ContentPart::InputVideo(_)) => Err(misplaced("only a tool's output holds a video.")),
        (Role::User, Refusal(_)) => Err(misplaced("only an assistant's message holds a refusal.")),
        (Role::User, _) => Ok(()),
        (Role::Assistant, _) => {
            Err(misplaced("an assistant's message holds only 'output_text' and 'refusal' parts."))
        }
        (Role::System | Role::Developer, _) => {
            Err(misplaced("a system or developer message holds only 'input_text' parts."))
        }
    }
}

fn misplaced(problem: &str) -> ParseError {
    ParseError::invalid("type", problem)
}

fn check_part(part: &ContentPart) -> Result<(), ParseError> {
    match part {
        ContentPart::InputText(part) => check_length("text", &part.text, MAX_TEXT_CHARS),
        ContentPart::OutputText(part) => check_length("text", &part.text, MAX_TEXT_CHARS),
        ContentPart::Refusal(part) => check_length("refusal", &part.refusal, MAX_TEXT_CHARS),
        ContentPart::InputImage(InputImage { image_url, file_id, .. }) => {
            check_picture(image_url.as_deref(), file_id.as_deref())
        }
        ContentPart::InputFile(file) => check_file(file),
        ContentPart::InputVideo(InputVideo { video_url }) => {
            if !is_web_url(video_url) && !has_prefix(video_url, "data:video/") {
                let problem = "expected a URL that begins with 'https://', 'http://' or 'data:video/'.";
                return Err(ParseError::invalid("video_url", problem));
            }
            check_length("video_url", video_url, MAX_FILE_CHARS)
        }
        ContentPart::InputAudio(InputAudio { input_audio }) => match input_audio.format.as_str() {
            "mp3" | "wav" => Ok(()),
            _ => Err(ParseError::invalid("input_audio.format", "expected 'mp3' or 'wav'.")),
        },
    }
}

fn check_picture(image_url: Option<&str>, file_id: Option<&str>) -> Result<(), ParseError> {
    if file_id.is_some() {
        return Err(no_uploads("send the picture itself as a 'data:' URL in 'image_url'."));
    }
    let url = image_url.ok_or_else(|| ParseError::missing("image_url"))?;
    if !is_web_url(url) && !has_prefix(url, "data:image/") {
        let problem = "expected a URL that begins with 'https://', 'http://' or 'data:image/'.";
        return Err(ParseError::invalid("image_url", problem));
    }
    check_length("image_url", url, MAX_IMAGE_URL_CHARS)
}

fn check_file(file: &InputFile) -> Result<(), ParseError> {
    let given = [&file.file_data, &file.file_url, &file.file_id];
    match given.iter().filter(|source| source.is_some()).count() {
        0 => return Err(ParseError::missing("file_data")),
        1 => {}
        _ => {
            let problem = "give only one of 'file_data', 'file_url' and 'file_id'.";
            return Err(ParseError::invalid("", problem).with_code("mutually_exclusive_parameters"));
        }
    }
    if file.file_id.is_some() {
        return Err(no_uploads("send the document itself in 'file_data'."));
    }
    if file.file_url.as_deref().is_some_and(|url| !is_web_url(url)) {
        let problem = "expected a URL that begins with 'https://' or 'http://'.";
        return Err(ParseError::invalid("file_url", problem));
    }
    if file.file_url.is_some() {
        let problem = "chat completions take no URLs of files; send the document itself in 'file_data'.";
        return Err(ParseError::unsupported("file_url", problem));
    }
    match file.file_data.as_deref() {
        Some("") => Err(ParseError::invalid("file_data", "must not be empty.")),
        Some(data) => check_length("file_data", data, MAX_FILE_CHARS),
        None => Ok(()),
    }
}

fn no_uploads(instead: &str) -> ParseError {
    ParseError::unsupported("file_id", format!("uploaded files are not supported yet; {instead}"))
}

fn is_web_url(url: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| has_prefix(url, scheme) && url.len() > scheme.len())
}

/// Schemes are the same in upper and lower case.
fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
