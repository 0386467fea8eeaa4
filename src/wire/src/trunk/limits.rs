//! Memory limits of a trunk.

use crate::trunk::frame::MAX_PAYLOAD;

/// Limits of the memory that a trunk uses, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Unread bytes of one connection above which the socket is not read. One more frame may be
    /// received on top.
    pub incoming: usize,
    /// Unsent bytes of one connection above which writing to it waits. One more frame may be
    /// written on top.
    pub outgoing: usize,
    /// Total bytes kept for connections that are not open. If more are received, the trunk ends.
    pub unopened: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Room for two of the largest unread messages, for enough unsent data to keep the socket
        // busy, and for one of the largest messages before its connection is opened.
        Self { incoming: 2 * MAX_PAYLOAD, outgoing: 256 << 10, unopened: MAX_PAYLOAD }
    }
}
