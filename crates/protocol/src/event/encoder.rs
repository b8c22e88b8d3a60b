//! Encodes events: once, straight into the buffer that is sent to the client.

use std::borrow::Cow;

use serde::Serialize;

use super::delta::Delta;
use super::{ResponseEvent, StreamEvent};
use crate::dialect::Dialect;
use crate::error::ErrorBody;
use crate::json;

/// How the events of one stream are encoded.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventEncoder {
    /// The dialect of the events' names.
    pub dialect: Dialect,
    /// Whether deltas are padded to hide their length (`stream_options.include_obfuscation`).
    pub obfuscate: bool,
}

impl EventEncoder {
    /// Appends the event's JSON, on one line.
    pub fn write_json(self, event: &StreamEvent, out: &mut Vec<u8>) {
        if let ResponseEvent::A2aInputRequired(call) = &event.event {
            // Data of another protocol, which has no place for the number.
            return out.extend_from_slice(json::to_text(call).as_bytes());
        }
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event.event.name(self.dialect).as_bytes());
        out.extend_from_slice(b"\",\"sequence_number\":");
        let written = serde_json::to_writer(&mut *out, &event.sequence_number);
        if matches!(event.event, ResponseEvent::Keepalive {}) {
            // It has no fields of its own.
            out.push(b'}');
            return;
        }
        let fields = out.len();
        if written.and_then(|()| self.write_fields(&event.event, out)).is_err() {
            // Writing to memory cannot fail, and neither can these types; see `json::to_text`.
            out.truncate(fields);
            out.push(b'}');
            return;
        }
        // The fields were written as an object of their own: its opening brace becomes the comma.
        if let Some(brace) = out.get_mut(fields) {
            *brace = b',';
        }
        if self.obfuscate && event.event.is_delta() {
            out.pop();
            out.extend_from_slice(b",\"obfuscation\":\"");
            out.extend_from_slice(padding(out.len() - fields).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }

    /// The event's JSON, on one line.
    pub fn to_json(self, event: &StreamEvent) -> String {
        let mut bytes = Vec::with_capacity(256);
        self.write_json(event, &mut bytes);
        // What is written as JSON is UTF-8.
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Appends the event's own fields, as an object.
    fn write_fields(self, event: &ResponseEvent, out: &mut Vec<u8>) -> serde_json::Result<()> {
        #[derive(Serialize)]
        struct Placed<T> {
            output_index: u32,
            item: T,
        }
        #[derive(Serialize)]
        struct FlatError<'a> {
            code: &'a Option<Cow<'static, str>>,
            message: &'a str,
            param: &'a Option<String>,
            error: &'a ErrorBody,
        }
        if let Some(delta) = Delta::of(event) {
            return delta.write(out);
        }
        if let Some(response) = event.response() {
            out.extend_from_slice(b"{\"response\":");
            out.extend_from_slice(response.json().as_bytes());
            out.push(b'}');
            return Ok(());
        }
        match event {
            ResponseEvent::OutputItemAdded { output_index, item } => {
                let item = item.in_dialect(self.dialect, true);
                serde_json::to_writer(out, &Placed { output_index: *output_index, item })
            }
            ResponseEvent::OutputItemDone { output_index, item } => {
                let item = item.in_dialect(self.dialect, false);
                serde_json::to_writer(out, &Placed { output_index: *output_index, item })
            }
            ResponseEvent::Error { error } if self.dialect.has_flat_error_fields() => {
                let ErrorBody { message, param, code, .. } = error;
                serde_json::to_writer(out, &FlatError { code, message, param, error })
            }
            event => serde_json::to_writer(out, event),
        }
    }

    /// Appends the event as a server-sent event.
    pub fn write_sse(self, event: &StreamEvent, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(event.event.name(self.dialect).as_bytes());
        if let ResponseEvent::A2aInputRequired(_) = event.event {
            out.extend_from_slice(format!("\nid: {}", event.sequence_number).as_bytes());
        }
        out.extend_from_slice(b"\ndata: ");
        self.write_json(event, out);
        out.extend_from_slice(b"\n\n");
    }
}

/// Pads the event's fields to a multiple of 64 bytes, so that their length tells little.
fn padding(length: usize) -> &'static str {
    const FILL: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    FILL.get(..64 - length % 64).unwrap_or(FILL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_object_with_type_and_number_first() {
        let event = StreamEvent {
            sequence_number: 7,
            event: ResponseEvent::ReasoningTextDelta {
                item_id: "rs_1".into(),
                output_index: 0,
                content_index: 0,
                delta: "a\nb".into(),
            },
        };
        let mut out = Vec::new();
        EventEncoder { dialect: Dialect::OpenResponses, obfuscate: false }.write_sse(&event, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "event: response.reasoning.delta\ndata: {\"type\":\"response.reasoning.delta\",\"sequence_number\":7,\
             \"item_id\":\"rs_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"a\\nb\"}\n\n"
        );
    }

    #[test]
    fn an_event_without_fields_is_whole() {
        let event = StreamEvent { sequence_number: 7, event: ResponseEvent::Keepalive {} };
        let encoding = EventEncoder { obfuscate: true, ..EventEncoder::default() };
        assert_eq!(encoding.to_json(&event), r#"{"type":"keepalive","sequence_number":7}"#);
    }

    #[test]
    fn obfuscation_pads_deltas_only() {
        let mut out = Vec::new();
        let delta =
            ResponseEvent::CustomInputDelta { item_id: "c".into(), output_index: 0, delta: "x".into() };
        let encoding = EventEncoder { obfuscate: true, ..EventEncoder::default() };
        encoding.write_json(&StreamEvent { sequence_number: 0, event: delta }, &mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(!value["obfuscation"].as_str().unwrap().is_empty());
        out.clear();
        let done = ResponseEvent::CustomInputDone { item_id: "c".into(), output_index: 0, input: "x".into() };
        encoding.write_json(&StreamEvent { sequence_number: 1, event: done }, &mut out);
        assert!(!String::from_utf8(out).unwrap().contains("obfuscation"));
    }
}
