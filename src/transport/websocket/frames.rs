//! Follows the frames in the bytes that a client sends (RFC 6455 section 5.2), without their contents.

/// Bytes of a frame's head before its length is known.
const SHORTEST_HEAD: usize = 2;
/// Bytes of the longest head: with a length of 64 bits and a mask.
const LONGEST_HEAD: usize = 14;

/// Where in a frame, and in a message, a stream of frames is.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; LONGEST_HEAD],
    head_read: usize,
    payload_left: u64,
    is_control: bool,
    /// A message of several frames has begun and its last frame has not.
    is_open: bool,
    /// Payload bytes of the message in progress that were read.
    message_bytes: u64,
    /// The largest payload of a frame so far.
    largest: u64,
}

impl Frames {
    /// Bytes that are certain to belong to the current frame: its payload, or the rest of its head.
    pub(super) fn rest(&self) -> usize {
        match self.payload_left {
            0 => self.head_len() - self.head_read,
            left => usize::try_from(left).unwrap_or(usize::MAX),
        }
    }

    /// Follows bytes that were read, no more than [`Self::rest`].
    pub(super) fn follow(&mut self, bytes: &[u8]) {
        if self.payload_left > 0 {
            let read = bytes.len() as u64;
            self.payload_left = self.payload_left.saturating_sub(read);
            if !self.is_control {
                self.message_bytes = self.message_bytes.saturating_add(read);
            }
        } else {
            for (place, byte) in self.head.iter_mut().skip(self.head_read).zip(bytes) {
                *place = *byte;
            }
            self.head_read = (self.head_read + bytes.len()).min(LONGEST_HEAD);
            if self.head_read == self.head_len() && self.head_read >= SHORTEST_HEAD {
                self.begin_payload();
            }
        }
        if self.payload_left == 0 && self.head_read == 0 && !self.is_open && !self.is_control {
            self.message_bytes = 0;
        }
    }

    /// Whether no frame and no message has begun that has not ended.
    pub(super) fn is_between_messages(&self) -> bool {
        self.head_read == 0 && self.payload_left == 0 && !self.is_open
    }

    /// Payload bytes of the message in progress that were read.
    pub(super) fn message_bytes(&self) -> usize {
        usize::try_from(self.message_bytes).unwrap_or(usize::MAX)
    }

    /// The largest payload of a frame so far.
    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    fn begin_payload(&mut self) {
        let [first, second, lengths @ ..] = self.head;
        let is_last = first & 0x80 != 0;
        self.is_control = first & 0x08 != 0;
        if !self.is_control {
            self.is_open = !is_last;
        }
        let [a, b, c, d, e, f, g, h, ..] = lengths;
        self.payload_left = match second & 0x7f {
            126 => u16::from_be_bytes([a, b]).into(),
            127 => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            short => short.into(),
        };
        self.largest = self.largest.max(self.payload_left);
        self.head_read = 0;
    }

    /// Bytes of the current frame's head, as far as it is known.
    fn head_len(&self) -> usize {
        let [_, second, ..] = self.head;
        if self.head_read < SHORTEST_HEAD {
            return SHORTEST_HEAD;
        }
        let length = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        SHORTEST_HEAD + length + mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: usize) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload {
            0..126 => bytes.push(0x80 | payload as u8),
            126..65_536 => {
                bytes.push(0x80 | 126);
                bytes.extend((payload as u16).to_be_bytes());
            }
            _ => {
                bytes.push(0x80 | 127);
                bytes.extend((payload as u64).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend(vec![b'x'; payload]);
        bytes
    }

    /// Reads all bytes, at most `most` at a time; returns how often it was between messages.
    fn follow(frames: &mut Frames, mut bytes: &[u8], most: usize) -> usize {
        let mut messages = 0;
        while !bytes.is_empty() {
            let read = frames.rest().min(most).min(bytes.len());
            assert!(read > 0, "{frames:?}");
            frames.follow(&bytes[..read]);
            bytes = &bytes[read..];
            messages += usize::from(frames.is_between_messages());
        }
        messages
    }

    #[test]
    fn the_end_of_each_message_is_known() {
        for most in [1, 2, 3, 7, 1000, usize::MAX] {
            for size in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
                let mut frames = Frames::default();
                let bytes = [frame(0x81, size), frame(0x89, 5), frame(0x81, 3)].concat();
                assert_eq!(follow(&mut frames, &bytes, most), 3, "{size} bytes, by {most}");
                assert_eq!(frames.message_bytes(), 0);
                assert_eq!(frames.largest(), size.max(5) as u64);
            }
        }
    }

    #[test]
    fn a_message_of_several_frames_counts_as_a_whole_with_control_frames_in_between() {
        let mut frames = Frames::default();
        let begun = [frame(0x01, 1000), frame(0x89, 100), frame(0x00, 500), frame(0x00, 0)].concat();
        assert_eq!(follow(&mut frames, &begun, usize::MAX), 0);
        assert_eq!(frames.message_bytes(), 1500);
        assert_eq!(follow(&mut frames, &frame(0x80, 0), 1), 1);
        assert_eq!(frames.message_bytes(), 0);
    }
}
