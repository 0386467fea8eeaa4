//! Receiver of the data of a connection that is not read as a stream.

use crate::rpc::message::MessageError;
use std::fmt::Debug;

/// Receiver of a connection's data. The trunk's reader task calls it directly, because waking a
/// separate task for each frame would take time. No method may block, or call the trunk.
pub(crate) trait Sink: Debug + Send + Sync + 'static {
    /// Receives the next bytes, which may begin and end anywhere.
    ///
    /// # Errors
    /// If the peer violates the protocol. The trunk ends then.
    fn receive(&self, bytes: &[u8]) -> Result<(), MessageError>;

    /// Whether no more bytes can be received before [`TrunkState::room`] is notified.
    ///
    /// [`TrunkState::room`]: crate::trunk::state::TrunkState::room
    fn is_full(&self) -> bool;

    /// Notifies the receiver that the trunk has ended, so that no more bytes follow.
    fn end(&self);
}
