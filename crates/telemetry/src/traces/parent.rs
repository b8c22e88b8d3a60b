//! The header `traceparent` of W3C Trace Context: <https://www.w3.org/TR/trace-context/#traceparent-header>.
//!
//! The SDK's `TraceContextPropagator` accepts what the standard calls invalid: ids that are too short or have a sign, and
//! flags of one digit. Such an id would join a trace that nobody sent. So the shape is checked here, and the
//! SDK reads the numbers.

use std::fmt;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Where in which trace a request comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceParent(pub(super) SpanContext);

impl TraceParent {
    /// Reads the header; `None` if it is not valid, which the standard wants treated as absent.
    pub fn parse(header: &str) -> Option<Self> {
        // version "-" trace id "-" span id "-" flags, then what later versions append
        let (fields, rest) = header.trim_ascii().split_at_checked(55)?;
        let is_shaped = fields.bytes().enumerate().all(|(at, byte)| match at {
            2 | 35 | 52 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
        let is_allowed = match fields.get(..2)? {
            "00" => rest.is_empty(),
            "ff" => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let trace_id = TraceId::from_hex(fields.get(3..35)?).ok()?;
        let span_id = SpanId::from_hex(fields.get(36..52)?).ok()?;
        // Only the flags that this version knows may be sent on.
        let flags = TraceFlags::new(u8::from_str_radix(fields.get(53..)?, 16).ok()? & 0b11);
        let context = SpanContext::new(trace_id, span_id, flags, true, TraceState::NONE);
        (is_shaped && is_allowed && context.is_valid()).then_some(Self(context))
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, span_id) = (self.0.trace_id(), self.0.span_id());
        write!(f, "00-{trace_id}-{span_id}-{:02x}", self.0.trace_flags().to_u8() & 0b11)
    }
}

#[cfg(test)]
mod tests {
    use super::TraceParent;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_read_is_written() {
        let parent = TraceParent::parse(VALID).expect("valid");
        assert_eq!((parent.0.trace_id().to_bytes()[0], parent.0.span_id().to_bytes()[0]), (0x0a, 0xb7));
        assert!(parent.0.is_sampled() && parent.0.is_remote());
        assert_eq!(parent.to_string(), VALID);
        let unknown_flags = TraceParent::parse(&VALID.replace("-01", "-ff")).expect("valid");
        assert!(unknown_flags.to_string().ends_with("-03"));
    }

    #[test]
    fn later_versions_are_read_as_this_one() {
        let later = TraceParent::parse(&format!("cc{}-what-else", &VALID[2..])).expect("valid");
        assert_eq!(later.to_string(), VALID);
        assert_eq!(TraceParent::parse(&format!("cc{}0", &VALID[2..])), None);
    }

    #[test]
    fn what_is_not_valid_is_absent() {
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "+0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-1-2-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319\u{e9}-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }

    /// Why the SDK's propagator does not read the header. Should this fail, it can.
    #[test]
    fn the_sdks_propagator_takes_ids_that_nobody_sent() {
        use opentelemetry::propagation::TextMapPropagator;
        use opentelemetry::trace::TraceContextExt;
        use opentelemetry_sdk::propagation::TraceContextPropagator;

        for wrong in ["00-1-2-01", "00-+a-+b-+1"] {
            let headers = std::collections::HashMap::from([("traceparent".to_owned(), wrong.to_owned())]);
            let context = TraceContextPropagator::new().extract(&headers);
            assert!(context.span().span_context().is_valid(), "{wrong}");
        }
    }
}
