//! nerdctl: its own labels are annotations too, the others are known to containerd.
//! Source: nerdctl, `pkg/labels/labels.go`, `pkg/cmd/container/create.go`.

use crate::{Clues, Engine, Identity, containerd};

/// Label and annotation that holds the name.
pub(crate) const NAME: &str = "nerdctl/name";

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let name = clues.annotation(NAME)?;
    let mut identity = Identity::alone(Engine::Nerdctl, clues);
    identity.name = name.to_owned();
    identity.pod.name = name.to_owned();
    identity.source = containerd::source(clues, "default");
    Some(identity)
}
