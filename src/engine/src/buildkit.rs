//! Recognizes BuildKit, which runs each build step in a container that has no name. BuildKit
//! writes no annotations; its bundles are `<root>/executor/<id>` and contain the root file system,
//! and its default cgroups are `…/buildkit/<id>`. Sources: BuildKit,
//! `executor/runcexecutor/executor.go`, `executor/oci/spec.go`.

use crate::{Clues, EngineKind, Identity, cgroup::CgroupsPath, paths};

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let by_bundle = || {
        let bundle = paths::components(clues.bundle)?;
        let root = paths::components(clues.root)?;
        let is_executor_bundle =
            bundle.ends_with(&["executor", clues.id]) && root.split_last()?.1 == bundle;
        is_executor_bundle.then_some(())
    };
    let by_cgroup = || {
        (CgroupsPath::parse(clues.cgroups_path).last_two() == Some(("buildkit", clues.id)))
            .then_some(())
    };
    by_bundle().or_else(by_cgroup)?;
    Some(Identity::alone(EngineKind::BuildKit, clues))
}
