//! [`VerbsInProgress`]: what verbs hold until they end.

use crate::state::{claims::Claims, followed::FollowedRuntimes, locks::Locks};

/// The verbs in progress.
#[derive(Debug, Default)]
pub struct VerbsInProgress {
    /// Locks of containers and pods.
    pub locks: Locks,
    /// Ids of creations.
    pub claims: Claims,
    /// Runtimes that wrappers have become.
    pub followed: FollowedRuntimes,
}
