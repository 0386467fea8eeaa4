//! BuildKit: a container per step of a build, without names. It writes no annotations; its bundles
//! are `<root>/executor/<id>` with the root file system in them, and its cgroups are
//! `…/buildkit/<id>` where it chooses them. Sources: BuildKit, `executor/runcexecutor/executor.go`,
//! `executor/oci/spec.go`.

use crate::{Clues, EngineKind, Identity, cgroup::CgroupsPath, paths};

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let by_bundle = || {
        let bundle = paths::components(clues.bundle)?;
        let root = paths::components(clues.root)?;
        let of_executor =
            bundle.ends_with(&["executor", clues.id]) && root.split_last()?.1 == bundle;
        of_executor.then_some(())
    };
    let by_cgroup = || {
        (CgroupsPath::of(clues.cgroups_path).last_two() == Some(("buildkit", clues.id)))
            .then_some(())
    };
    by_bundle().or_else(by_cgroup)?;
    Some(Identity::alone(EngineKind::BuildKit, clues))
}
