//! Assembles tool calls from streamed deltas.
//!
//! In chat completions, `index` assigns a delta to its call, and the first delta of a call has its id and name. Servers
//! deviate: the index is missing, always 0, wrong, or new for the tail of an open call; ids come late, once, or with every
//! delta; names come twice or in fragments. A delta is assigned by its id first, then by its index, then to the open call;
//! one that shows that the earlier call is complete begins a new call.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::message::FUNCTION;
use super::reasoning::max_parsed_size;
use super::specific_fields::{SPECIFIC, is_silent};
use super::wire::{CallPiece, FunctionPiece};
use crate::errors::{ProviderError, ProviderErrorKind};
use antwort_response::json_scanner::JsonScanner;
use antwort_response::turn::{CallKind, ModelEvent, ModelTool, ProviderFields};

/// Maximum number of calls in one turn, as a bound against misbehaving servers.
const MAX_CALLS: usize = 1024;

/// Maximum number of distinct `index` values.
const MAX_INDICES: usize = 4 * MAX_CALLS;

const EMPTY_OBJECT: &str = "{}";
/// The field of Gemini's thought signatures.
const EXTRA: &str = "extra_content";

/// The calls of one turn.
#[derive(Debug)]
pub(super) struct CallAssembler {
    tools: Arc<[Arc<ModelTool>]>,
    calls: Vec<Call>,
    /// The call to which the last delta with an index was assigned.
    by_index: HashMap<i64, usize>,
    open: Option<usize>,
    started: u32,
    /// Bytes that are buffered here.
    held_bytes: usize,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// Deltas of it came with an index.
    indexed: bool,
    /// Set once `CallStarted` was emitted.
    slot: Option<u32>,
    /// Whether its arguments are a custom tool's input; `None` until `CallStarted` was emitted.
    custom: Option<bool>,
    /// The provider supports custom tools: the input is plain text, not wrapped in JSON.
    raw: bool,
    /// Arguments that were not emitted yet: the name is not known, they are a custom tool's input, or they are an empty
    /// object that may be a placeholder.
    buffered: String,
    extent: JsonScanner,
    /// A custom tool's input was emitted.
    delivered: bool,
    /// Fields that must be sent back to the provider, such as Gemini's thought signature.
    fields: Option<Box<ProviderFields>>,
}

/// A delta of a call, independent of how the server writes it.
struct NormalizedDelta<'a> {
    index: Option<i64>,
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
    raw: bool,
    extra: ExtraFields<'a>,
}

/// Fields that must be sent back to the provider.
#[derive(Default, Clone, Copy)]
struct ExtraFields<'a> {
    extra_content: Option<&'a RawValue>,
    specific: Option<&'a RawValue>,
    /// Of the function.
    of_function: Option<&'a RawValue>,
}

impl CallAssembler {
    pub(super) fn new(tools: Arc<[Arc<ModelTool>]>) -> Self {
        Self { tools, calls: Vec::new(), by_index: HashMap::new(), open: None, started: 0, held_bytes: 0 }
    }

