//! Fallback for containers of no recognized engine: the container gets a synthetic pod.

use crate::{Clues, EngineKind, Identity};

pub(crate) fn identify(clues: &Clues<'_>) -> Identity {
    let mut identity = Identity::alone(EngineKind::Plain, clues);
    if !clues.hostname.is_empty() {
        identity.pod.name = clues.hostname.to_owned();
    }
    identity
}
