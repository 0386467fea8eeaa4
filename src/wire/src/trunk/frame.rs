//! Frame format of the trunk: connection id (4 bytes), payload length (4 bytes), payload; numbers
//! are big endian.
//!
//! Encoding and decoding are pure; [`crate::trunk::state`] delivers the payloads.
//!
//! The workspace has two other formats with a length prefix, and no common codec. A ttrpc header
//! ([`crate::rpc::message`]) is 10 bytes with the length first, and one message may arrive in
//! several frames. The header of a control frame (`nri-control`) is only a length; it is
//! sent and received by blocking system calls, because file descriptors are sent with its first
//! byte. The formats share only the four bytes of a length. Limits, errors, buffering and I/O
//! differ, so a common codec would be more code than reading a `u32` in three places.

use bytes::{BufMut, Bytes, BytesMut};
use std::{fmt, num::NonZeroU32};

/// Size of the header of a frame in bytes.
pub const FRAME_HEADER: usize = 8;

/// Limit of the payload of a frame: one ttrpc message with its header.
pub const MAX_PAYLOAD: usize = 10 + nri_api::MAX_MESSAGE;

/// Size of the decoder's buffer while no larger frame is received, in bytes.
const READ_CHUNK: usize = 64 << 10;

/// Number of a connection of a trunk. 0 is reserved, and cannot be represented.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(NonZeroU32);

impl ConnId {
    /// Connection of the Plugin service: the runtime calls, the plugin serves.
    pub const PLUGIN: Self = Self(NonZeroU32::MIN);
    /// Connection of the Runtime service: the plugin calls, the runtime serves.
    pub const RUNTIME: Self = Self(NonZeroU32::MIN.saturating_add(1));

    /// Returns the connection with this number; `None` for the reserved 0.
    pub fn new(id: u32) -> Option<Self> {
        NonZeroU32::new(id).map(Self)
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// A piece of the data of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Connection that the data belongs to.
    pub conn: ConnId,
    /// Data; may be empty.
    pub payload: Bytes,
}

/// An invalid frame. The beginning of the next frame is unknown after an invalid one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is for the reserved connection 0.
    #[error("frame for the reserved connection 0")]
    ReservedConn,
    /// The payload length exceeds the limit.
    #[error("frame of {size} bytes on connection {conn}, more than the {limit} allowed")]
    TooLarge {
        /// Number of the connection.
        conn: u32,
        /// Payload length in the header.
        size: usize,
        /// Limit of the decoder.
        limit: usize,
    },
}

/// Decoder of frames from bytes that may be split anywhere.
///
/// The bytes are received into the decoder's own buffer and frames are read in place, so that a
/// frame on its way from the socket to its connection is not copied.
#[derive(Debug)]
pub struct Decoder {
    /// Holds the received bytes from `start` to `end`; the rest is free.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    limit: usize,
    failed: Option<FrameError>,
}

impl Decoder {
    /// Creates a decoder for payloads of up to [`MAX_PAYLOAD`] bytes.
    pub fn new() -> Self {
        Self::with_limit(MAX_PAYLOAD)
    }