    /// Whether there is any call.
    pub(super) fn any(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Bytes that were buffered, including ones that were emitted since.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Processes a delta of a call; `position` is its position in a list of several.
    pub(super) fn push(
        &mut self,
        piece: &CallPiece<'_>,
        position: Option<usize>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        self.push_normalized(&NormalizedDelta::new(piece, position), out)
    }

    /// Processes a delta of the legacy `function_call`.
    pub(super) fn push_legacy(
        &mut self,
        piece: &FunctionPiece<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let (name, arguments) = (piece.name.as_str(), piece.arguments.0.as_ref());
        self.push_normalized(
            &NormalizedDelta {
                index: Some(0),
                id: "",
                name,
                arguments,
                raw: false,
                extra: ExtraFields::default(),
            },
            out,
        )
    }

    /// Emits buffered arguments at the end of the answer. `truncated`: the token limit ended it.
    pub(super) fn finish(&mut self, truncated: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        for place in 0..self.calls.len() {
            self.start(place, true, out);
            self.flush(place, out);
        }
        if truncated || self.calls.iter().all(|call| call.slot.is_some()) {
            return Ok(());
        }
        Err(ProviderError::new(
            ProviderErrorKind::Malformed,
            "The model provider sent a tool call without a name.",
        ))
    }

    fn push_normalized(
        &mut self,
        piece: &NormalizedDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if !piece.is_head() && piece.arguments.is_empty() {
            self.push_extra(piece, out);
            return Ok(());
        }
        let place = self.place(piece);
        let indices = self.by_index.len();
        if place >= MAX_CALLS || indices >= MAX_INDICES {
            return Err(ProviderError::new(
                ProviderErrorKind::Malformed,
                "The model provider sent too many tool calls.",
            ));
        }
        if let Some(before) = self.open.replace(place).filter(|before| *before != place) {
            self.flush(before, out);
        }
        if let Some(index) = piece.index {
            self.by_index.insert(index, place);
        }
        if let Some(call) = self.calls.get_mut(place) {
            self.held_bytes += call.merge(piece, out);
            self.held_bytes += call.merge_extra(piece, out);
        }
        self.start(place, false, out);
        self.append(place, piece, out);
        Ok(())
    }

    /// Processes the extra content of a delta that has nothing else.
    fn push_extra(&mut self, piece: &NormalizedDelta<'_>, out: &mut Vec<ModelEvent>) {
        let place = piece.index.and_then(|index| self.by_index.get(&index).copied()).or(self.open);
        if let Some(call) = place.and_then(|place| self.calls.get_mut(place)) {
            self.held_bytes += call.merge_extra(piece, out);
        }
    }

    /// The call to which a delta belongs; a new one if it begins one.
    fn place(&mut self, piece: &NormalizedDelta<'_>) -> usize {
        let by_id = self.calls.iter().rposition(|call| !piece.id.is_empty() && call.id == piece.id);
        let found = match (by_id, piece.index) {
            (Some(place), _) if self.is_duplicate_id(place, piece) => None,
            (Some(place), _) => Some(place),
            (None, Some(index)) => self.by_index.get(&index).copied().or_else(|| self.open_for_tail(piece)),
            (None, None) => self.open,
        };
        let found = found
            .filter(|place| self.calls.get(*place).is_some_and(|call| !call.is_before(piece, &self.tools)));
        found.unwrap_or_else(|| {
            self.calls.push(Call::default());
            self.calls.len() - 1
        })
    }

    /// Whether a delta with a known id is another call all the same: it has a new index and a name.
    fn is_duplicate_id(&self, place: usize, piece: &NormalizedDelta<'_>) -> bool {
        let elsewhere = piece.index.is_some_and(|index| self.by_index.get(&index) != Some(&place));
        elsewhere && !piece.name.is_empty() && self.calls.get(place).is_some_and(|call| call.indexed)
    }

    /// A delta with a new index but no id and name is the tail of the open call, unless that is complete.
    fn open_for_tail(&self, piece: &NormalizedDelta<'_>) -> Option<usize> {
        let open = self.open.filter(|_| !piece.is_head())?;
        self.calls.get(open).filter(|call| call.extent != JsonScanner::Complete).map(|_| open)
    }

    /// Emits `CallStarted` once the call's name is known. `over`: the answer has ended.
    fn start(&mut self, place: usize, over: bool, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(place).filter(|call| call.slot.is_none()) else { return };
        let tool = tool_named(&call.name, &self.tools);
        // A prefix of a tool's name may be a fragment of it, as long as no arguments follow.
        let fragment =
            tool.is_none() && call.extent == JsonScanner::Empty && is_name_prefix(&call.name, &self.tools);
        if call.name.is_empty() || fragment && !over {
            return;
        }
        // The declared kind of the tool takes precedence over the kind that the provider sent.
        let (kind, name, namespace) = match tool {
            Some(tool) => (tool.kind, tool.name.as_str().to_owned(), tool.namespace.clone()),
            None if call.raw => (CallKind::Custom, call.name.clone(), None),
            None => (CallKind::Function, call.name.clone(), None),
        };
        let slot = self.started;
        self.started += 1;
        call.slot = Some(slot);
        call.custom = Some(kind == CallKind::Custom);
        let call_id = Some(call.id.clone()).filter(|id| !id.is_empty());
        let fields = call.fields.clone();
        out.push(ModelEvent::CallStarted { slot, kind, call_id, name, namespace, fields });
    }

    /// Adds arguments to a call, and emits what need not be buffered.
    fn append(&mut self, place: usize, piece: &NormalizedDelta<'_>, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(place) else { return };
        match (call.slot, call.custom) {
            (Some(slot), Some(false)) => {
                let mut delta = std::mem::take(&mut call.buffered);
                delta.push_str(piece.arguments);
                if delta.trim() == EMPTY_OBJECT {
                    call.buffered = delta;
                } else if !delta.is_empty() {
                    out.push(ModelEvent::CallDelta { slot, delta });
                }
            }
            (_, custom) => {
                call.buffered.push_str(piece.arguments);
                self.held_bytes += piece.arguments.len();
                let whole =
                    !call.raw && call.extent == JsonScanner::Complete && call.buffered.trim() != EMPTY_OBJECT;
                if custom == Some(true) && whole {
                    self.flush(place, out);
                }
            }
        }
    }

    /// Emits the buffered arguments of a call.
    fn flush(&mut self, place: usize, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(place) else { return };
        let (Some(slot), Some(custom)) = (call.slot, call.custom) else { return };
        let held = std::mem::take(&mut call.buffered);
        let delta = match custom {
            true if call.delivered => return,
            true if call.raw => held,
            true => unwrap_input(held),
            false => held,
        };
        if !delta.is_empty() {
            call.delivered = true;
            out.push(ModelEvent::CallDelta { slot, delta });
        }
    }
}

impl<'a> NormalizedDelta<'a> {
    fn new(piece: &'a CallPiece<'a>, position: Option<usize>) -> Self {
        let (name, arguments, raw) = match (&piece.function, &piece.custom) {
            (Some(function), _) => (function.name.as_str(), function.arguments.0.as_ref(), false),
            (None, Some(custom)) => (custom.name.as_str(), custom.input.as_str(), true),
            (None, None) => ("", "", false),
        };
        // Without an index, the position in the list is used.
        let position = position.and_then(|position| i64::try_from(position).ok());
        Self {
            index: piece.index.0.or(position),
            id: piece.id.as_str(),
            name: name.trim(),
            arguments,
            raw,
            extra: ExtraFields {
                extra_content: piece.extra_content,
                specific: piece.provider_specific_fields,
                of_function: piece.function.as_ref().and_then(|function| function.provider_specific_fields),
            },
        }
    }

