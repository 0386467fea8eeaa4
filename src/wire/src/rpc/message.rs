//! ttrpc messages in a byte stream: length (4 bytes), stream id (4 bytes), type, flags, payload;
//! numbers are big endian.
//!
//! This module does no I/O. [`crate::rpc::envelope`] reads and writes the payloads.

use nri_api::MAX_MESSAGE;

/// Size of the header of a ttrpc message in bytes.
pub(crate) const HEADER: usize = 10;

/// Capacity of the payload buffer that is kept between messages, in bytes. A larger capacity is
/// freed, so that a large message does not stay allocated.
const MAX_IDLE_PAYLOAD: usize = 64 << 10;

/// Type byte of a ttrpc message.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// From client to server.
    Request = 1,
    /// From server to client.
    Response = 2,
    /// Part of a stream, in either direction. NRI does not use streams.
    Data = 3,
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

/// Reader of the messages of a byte stream that may be split anywhere.
#[derive(Debug, Default)]
pub struct Messages {
    header: [u8; HEADER],
    /// Number of bytes of the header that were read.
    header_len: usize,
    /// Message whose header was read.
    message: Option<Message>,
    /// Bytes of the payload of `message` that were read.
    payload: Vec<u8>,
}

impl Messages {
    /// Starts at the header of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the stream is between two messages.
    pub fn is_at_boundary(&self) -> bool {
        self.header_len == 0 && self.message.is_none()
    }

    /// Returns the number of bytes to the end of the current header or payload.
    pub fn remaining(&self) -> usize {
        self.message.map_or(HEADER - self.header_len, |message| message.size - self.payload.len())
    }

    /// Takes the bytes of the next message from `bytes`, and returns it with its payload, which is
    /// not copied if `bytes` has all of it. `None` if more bytes are needed. `admit` gets the
    /// message when its header is complete.
    ///
    /// # Errors
    /// If a header is invalid, or `admit` fails. The rest of the stream cannot be read then.
    pub fn next<'a, 'b: 'a>(
        &'a mut self,
        bytes: &mut &'b [u8],
        admit: impl FnOnce(Message) -> Result<(), MessageError>,
    ) -> Result<Option<(Message, &'a [u8])>, MessageError> {
        let message = match self.message {
            Some(message) => message,
            None => {
                let part = take(bytes, HEADER - self.header_len);
                self.header[self.header_len..self.header_len + part.len()].copy_from_slice(part);
                self.header_len += part.len();
                if self.header_len < HEADER {
                    return Ok(None);
                }
                let message = parse(self.header)?;
                admit(message)?;
                self.header_len = 0;
                self.payload.clear();
                self.payload.shrink_to(MAX_IDLE_PAYLOAD);
                message
            }
        };
        let part = take(bytes, message.size - self.payload.len());
        if part.len() == message.size {
            self.message = None;
            return Ok(Some((message, part)));
        }
        self.payload.extend_from_slice(part);
        if self.payload.len() < message.size {
            self.message = Some(message);
            return Ok(None);
        }
        self.message = None;
        Ok(Some((message, &self.payload)))
    }
}

/// Takes up to `n` bytes.
fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (part, rest) = bytes.split_at(n.min(bytes.len()));
    *bytes = rest;
    part
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

    fn check(input: &[u8], expect: &[(MessageKind, u32, &[u8])], error: Option<MessageError>) {
        let expect: Vec<_> = expect.iter().map(|(k, id, p)| (*k, *id, p.to_vec())).collect();
        for chunk in 1..=input.len() {
            let mut seen = Vec::new();
            let mut messages = Messages::new();
            let result = input.chunks(chunk).try_for_each(|mut bytes| {
                while let Some((m, payload)) = messages.next(&mut bytes, |_| Ok(()))? {
                    seen.push((m.kind, m.stream, payload.to_vec()));
                }
                Ok(())
            });
            assert_eq!(seen, expect, "{input:?} in pieces of {chunk}");
            assert_eq!(result.err(), error, "{input:?} in pieces of {chunk}");
            assert!(error.is_some() || messages.is_at_boundary());
        }
    }

    #[test]
    fn messages_are_read_wherever_the_input_is_split() {
        use MessageKind::*;
        check(b"\0\0\0\0\0\0\0\x01\x01\0", &[(Request, 1, b"")], None);
        check(
            b"\0\0\0\x03\0\0\0\x01\x01\0abc\0\0\0\x02\0\0\0\x03\x02\x07de\0\0\0\0\0\0\0\x05\x03\0",
            &[(Request, 1, b"abc"), (Response, 3, b"de"), (Data, 5, b"")],
            None,
        );
        check(
            b"\0\x40\0\x01\0\0\0\x01\x01\0",
            &[],
            Some(MessageError::TooLarge { size: (4 << 20) + 1 }),
        );
        check(
            b"\0\0\0\x01\0\0\0\x01\x01\0aGET / HTTP/1.1",
            &[(Request, 1, b"a")],
            Some(MessageError::Kind(b'T')),
        );
    }

    #[test]
    fn a_message_is_refused_when_its_header_is_complete() {
        let refuse = |m: Message| Err(MessageError::Unexpected(m.kind));
        let mut messages = Messages::new();
        let mut bytes = &b"\0\0\0\x09\0\0\0\x01\x02"[..];
        assert_eq!(messages.next(&mut bytes, refuse), Ok(None));
        let unexpected = MessageError::Unexpected(MessageKind::Response);
        assert_eq!(messages.next(&mut &b"\0"[..], refuse), Err(unexpected));
    }
}
