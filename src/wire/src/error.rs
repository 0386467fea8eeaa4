//! Errors of a trunk, and of a call over it.

use crate::trunk::closed::Closed;
use crate::trunk::frame::ConnId;
use nri_api::MAX_MESSAGE;
use std::time::Duration;
use ttrpc::Code;

/// Length limit of a peer's error message in bytes. A longer message is cut, because the message
/// is logged and stored in the plugin's status.
const MAX_PEER_MESSAGE: usize = 4096;

/// Reason why a trunk or a connection could not be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WireError {
    /// The trunk has ended.
    #[error("the connection has ended: {0}")]
    Closed(#[source] Closed),
    /// The connection is already open.
    #[error("connection {0} is already open")]
    AlreadyOpen(ConnId),
}

/// Reason why a call to the peer failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The connection was closed before the reply arrived, or before the call.
    #[error("{}", .0.as_ref().map_or("the connection is closed".into(), ToString::to_string))]
    Closed(#[source] Option<Closed>),
    /// The peer did not reply in time. It may still handle the call; a late reply is dropped.
    #[error("no reply within {0:?}")]
    Timeout(Duration),
    /// The peer replied with an error.
    #[error("{}", status_text(*code, message))]
    Status {
        /// ttrpc status code, possibly unknown to this library.
        code: i32,
        /// Message of the peer.
        message: String,
    },
    /// The request exceeds the size limit of a message, and was not sent.
    #[error("request of {size} bytes, more than the {MAX_MESSAGE} allowed")]
    TooLarge {
        /// Size with the envelope, in bytes.
        size: usize,
    },
    /// The reply or the request could not be decoded or encoded.
    #[error("malformed message: {0}")]
    Malformed(String),
}

impl CallError {
    /// Whether the peer does not implement the method: old plugins do not implement new calls.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Status { code, .. } if *code == Code::UNIMPLEMENTED as i32)
    }

    /// Whether the peer's handler has replied with an error of its own, which is a decision about
    /// the request. Codes that a library or a broken handler sends are none: a call that is not
    /// implemented, a panic, a deadline, a lost dependency. Plain errors of the Go and Rust
    /// libraries for plugins have the code `UNKNOWN`.
    pub fn is_refusal(&self) -> bool {
        const NO_DECISION: [Code; 6] = [
            Code::CANCELLED,
            Code::DEADLINE_EXCEEDED,
            Code::UNIMPLEMENTED,
            Code::INTERNAL,
            Code::UNAVAILABLE,
            Code::DATA_LOSS,
        ];
        match self {
            Self::Status { code, .. } => NO_DECISION.iter().all(|other| *other as i32 != *code),
            _ => false,
        }
    }

    /// Whether the connection is unusable: closed, or the peer violates the protocol.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Malformed(_))
    }

    /// Creates the error of a status other than 0. A long message is cut.
    pub(crate) fn from_status(code: i32, message: &str) -> Self {
        let mut end = message.len().min(MAX_PEER_MESSAGE);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let cut = if end < message.len() { "… (cut)" } else { "" };
        Self::Status { code, message: format!("{}{cut}", &message[..end]) }
    }
}

/// Returns the message of the peer; names the status code only if there is no message.
fn status_text(code: i32, message: &str) -> String {
    match message.trim() {
        "" => format!("error without a message, ttrpc status {code}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_of_the_peer_are_cut() {
        let long = CallError::from_status(5, &"é".repeat(1 << 20)).to_string();
        // The mark of the cut and the status take less than 32 bytes.
        assert!(long.len() < MAX_PEER_MESSAGE + 32 && long.ends_with("é… (cut)"), "{}", long.len());
        let empty = CallError::from_status(12, "");
        assert_eq!(empty.to_string(), "error without a message, ttrpc status 12");
        assert!(empty.is_unimplemented());
        assert!(!CallError::from_status(5, "").is_unimplemented());
    }

    #[test]
    fn errors_of_a_handler_are_refusals_and_those_of_libraries_are_not() {
        // Of <https://grpc.io/docs/guides/status-codes>, and one that no library knows.
        let refusals: Vec<i32> =
            (1..=17).filter(|code| CallError::from_status(*code, "").is_refusal()).collect();
        assert_eq!(refusals, [2, 3, 5, 6, 7, 8, 9, 10, 11, 16, 17]);
        assert!(!CallError::Timeout(Duration::ZERO).is_refusal());
        assert!(!CallError::Closed(None).is_refusal());
    }
}