    fn is_head(&self) -> bool {
        !self.id.is_empty() || !self.name.is_empty()
    }
}

impl Call {
    /// Whether a delta that was assigned to this call must begin a later one.
    fn is_before(&self, piece: &NormalizedDelta<'_>, tools: &[Arc<ModelTool>]) -> bool {
        let same_id = !piece.id.is_empty() && self.id == piece.id;
        if !same_id && !piece.id.is_empty() && !self.id.is_empty() {
            return true;
        }
        if piece.name.is_empty() || self.name.is_empty() {
            return false;
        }
        if same_id || self.name == piece.name {
            // A repeated name does not begin a call until the arguments show that this one is complete.
            return self.extent == JsonScanner::Complete && !piece.arguments.trim().is_empty();
        }
        !(self.slot.is_none() && is_fragment(&format!("{}{}", self.name, piece.name), tools))
    }

    /// Stores the extra fields of a delta and returns their bytes; emits them if the call has started already.
    fn merge_extra(&mut self, piece: &NormalizedDelta<'_>, out: &mut Vec<ModelEvent>) -> usize {
        let ExtraFields { extra_content, specific, of_function } = piece.extra;
        let of_call = self.keep(extra_content, false, EXTRA) + self.keep(specific, false, SPECIFIC);
        let held = of_call + self.keep(of_function, true, SPECIFIC);
        if let (1.., Some(slot), Some(fields)) = (held, self.slot, &self.fields) {
            out.push(ModelEvent::CallState { slot, fields: fields.clone() });
        }
        held
    }

