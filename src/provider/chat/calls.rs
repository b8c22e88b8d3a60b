//! Puts streamed pieces of tool calls together.
//!
//! Chat completions say which call a piece belongs to by `index`, and name id and function in its first
//! piece. Servers differ: the index is missing, always 0, wrong, or new for the tail of an open call; ids
//! come late, once, or with every piece; names come twice or in fragments. A piece is placed by its id
//! first, then by its index, then with the call that is open; what shows that an earlier call is whole
//! begins a new one.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::reasoning::max_parsed_size;
use super::wire::{CallPiece, FunctionPiece};
use crate::provider::errors::{ProviderError, ProviderErrorKind};
use crate::response::json_scanner::JsonScanner;
use crate::response::turn::{CallKind, ModelEvent, ModelTool, ProviderFields};

/// Calls in one turn. No model asks for as many; a server that is out of its mind might.
const MAX_CALLS: usize = 1024;

/// Indices under which their pieces come.
const MAX_INDICES: usize = 4 * MAX_CALLS;

const EMPTY_OBJECT: &str = "{}";

/// The calls of one turn.
#[derive(Debug)]
pub(super) struct CallAssembler {
    tools: Arc<[Arc<ModelTool>]>,
    calls: Vec<Call>,
    /// Which call a piece with this index last went to.
    by_index: HashMap<i64, usize>,
    open: Option<usize>,
    started: u32,
    /// What has come that is kept here, in bytes.
    kept_bytes: usize,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// Pieces of it came with an index.
    indexed: bool,
    /// Set once the call was announced.
    slot: Option<u32>,
    /// Whether its arguments are a custom tool's input: `None` until it is announced.
    custom: Option<bool>,
    /// The provider knows custom tools: the input comes as it is, not wrapped in JSON.
    raw: bool,
    /// Arguments that were not handed over: the name is not known yet, they are a custom tool's, or they
    /// are an empty object that may be a placeholder.
    buffered: String,
    extent: JsonScanner,
    /// A custom tool's input was handed over.
    delivered: bool,
    /// What the provider sent with it and wants back: Gemini's thought signature.
    fields: Option<Box<ProviderFields>>,
}

/// A piece, with the ways of servers to write it smoothed out.
struct NormalizedDelta<'a> {
    index: Option<i64>,
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
    raw: bool,
    extra: Option<&'a RawValue>,
}

impl CallAssembler {
    pub(super) fn new(tools: Arc<[Arc<ModelTool>]>) -> Self {
        Self { tools, calls: Vec::new(), by_index: HashMap::new(), open: None, started: 0, kept_bytes: 0 }
    }

