//! Recognizes nerdctl by its annotations, which repeat the labels that nerdctl sets. Labels that
//! users set are available only from containerd's API. Source: nerdctl, `pkg/labels/labels.go`,
//! `pkg/cmd/container/create.go`.

use crate::{Clues, EngineKind, Identity, containerd};

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let name = clues.annotation(containerd::NERDCTL_NAME)?;
    let mut identity = Identity::alone(EngineKind::Nerdctl, clues);
    identity.name = name.to_owned();
    identity.pod.name = name.to_owned();
    identity.source = containerd::source(clues, "default");
    Some(identity)
}