    /// Keeps a field of the call or of its function, and returns how many bytes are held of it: none if it says nothing or
    /// what is known.
    fn keep(&mut self, raw: Option<&RawValue>, of_function: bool, name: &str) -> usize {
        let Some(raw) = raw else { return 0 };
        let value = serde_json::from_str::<Value>(raw.get()).ok();
        let Some(value) = value.filter(|value| !is_silent(value)) else { return 0 };
        let mut fields = &mut **self.fields.get_or_insert_default();
        if of_function {
            let function = fields.entry(FUNCTION).or_insert_with(|| ProviderFields::new().into());
            let Value::Object(of_function) = function else { return 0 };
            fields = of_function;
        }
        if fields.get(name) == Some(&value) {
            return 0;
        }
        fields.insert(name.to_owned(), value);
        max_parsed_size(raw)
    }

    /// Merges a delta's id, name and arguments; returns how many bytes are held of them. An id that comes after the call
    /// has started is emitted.
    fn merge(&mut self, piece: &NormalizedDelta<'_>, out: &mut Vec<ModelEvent>) -> usize {
        let known = self.id.len() + self.name.len();
        self.indexed |= piece.index.is_some();
        self.raw |= piece.raw;
        if self.id.is_empty() && !piece.id.is_empty() {
            piece.id.clone_into(&mut self.id);
            if let Some(slot) = self.slot {
                out.push(ModelEvent::CallId { slot, call_id: self.id.clone() });
            }
        }
        if self.name.is_empty()
            || self.slot.is_none() && self.extent == JsonScanner::Empty && self.name != piece.name
        {
            self.name.push_str(piece.name);
        }
        if self.buffered.trim() == EMPTY_OBJECT && !piece.arguments.trim().is_empty() {
            // It was a placeholder for these arguments.
            self.buffered.clear();
            self.extent = JsonScanner::Empty;
        }
        self.extent.advance(piece.arguments);
        (self.id.len() + self.name.len()).saturating_sub(known)
    }
}

fn is_fragment(name: &str, tools: &[Arc<ModelTool>]) -> bool {
    is_name_prefix(name, tools) || tools.iter().any(|tool| tool.wire_name == name)
}

fn is_name_prefix(start: &str, tools: &[Arc<ModelTool>]) -> bool {
    tools.iter().any(|tool| tool.wire_name.len() > start.len() && tool.wire_name.starts_with(start))
}

/// The tool of this name. Harmony models prefix names with `functions.`.
fn tool_named<'a>(name: &str, tools: &'a [Arc<ModelTool>]) -> Option<&'a ModelTool> {
    let named = |name: &str| tools.iter().find(|tool| tool.wire_name == name).map(Arc::as_ref);
    named(name).or_else(|| named(name.strip_prefix("functions.")?))
}

/// The text in `{"input": "…"}`, the form of a custom tool's input for providers that only know functions. A model may
/// ignore the wrapper and write the text itself.
fn unwrap_input(arguments: String) -> String {
    #[derive(Deserialize)]
    struct Wrapped {
        input: String,
    }
    match serde_json::from_str(&arguments) {
        Ok(Wrapped { input }) => input,
        Err(_) if arguments.trim() == EMPTY_OBJECT => String::new(),
        Err(_) => arguments,
    }
}
