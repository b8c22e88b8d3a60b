//! The head of a response: status, framing of the body, and the few headers that are used.

use std::mem::MaybeUninit;

use http::header::{self, HeaderValue};
use http::{HeaderName, StatusCode};
use memchr::memmem;

use super::body::Body;
use super::chunked::ChunkedDecoder;
use super::error::InvalidResponse;
use super::limits::{MAX_HEAD_BYTES, MAX_HEADERS, MAX_INFORMATIONAL};

/// A response without its body.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub status: StatusCode,
    pub content_type: Option<HeaderValue>,
    pub retry_after: Option<HeaderValue>,
    pub body: Body,
    /// The connection may serve another request after the body.
    pub keep_alive: bool,
}

/// Finds the head of a response in what is read of a connection. Informational responses are skipped.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    /// A head that is incomplete.
    unfinished: Vec<u8>,
    informational: usize,
}

/// A head, and where the bytes behind it begin in the last piece.
type Found = (ResponseHead, usize);

impl HeadReader {
    /// Whether nothing of a response has arrived.
    pub(super) fn is_untouched(&self) -> bool {
        self.unfinished.is_empty() && self.informational == 0
    }

    /// Takes in the next bytes of the connection; returns the head when it is complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Option<Found>, InvalidResponse> {
        // The usual case: all of the head comes at once, and is parsed where it is.
        if self.unfinished.is_empty() {
            return match self.parse(bytes)? {
                Parsed::Head(head, end) => Ok(Some((head, end))),
                Parsed::Incomplete(start) => self.keep(bytes.get(start..).unwrap_or_default().to_vec()),
            };
        }
        let before = self.unfinished.len();
        let mut buffer = std::mem::take(&mut self.unfinished);
        buffer.extend_from_slice(bytes);
        // A head that comes byte by byte is parsed when its end may have come, not at every byte.
        let unsearched = buffer.get(before.saturating_sub(2)..).unwrap_or_default();
        if memmem::find(unsearched, b"\n\r\n").is_none() && memmem::find(unsearched, b"\n\n").is_none() {
            return self.keep(buffer);
        }
        match self.parse(&buffer)? {
            // The end of the head is within the new bytes.
            Parsed::Head(head, end) => Ok(Some((head, end.saturating_sub(before)))),
            Parsed::Incomplete(start) => {
                buffer.drain(..start);
                self.keep(buffer)
            }
        }
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<Parsed, InvalidResponse> {
        let mut start = 0;
        loop {
            let rest = bytes.get(start..).unwrap_or_default();
            let Some((head, length)) = parse_one(rest)? else { return Ok(Parsed::Incomplete(start)) };
            start += length;
            if let Some(head) = head {
                return Ok(Parsed::Head(head, start));
            }
            self.informational += 1;
            if self.informational > MAX_INFORMATIONAL {
                return Err(InvalidResponse::Informational);
            }
        }
    }

    fn keep(&mut self, unfinished: Vec<u8>) -> Result<Option<Found>, InvalidResponse> {
        if unfinished.len() > MAX_HEAD_BYTES {
            return Err(InvalidResponse::HeadTooLarge);
        }
        self.unfinished = unfinished;
        Ok(None)
    }
}

enum Parsed {
    /// The head, and where it ends.
    Head(ResponseHead, usize),
    /// Where a head begins that is not complete.
    Incomplete(usize),
}

/// One head and its length; without the head if it is an informational one, `None` if it is incomplete.
fn parse_one(bytes: &[u8]) -> Result<Option<(Option<ResponseHead>, usize)>, InvalidResponse> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut response, bytes, &mut headers)
        .map_err(InvalidResponse::Head)?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    if length > MAX_HEAD_BYTES {
        return Err(InvalidResponse::HeadTooLarge);
    }
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(InvalidResponse::Status)?;
    // The request asked for no other protocol.
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(InvalidResponse::Status);
    }
    if status.is_informational() {
        return Ok(Some((None, length)));
    }
    let is_http11 = response.version == Some(1);
    Ok(Some((Some(ResponseHead::new(status, is_http11, response.headers)?), length)))
}

impl ResponseHead {
    fn new(
        status: StatusCode,
        is_http11: bool,
        headers: &[httparse::Header<'_>],
    ) -> Result<Self, InvalidResponse> {
        let mut fields = Fields::default();
        let (mut content_type, mut retry_after) = (None, None);
        for field in headers {
            if is(field, &header::CONTENT_TYPE) {
                content_type = HeaderValue::from_bytes(field.value).ok();
            } else if is(field, &header::RETRY_AFTER) {
                retry_after = HeaderValue::from_bytes(field.value).ok();
            } else {
                fields.read(field)?;
            }
        }
        let keep_alive = !fields.close && (is_http11 || fields.keep_alive);
        let has_no_body = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let (body, keep_alive) = match (has_no_body, fields.transfer_coding, fields.content_length) {
            (true, ..) => (Body::Length(0), keep_alive),
            // Without a length as well, and of HTTP/1.1: anything else may be an attempt to have it read differently.
            (_, Some(TransferCoding::Chunked), length) => {
                (Body::Chunked(ChunkedDecoder::new()), keep_alive && is_http11 && length.is_none())
            }
            (_, Some(TransferCoding::Other), _) => return Err(InvalidResponse::TransferEncoding),
            (_, None, Some(length)) => (Body::Length(length), keep_alive),
            (_, None, None) => (Body::UntilClose, false),
        };
        Ok(Self { status, content_type, retry_after, body, keep_alive })
    }
}

/// What the headers say about the message and its connection.
#[derive(Default)]
struct Fields {
    content_length: Option<u64>,
    transfer_coding: Option<TransferCoding>,
    close: bool,
    keep_alive: bool,
}

#[derive(Clone, Copy)]
enum TransferCoding {
    Chunked,
    /// One that was not asked for.
    Other,
}

impl Fields {
    fn read(&mut self, field: &httparse::Header<'_>) -> Result<(), InvalidResponse> {
        if is(field, &header::CONTENT_LENGTH) {
            for value in list(field.value) {
                let length = content_length(value).ok_or(InvalidResponse::ContentLength)?;
                if self.content_length.replace(length).is_some_and(|other| other != length) {
                    return Err(InvalidResponse::ContentLength);
                }
            }
        } else if is(field, &header::TRANSFER_ENCODING) {
            for value in list(field.value) {
                let is_only = self.transfer_coding.is_none();
                let is_chunked = value.eq_ignore_ascii_case(b"chunked");
                self.transfer_coding =
                    Some(if is_only && is_chunked { TransferCoding::Chunked } else { TransferCoding::Other });
            }
        } else if is(field, &header::CONNECTION) {
            for value in list(field.value) {
                self.close |= value.eq_ignore_ascii_case(b"close");
                self.keep_alive |= value.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }
}

fn is(field: &httparse::Header<'_>, name: &HeaderName) -> bool {
    field.name.eq_ignore_ascii_case(name.as_str())
}

/// The entries of a header that is a list.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Digits only: `parse` alone would accept a sign.
fn content_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}
