//! Recognizes BuildKit, which runs each build step in a container that has no name. BuildKit
//! writes no annotations; its bundles are `<root>/executor/<id>` and contain the root file system.
//! With containerd's worker they are tasks in containerd's namespace `buildkit`, with the cgroup
//! `…/buildkit/<id>`. Sources: BuildKit, `executor/runcexecutor/executor.go`,
//! `executor/oci/spec.go`, `cmd/buildkitd/config/config.go`.

use crate::{Clues, EngineKind, Identity, cgroup::CgroupsPath, paths};

/// containerd's namespace of BuildKit's worker.
const NAMESPACE: &str = "buildkit";

/// Whether the bundle is one of BuildKit's own executor.
pub(crate) fn is_executor_bundle(clues: &Clues<'_>) -> bool {
    let bundle = paths::components(clues.bundle).unwrap_or_default();
    let root = paths::components(clues.root).unwrap_or_default();
    bundle.ends_with(&["executor", clues.id])
        && root.split_last().is_some_and(|(_, parent)| parent == bundle)
}

/// Recognizes a container of the worker of containerd.
pub(crate) fn identify_task(clues: &Clues<'_>, namespace: &str) -> Option<Identity> {
    let is_in_own_cgroup =
        || CgroupsPath::parse(clues.cgroups_path).last_two() == Some(("buildkit", clues.id));
    (namespace == NAMESPACE && is_in_own_cgroup()).then(|| identify(clues))
}

/// Returns the identity of a container of BuildKit.
pub(crate) fn identify(clues: &Clues<'_>) -> Identity {
    Identity::alone(EngineKind::BuildKit, clues)
}
