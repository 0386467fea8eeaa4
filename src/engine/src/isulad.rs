//! Recognizes iSulad by the bundle, `<graph>/engines/<runtime>/<id>`, or systemd's cgroup,
//! `<slice>:isulad:<id>`. iSulad's CRI writes containerd's annotations, but a sandbox does not have
//! the annotation with the sandbox id. If a container was not created through CRI, its OCI config
//! has neither names nor labels. Sources: iSulad, `src/daemon/config/isulad_config.c`,
//! `src/daemon/entry/cri/`, `src/daemon/modules/spec/specs.c`.

use crate::{Clues, EngineKind, Identity, Role, cgroup::CgroupsPath, cri, paths};

/// Annotation that iSulad sets on a sandbox.
const CHECKPOINT: &str = "cri.sandbox.isulad.checkpoint";

/// Returns the name of the runtime in the path of the bundle.
pub(crate) fn runtime(clues: &Clues<'_>) -> Option<String> {
    match paths::components(clues.bundle)?.as_slice() {
        [.., "engines", runtime, id] if *id == clues.id => Some((*runtime).to_owned()),
        _ => None,
    }
}

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let runtime = runtime(clues);
    let is_in_own_cgroup = || {
        matches!(CgroupsPath::parse(clues.cgroups_path),
            CgroupsPath::Systemd { prefix: "isulad", name, .. } if name == clues.id)
    };
    if runtime.is_none() && !is_in_own_cgroup() {
        return None;
    }
    let mut identity = cri::identify(EngineKind::Isulad, clues, || Some(clues.id.to_owned()))
        .unwrap_or_else(|| Identity::alone(EngineKind::Isulad, clues));
    if identity.role != Role::Alone {
        identity.pod.annotations.remove(CHECKPOINT);
    }
    identity.pod.runtime_handler = runtime.unwrap_or_default();
    Some(identity)
}