    /// Whether any call has begun.
    pub(super) fn any(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Bytes of what is kept of the calls, though it may have been handed over by now.
    pub(super) fn held_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Takes in a piece of a call; `position` is its place in a list of several.
    pub(super) fn push(
        &mut self,
        piece: &CallPiece<'_>,
        position: Option<usize>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        self.take(&NormalizedDelta::new(piece, position), out)
    }

    /// Takes in a piece of the single call of servers from before `tool_calls`.
    pub(super) fn push_legacy(
        &mut self,
        piece: &FunctionPiece<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let (name, arguments) = (piece.name.as_str(), piece.arguments.0.as_ref());
        self.take(&NormalizedDelta { index: Some(0), id: "", name, arguments, raw: false, extra: None }, out)
    }

    /// Hands over what was held back, as the answer is over; `cut` says that the token limit ended it.
    pub(super) fn finish(&mut self, cut: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        for place in 0..self.calls.len() {
            self.start(place, true, out);
            self.flush(place, out);
        }
        if cut || self.calls.iter().all(|call| call.slot.is_some()) {
            return Ok(());
        }
        Err(ProviderError::new(
            ProviderErrorKind::Malformed,
            "The model provider sent a tool call without a name.",
        ))
    }

    fn take(&mut self, piece: &NormalizedDelta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if !piece.is_head() && piece.arguments.is_empty() {
            self.sign(piece, out);
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
            self.kept_bytes += call.merge(piece);
            self.kept_bytes += call.sign(piece, out);
        }
        self.start(place, false, out);
        self.append(place, piece, out);
        Ok(())
    }

    /// Takes in what comes with a call that has begun, without more of the call.
    fn sign(&mut self, piece: &NormalizedDelta<'_>, out: &mut Vec<ModelEvent>) {
        let place = piece.index.and_then(|index| self.by_index.get(&index).copied()).or(self.open);
        if let Some(call) = place.and_then(|place| self.calls.get_mut(place)) {
            self.kept_bytes += call.sign(piece, out);
        }
    }

    /// The call that a piece belongs to; a new one if it begins one.
    fn place(&mut self, piece: &NormalizedDelta<'_>) -> usize {
        let by_id = self.calls.iter().rposition(|call| !piece.id.is_empty() && call.id == piece.id);
        let found = match (by_id, piece.index) {
            (Some(place), _) if self.is_double(place, piece) => None,
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

    /// Whether a piece whose id is known is another call all the same: under an index of its own, with a name.
    fn is_double(&self, place: usize, piece: &NormalizedDelta<'_>) -> bool {
        let elsewhere = piece.index.is_some_and(|index| self.by_index.get(&index) != Some(&place));
        elsewhere && !piece.name.is_empty() && self.calls.get(place).is_some_and(|call| call.indexed)
    }

    /// Under a new index, a piece without id and name is the tail of the open call, unless that is whole.
    fn open_for_tail(&self, piece: &NormalizedDelta<'_>) -> Option<usize> {
        let open = self.open.filter(|_| !piece.is_head())?;
        self.calls.get(open).filter(|call| call.extent != JsonScanner::Complete).map(|_| open)
    }

    /// Announces a call once its name is known. `over`: nothing more will come.
    fn start(&mut self, place: usize, over: bool, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(place).filter(|call| call.slot.is_none()) else { return };
        let tool = tool_named(&call.name, &self.tools);
        // What only begins like a tool's name may be a fragment of it, as long as no arguments follow.
        let fragment =
            tool.is_none() && call.extent == JsonScanner::Empty && begins_a_name(&call.name, &self.tools);
        if call.name.is_empty() || fragment && !over {
            return;
        }
        // What the tool was declared as goes before what the provider takes it for.
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

    /// Adds arguments to a call, and hands over what need not be held back.
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
                self.kept_bytes += piece.arguments.len();
                let whole =
                    !call.raw && call.extent == JsonScanner::Complete && call.buffered.trim() != EMPTY_OBJECT;
                if custom == Some(true) && whole {
                    self.flush(place, out);
                }
            }
        }
    }

    /// Hands over what is held back of a call.
    fn flush(&mut self, place: usize, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(place) else { return };
        let (Some(slot), Some(custom)) = (call.slot, call.custom) else { return };
        let held = std::mem::take(&mut call.buffered);
        let delta = match custom {
            true if call.delivered => return,
            true if call.raw => held,
            true => input_of(held),
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
        // Without an index, the place among several is the best there is.
        let position = position.and_then(|position| i64::try_from(position).ok());
        Self {
            index: piece.index.0.or(position),
            id: piece.id.as_str(),
            name: name.trim(),
            arguments,
            raw,
            extra: piece.extra_content,
        }
    }

    fn is_head(&self) -> bool {
        !self.id.is_empty() || !self.name.is_empty()
    }
}

impl Call {
    /// Whether the piece, though placed here by its id, its index or its turn, must belong to a later call.
    fn is_before(&self, piece: &NormalizedDelta<'_>, tools: &[Arc<ModelTool>]) -> bool {
        let same_id = !piece.id.is_empty() && self.id == piece.id;
        if !same_id && !piece.id.is_empty() && !self.id.is_empty() {
            return true;
        }
        if piece.name.is_empty() || self.name.is_empty() {
            return false;
        }
        if same_id || self.name == piece.name {
            // The same name again is a repetition until the arguments show that the call was whole.
            return self.extent == JsonScanner::Complete && !piece.arguments.trim().is_empty();
        }
        !(self.slot.is_none() && is_fragment(&format!("{}{}", self.name, piece.name), tools))
    }

    /// Keeps what came with a piece, and says how many bytes of it; what comes behind the beginning of the call is
    /// handed over at once.
    fn sign(&mut self, piece: &NormalizedDelta<'_>, out: &mut Vec<ModelEvent>) -> usize {
        const EXTRA: &str = "extra_content";
        let extra = piece.extra.and_then(|extra| serde_json::from_str::<Value>(extra.get()).ok());
        let Some(extra) = extra.filter(|extra| !extra.is_null()) else { return 0 };
        let fields = self.fields.get_or_insert_default();
        if fields.get(EXTRA) == Some(&extra) {
            return 0;
        }
        fields.insert(EXTRA.to_owned(), extra);
        if let Some(slot) = self.slot {
            out.push(ModelEvent::CallState { slot, fields: fields.clone() });
        }
        piece.extra.map_or(0, max_parsed_size)
    }

    /// Keeps what a piece says of its call, and says how many bytes of it.
    fn merge(&mut self, piece: &NormalizedDelta<'_>) -> usize {
        let known = self.id.len() + self.name.len();
        self.indexed |= piece.index.is_some();
        self.raw |= piece.raw;
        if self.id.is_empty() {
            piece.id.clone_into(&mut self.id);
        }
        if self.name.is_empty()
            || self.slot.is_none() && self.extent == JsonScanner::Empty && self.name != piece.name
        {
            self.name.push_str(piece.name);
        }
        if self.buffered.trim() == EMPTY_OBJECT && !piece.arguments.trim().is_empty() {
            // It held the place of the arguments that come now.
            self.buffered.clear();
            self.extent = JsonScanner::Empty;
        }
        self.extent.advance(piece.arguments);
        (self.id.len() + self.name.len()).saturating_sub(known)
    }
}

fn is_fragment(name: &str, tools: &[Arc<ModelTool>]) -> bool {
    begins_a_name(name, tools) || tools.iter().any(|tool| tool.wire_name == name)
}

fn begins_a_name(start: &str, tools: &[Arc<ModelTool>]) -> bool {
    tools.iter().any(|tool| tool.wire_name.len() > start.len() && tool.wire_name.starts_with(start))
}

/// The tool that a model means. Harmony models prefix names with `functions.`.
fn tool_named<'a>(name: &str, tools: &'a [Arc<ModelTool>]) -> Option<&'a ModelTool> {
    let named = |name: &str| tools.iter().find(|tool| tool.wire_name == name).map(Arc::as_ref);
    named(name).or_else(|| named(name.strip_prefix("functions.")?))
}

/// The text in `{"input": "…"}`, in which free text comes from providers that know functions only. A
/// model may ignore the wrapping and write the text itself.
fn input_of(arguments: String) -> String {
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
