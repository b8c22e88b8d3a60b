//! The header `traceparent` of W3C Trace Context: <https://www.w3.org/TR/trace-context/#traceparent-header>.

use std::fmt;

/// Where in which trace a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    /// The trace; never all zeros.
    pub trace_id: [u8; 16],
    /// The caller's span; never all zeros.
    pub span_id: [u8; 8],
    /// Bit 0: the caller records this trace.
    pub flags: u8,
}

impl TraceParent {
    /// Reads the header; `None` if it is not valid, which the standard wants treated as absent.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim_ascii().splitn(5, '-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = hex(version)?;
        // Later versions may append parts; this one may not, and 255 is forbidden.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let [flags] = hex(flags)?;
        let parent = Self { trace_id: hex(trace_id)?, span_id: hex(span_id)?, flags };
        (parent.trace_id != [0; 16] && parent.span_id != [0; 8]).then_some(parent)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        // Only the flags that this version knows may be sent on.
        write!(f, "-{:02x}", self.flags & 0b11)
    }
}

/// Reads exactly so many bytes of lower-case hex, as the standard demands.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::TraceParent;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_read_is_written() {
        let parent = TraceParent::parse(VALID).expect("valid");
        assert_eq!((parent.trace_id[0], parent.span_id[0], parent.flags), (0x0a, 0xb7, 1));
        assert_eq!(parent.to_string(), VALID);
        let unknown_flags = TraceParent::parse(&VALID.replace("-01", "-ff")).expect("valid");
        assert!(unknown_flags.to_string().ends_with("-03"));
    }

    #[test]
    fn later_versions_are_read_as_this_one() {
        let later = TraceParent::parse(&format!("cc{}-what-else", &VALID[2..])).expect("valid");
        assert_eq!(later.to_string(), VALID);
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
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319\u{e9}-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }
}
