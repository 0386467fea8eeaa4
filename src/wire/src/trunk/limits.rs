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
    /// Bytes kept for all connections that are not open; more of them end the trunk.
    pub unopened: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { incoming: 2 * MAX_PAYLOAD, outgoing: 256 << 10, unopened: MAX_PAYLOAD }
    }
}
