//! Headers of ttrpc messages in a byte stream: length (4 bytes), stream id (4 bytes), type, flags;
//! numbers are big endian.
//!
//! This module does no I/O. It skips payloads: the ttrpc library parses messages itself, after the
//! guard ([`crate::rpc::guard`]) has checked the headers.

use nri_api::MAX_MESSAGE;

/// Size of the header of a ttrpc message in bytes.
const HEADER: usize = 10;

/// Type byte of a ttrpc message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// From client to server.
    Request,
    /// From server to client.
    Response,
    /// Part of a stream, in either direction. NRI does not use streams.
    Data,
}

/// Header of a ttrpc message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Type of the message.
    pub kind: MessageKind,
    /// Stream id of the call.
    pub stream: u32,
    /// Length of the payload in bytes.
    pub size: usize,
}

/// An invalid ttrpc message, or one that this side must not receive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The type byte is unknown.
    #[error("message of unknown type {0}")]
    Kind(u8),
    /// The type is not valid in this direction.
    #[error("unexpected message of type {0:?}")]
    Unexpected(MessageKind),
    /// The length exceeds [`MAX_MESSAGE`].
    #[error("message of {size} bytes, more than the {MAX_MESSAGE} allowed")]
    TooLarge {
        /// Length in the header, in bytes.
        size: usize,
    },
}

/// Position in a byte stream of messages.
#[derive(Debug, Default)]
pub struct Messages {
    header: [u8; HEADER],
    /// Number of bytes of the header that were read.
    header_len: usize,
    /// Number of bytes of the payload that were not read yet.
    payload_left: usize,
}

impl Messages {
    /// Starts at the header of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the stream is between two messages.
    pub fn is_at_boundary(&self) -> bool {
        self.header_len == 0 && self.payload_left == 0
    }

    /// Returns the number of bytes to the end of the current header or payload; never 0.
    pub fn remaining(&self) -> usize {
        if self.payload_left > 0 { self.payload_left } else { HEADER - self.header_len }
    }

    /// Reads the next bytes, and passes completed headers to `each`.
    ///
    /// # Errors
    /// If a header is invalid, or `each` fails. The rest of the stream cannot be parsed then.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Message) -> Result<(), MessageError>,
    ) -> Result<(), MessageError> {
        while !bytes.is_empty() {
            let n = self.remaining().min(bytes.len());
            let (part, rest) = bytes.split_at(n);
            bytes = rest;
            if self.payload_left > 0 {
                self.payload_left -= n;
                continue;
            }
            self.header[self.header_len..self.header_len + n].copy_from_slice(part);
            self.header_len += n;
            if self.header_len == HEADER {
                self.header_len = 0;
                let message = parse(self.header)?;
                self.payload_left = message.size;
                each(message)?;
            }
        }
        Ok(())
    }
}

fn parse([a, b, c, d, e, f, g, h, kind, _flags]: [u8; HEADER]) -> Result<Message, MessageError> {
    let kind = match kind {
        1 => MessageKind::Request,
        2 => MessageKind::Response,
        3 => MessageKind::Data,
        other => return Err(MessageError::Kind(other)),
    };
    let size = u32::from_be_bytes([a, b, c, d]) as usize;
    if size > MAX_MESSAGE {
        return Err(MessageError::TooLarge { size });
    }
    Ok(Message { kind, stream: u32::from_be_bytes([e, f, g, h]), size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expect: &[(MessageKind, u32, usize)], error: Option<MessageError>) {
        for chunk in 1..=input.len() {
            let mut seen = Vec::new();
            let mut messages = Messages::new();
            let result = input.chunks(chunk).try_for_each(|bytes| {
                messages.feed(bytes, |m| {
                    seen.push((m.kind, m.stream, m.size));
                    Ok(())
                })
            });
            assert_eq!(seen, expect, "{input:?} in pieces of {chunk}");
            assert_eq!(result.err(), error, "{input:?} in pieces of {chunk}");
            assert!(error.is_some() || messages.is_at_boundary());
        }
    }

    #[test]
    fn headers_are_read_wherever_the_input_is_split() {
        use MessageKind::*;
        check(b"\0\0\0\0\0\0\0\x01\x01\0", &[(Request, 1, 0)], None);
        check(
            b"\0\0\0\x03\0\0\0\x01\x01\0abc\0\0\0\x02\0\0\0\x03\x02\x07de\0\0\0\0\0\0\0\x05\x03\0",
            &[(Request, 1, 3), (Response, 3, 2), (Data, 5, 0)],
            None,
        );
        check(
            b"\0\x40\0\x01\0\0\0\x01\x01\0",
            &[],
            Some(MessageError::TooLarge { size: (4 << 20) + 1 }),
        );
        check(
            b"\0\0\0\x01\0\0\0\x01\x01\0aGET / HTTP/1.1",
            &[(Request, 1, 1)],
            Some(MessageError::Kind(b'T')),
        );
    }
}
