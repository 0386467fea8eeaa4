//! Where ttrpc messages begin and end in a byte stream, and whether they may be there.
//!
//! Pure. Reads only the 10-byte headers: 4 bytes length, 4 bytes stream id, type, flags; big
//! endian. The ttrpc library parses messages itself; this is what the guard around it sees.

use nri_api::MAX_MESSAGE;

/// Bytes before the payload of a ttrpc message.
const HEADER: usize = 10;

/// Type byte of a ttrpc message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Client to server.
    Request,
    /// Server to client.
    Response,
    /// Part of a stream, either way. NRI has no streams.
    Data,
}

/// Header of a ttrpc message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: MessageKind,
    /// Which call it belongs to.
    pub stream: u32,
    /// Length of its payload.
    pub size: usize,
}

/// Bytes that are no ttrpc message, or none that this side may get.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Unknown type byte.
    #[error("message of unknown type {0}")]
    Kind(u8),
    /// A known type that makes no sense in this direction.
    #[error("unexpected message of type {0:?}")]
    Unexpected(MessageKind),
    /// A length beyond the limit.
    #[error("message of {size} bytes, more than the {MAX_MESSAGE} allowed")]
    TooLarge {
        /// Announced length.
        size: usize,
    },
}

/// Follows a byte stream from message to message.
#[derive(Debug, Default)]
pub struct Messages {
    header: [u8; HEADER],
    have: usize,
    payload: usize,
}

impl Messages {
    /// At the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the stream is between two messages.
    pub fn at_boundary(&self) -> bool {
        self.have == 0 && self.payload == 0
    }

    /// Bytes up to the end of the present header or payload; never 0.
    pub fn want(&self) -> usize {
        if self.payload > 0 { self.payload } else { HEADER - self.have }
    }

    /// Takes the next bytes, and gives the headers that became whole to `each`.
    ///
    /// # Errors
    /// The first header that is wrong, or what `each` returns. The rest of the stream is
    /// meaningless then.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Message) -> Result<(), MessageError>,
    ) -> Result<(), MessageError> {
        while !bytes.is_empty() {
            let n = self.want().min(bytes.len());
            let (now, rest) = bytes.split_at(n);
            bytes = rest;
            if self.payload > 0 {
                self.payload -= n;
                continue;
            }
            self.header[self.have..self.have + n].copy_from_slice(now);
            self.have += n;
            if self.have == HEADER {
                self.have = 0;
                let message = parse(self.header)?;
                self.payload = message.size;
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
            assert!(error.is_some() || messages.at_boundary());
        }
    }

    #[test]
    fn headers() {
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
