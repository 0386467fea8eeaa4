//! What can go wrong with a trunk and with a call over it.

use crate::{Closed, ConnId};
use nri_api::MAX_MESSAGE;
use std::time::Duration;
use ttrpc::Code;

/// Bytes of a peer's message that are kept: it goes into logs, and is shown as long as the plugin
/// is remembered.
const LONGEST_MESSAGE: usize = 4096;

/// Why a trunk or a connection of it could not be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WireError {
    /// The trunk has ended.
    #[error("the trunk has ended: {0}")]
    Closed(#[source] Closed),
    /// A connection is opened once.
    #[error("connection {0} is open already")]
    AlreadyOpen(ConnId),
    /// ttrpc could not start to serve.
    #[error("serving connection {conn} failed: {source}")]
    Serve {
        /// Which connection.
        conn: ConnId,
        /// What ttrpc says.
        #[source]
        source: ttrpc::Error,
    },
}

/// Why a call to the peer gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The connection ended before the answer came, or before the call.
    #[error("connection closed{}", .0.as_ref().map(|r| format!(": {r}")).unwrap_or_default())]
    Closed(#[source] Option<Closed>),
    /// No answer in time. The peer may still be at it; a late answer is dropped.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The peer answered with an error.
    #[error("{message} (status {code})")]
    Status {
        /// A ttrpc code; may be one that this library does not know.
        code: i32,
        /// What the peer says.
        message: String,
    },
    /// The request is larger than a message may be; it was not sent.
    #[error("request of {size} bytes, more than the {MAX_MESSAGE} allowed")]
    TooLarge {
        /// Its size, with the envelope.
        size: usize,
    },
    /// The answer, or the request, does not encode or decode.
    #[error("malformed message: {0}")]
    Malformed(String),
}

impl CallError {
    /// Whether the peer does not know the method: plugins answer so to calls that are newer than
    /// they are.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Status { code, .. } if *code == Code::UNIMPLEMENTED as i32)
    }

    /// Whether the connection is of no more use: it ended, or the peer does not speak the protocol.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Malformed(_))
    }

    /// Reads a status; 0 is none. Of a message that is longer than anybody would read, the
    /// beginning is kept.
    pub(crate) fn from_status(code: i32, message: &str) -> Self {
        let mut end = message.len().min(LONGEST_MESSAGE);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let cut = if end < message.len() { "… (cut)" } else { "" };
        Self::Status { code, message: format!("{}{cut}", &message[..end]) }
    }
}

/// Without the knowledge of when a call began or why a trunk ended; the clients of this crate add
/// both.
impl From<ttrpc::Error> for CallError {
    fn from(e: ttrpc::Error) -> Self {
        match e {
            ttrpc::Error::RpcStatus(s) => Self::from_status(s.code.value(), &s.message),
            ttrpc::Error::Others(text) => Self::Malformed(text),
            ttrpc::Error::Socket(_)
            | ttrpc::Error::Nix(_)
            | ttrpc::Error::LocalClosed
            | ttrpc::Error::RemoteClosed
            | ttrpc::Error::Eof => Self::Closed(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion() {
        let check =
            |e: ttrpc::Error, expect: &str| assert_eq!(CallError::from(e).to_string(), expect);
        let status = |code, text: &str| ttrpc::Error::RpcStatus(ttrpc::get_status(code, text));
        check(status(Code::UNIMPLEMENTED, "no such method"), "no such method (status 12)");
        check(ttrpc::Error::Socket("early eof".into()), "connection closed");
        check(ttrpc::Error::RemoteClosed, "connection closed");
        check(ttrpc::Error::Others("bad wire type".into()), "malformed message: bad wire type");
        let long = CallError::from(status(Code::NOT_FOUND, &"é".repeat(1 << 20))).to_string();
        assert!(
            long.len() < LONGEST_MESSAGE + 32 && long.ends_with("é… (cut) (status 5)"),
            "{}",
            long.len()
        );
        assert!(CallError::from(status(Code::UNIMPLEMENTED, "")).is_unimplemented());
        assert!(!CallError::from(status(Code::NOT_FOUND, "")).is_unimplemented());
    }
}