    /// Creates a decoder for payloads of up to `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, limit, failed: None }
    }

    /// Adds received bytes. Memory is bounded if all frames are taken before more bytes are added.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while self.failed.is_none() && !bytes.is_empty() {
            let space = self.space();
            let (part, rest) = bytes.split_at(space.len().min(bytes.len()));
            space[..part.len()].copy_from_slice(part);
            self.received(part.len());
            bytes = rest;
        }
    }

    /// Returns free space to receive bytes into, never empty. The buffer grows with the
    /// received bytes, not with the length that a header announces.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() != READ_CHUNK {
                self.buffer = vec![0; READ_CHUNK];
            }
        }
        if self.buffer.len() - self.end < READ_CHUNK / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() - self.end < READ_CHUNK / 2 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Records that the first `n` bytes of [`space`](Self::space) were received.
    pub(crate) fn received(&mut self, n: usize) {
        self.end += n;
    }

    /// Returns the next complete frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If a header is invalid, before any of its payload is stored. All later calls return the same
    /// error.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let next = self.next_in_place()?;
        Ok(next.map(|(conn, payload)| Frame { conn, payload: Bytes::copy_from_slice(payload) }))
    }

    /// Like [`next_frame`](Self::next_frame), without a copy of the payload.
    ///
    /// # Errors
    /// As [`next_frame`](Self::next_frame).
    pub(crate) fn next_in_place(&mut self) -> Result<Option<(ConnId, &[u8])>, FrameError> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let received = &self.buffer[self.start..self.end];
        let Some((header, _)) = received.split_first_chunk::<FRAME_HEADER>() else {
            return Ok(None);
        };
        let (conn, size) = match self.parse_header(*header) {
            Ok(parsed) => parsed,
            Err(e) => {
                (self.buffer, self.start, self.end) = (Vec::new(), 0, 0);
                self.failed = Some(e.clone());
                return Err(e);
            }
        };
        let payload = self.start + FRAME_HEADER;
        if self.end - payload < size {
            return Ok(None);
        }
        self.start = payload + size;
        Ok(Some((conn, &self.buffer[payload..payload + size])))
    }

    /// Returns the number of received bytes of the incomplete frame.
    pub fn pending(&self) -> usize {
        self.end - self.start
    }

    fn parse_header(&self, header: [u8; FRAME_HEADER]) -> Result<(ConnId, usize), FrameError> {
        let [a, b, c, d, e, f, g, h] = header;
        let id = u32::from_be_bytes([a, b, c, d]);
        let size = u32::from_be_bytes([e, f, g, h]) as usize;
        let conn = ConnId::new(id).ok_or(FrameError::ReservedConn)?;
        if size > self.limit {
            return Err(FrameError::TooLarge { conn: id, size, limit: self.limit });
        }
        Ok((conn, size))
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends `payload` to `out` as one frame, or as several if it exceeds [`MAX_PAYLOAD`]; an empty
/// payload adds none.
pub fn encode(conn: ConnId, payload: &[u8], out: &mut BytesMut) {
    for part in payload.chunks(MAX_PAYLOAD) {
        out.reserve(FRAME_HEADER + part.len());
        out.put_u32(conn.get());
        out.put_u32(part.len() as u32); // at most MAX_PAYLOAD
        out.put_slice(part);
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Decoded frames, the error after the last one, and the number of remaining bytes.
    type Decoded = (Vec<(u32, Vec<u8>)>, Option<FrameError>, usize);

    /// Decodes the given pieces.
    fn decode<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
        let mut decoder = Decoder::with_limit(limit);
        let mut frames = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            loop {
                match decoder.next_frame() {
                    Ok(Some(f)) => frames.push((f.conn.get(), f.payload.to_vec())),
                    Ok(None) => break,
                    Err(e) => {
                        decoder.feed(b"more");
                        assert_eq!(
                            decoder.next_frame(),
                            Err(e.clone()),
                            "a later call returned another result"
                        );
                        assert_eq!(decoder.pending(), 0, "bytes were kept after an error");
                        return (frames, Some(e), 0);
                    }
                }
            }
        }
        (frames, None, decoder.pending())
    }

    /// Checks that `input` decodes to the same frames, error and rest wherever it is split.
    fn check(input: &[u8], frames: &[(u32, &[u8])], error: Option<FrameError>, rest: usize) {
        let frames: Vec<_> = frames.iter().map(|(c, p)| (*c, p.to_vec())).collect();
        let expect = (frames, error, rest);
        for at in 0..=input.len() {
            assert_eq!(decode(16, [&input[..at], &input[at..]]), expect, "{input:?} split at {at}");
        }
        assert_eq!(decode(16, input.chunks(1)), expect, "{input:?} byte by byte");
    }

    #[test]
    fn frames_are_decoded_wherever_the_input_is_split() {
        check(b"", &[], None, 0);
        check(b"\0\0\0\x01\0\0\0\x03abc", &[(1, b"abc")], None, 0);
        check(b"\0\0\0\x02\0\0\0\0", &[(2, b"")], None, 0);
        check(
            b"\0\0\0\x01\0\0\0\x01a\x01\0\0\0\0\0\0\x02bc",
            &[(1, b"a"), (1 << 24, b"bc")],
            None,
            0,
        );
        check(b"\0\0\0\x01\0\0\0\x10aaaaaaaaaaaaaaaa", &[(1, &[b'a'; 16])], None, 0);
        check(b"\0\0\0\x01\0\0\0\x03ab", &[], None, 10);
        check(b"\0\0\0\x01\0\0\0", &[], None, 7);
    }

    #[test]
    fn invalid_headers_are_errors_before_their_payload() {
        let large = |conn, size| Some(FrameError::TooLarge { conn, size, limit: 16 });
        check(b"\0\0\0\0\0\0\0\0", &[], Some(FrameError::ReservedConn), 0);
        check(b"\0\0\0\0\0\0\0\x11", &[], Some(FrameError::ReservedConn), 0);
        check(b"\0\0\0\x01\0\0\0\x11", &[], large(1, 17), 0);
        check(b"\0\0\0\x02\xff\xff\xff\xffx", &[], large(2, u32::MAX as usize), 0);
        check(
            b"\0\0\0\x01\0\0\0\x01a\0\0\0\0abcdef",
            &[(1, b"a")],
            Some(FrameError::ReservedConn),
            0,
        );
    }

    #[test]
    fn a_payload_beyond_the_limit_is_split() {
        let payload = vec![7; MAX_PAYLOAD + 5];
        let mut out = BytesMut::new();
        encode(ConnId::PLUGIN, &payload, &mut out);
        let (frames, error, rest) = decode(MAX_PAYLOAD, [&out[..]]);
        assert_eq!((error, rest), (None, 0));
        assert_eq!(
            frames.iter().map(|(c, p)| (*c, p.len())).collect::<Vec<_>>(),
            [(1, MAX_PAYLOAD), (1, 5)]
        );
    }

    proptest! {
        #[test]
        fn encoded_frames_decode_to_themselves_wherever_they_are_split(
            frames in vec((1u32.., vec(any::<u8>(), 1..40)), 0..8),
            cuts in vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let mut bytes = BytesMut::new();
            for (conn, payload) in &frames {
                encode(ConnId::new(*conn).unwrap(), payload, &mut bytes);
            }
            let mut cuts: Vec<_> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]);
            prop_assert_eq!(decode(64, pieces), (frames, None, 0));
        }

        #[test]
        fn any_bytes_decode_the_same_at_once_and_byte_by_byte(
            bytes in vec(prop_oneof![3 => 0u8..3, 1 => any::<u8>()], 0..200),
        ) {
            prop_assert_eq!(decode(32, [&bytes[..]]), decode(32, bytes.chunks(1)));
        }
    }
}
