//! Checks that the low-level runtime, cgroups, resctrl and kernel of this host support a change.
//! This file reads the host; `nri_spec::capability` decides.

use crate::{
    error::ResourceError,
    host::{proc::mounts, runtime::LowLevelRuntime},
    resources::manager::ResourceManager,
};
use nri_api::proto::FieldOwners;
use nri_host::user_controllers;
use nri_locate::{Environment, NridOwner, UserDirs};
use nri_mountinfo::MountInfo;
use nri_spec::{
    OciConfig,
    capability::{self, HostCapabilities, UnsupportedFields},
};
use serde_json::{Value, json};
use std::{
    cell::Cell,
    collections::BTreeSet,
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
};

impl ResourceManager {
    /// Checks that the runtime and this host support the changes of plugins to an OCI config.
    ///
    /// # Errors
    /// The fields that are not supported, with their owners.
    pub async fn check(
        &self,
        runtime: &LowLevelRuntime,
        before: &OciConfig,
        after: &OciConfig,
        owners: &FieldOwners,
    ) -> Result<(), UnsupportedFields> {
        if before == after {
            return Ok(());
        }
        let runtime = self.versions.of(runtime).await;
        self.known_host.check(host, |host| capability::check(before, after, owners, &runtime, host))
    }

    /// Checks that the runtime and this host support changes to an existing container's resources.
    ///
    /// # Errors
    /// The fields that are not supported, with their owners; or the resources are nested too deeply
    /// for an OCI config.
    pub async fn check_resources(
        &self,
        runtime: &LowLevelRuntime,
        before: &Value,
        after: &Value,
        owners: &FieldOwners,
    ) -> Result<(), ResourceError> {
        let config = |resources: &Value| {
            let config = OciConfig::from_value(json!({"linux": {"resources": resources}}));
            config.map_err(ResourceError::TooDeep)
        };
        let checked = self.check(runtime, &config(before)?, &config(after)?, owners).await;
        checked.map_err(ResourceError::from)
    }

    /// Returns whether the kernel limits swap.
    pub fn has_swap_accounting(&self) -> bool {
        let check = |host: &HostCapabilities| host.has_swap_accounting().then_some(()).ok_or(());
        self.known_host.check(host, check).is_ok()
    }

    /// Returns whether containers have the CPU controller of cgroup v1.
    pub fn has_cpu_v1(&self) -> bool {
        let found = Cell::new(false);
        // Succeeds, since the version does not change: a failure would read the host again.
        let look = |host: &HostCapabilities| {
            found.set(!host.cgroup_v2 && host.controllers.contains("cpu"));
            Ok::<_, Infallible>(())
        };
        self.known_host.check(host, look).is_ok() && found.get()
    }
}

/// Returns the capabilities of this host.
pub fn host() -> HostCapabilities {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    HostCapabilities { delegated: delegated(), ..host_of(&mounts(), &release) }
}

/// Returns the controllers that this user's engines can use; `None` for root, or if not known.
fn delegated() -> Option<BTreeSet<String>> {
    let environment = Environment::of_this_process();
    UserDirs::of_this_process(&environment)?;
    let NridOwner::User { uid, outer, .. } = NridOwner::of_this_process(&environment) else {
        return None;
    };
    Some(user_controllers(outer.unwrap_or(uid))?.delegated)
}

fn host_of(mounts: &[MountInfo], release: &str) -> HostCapabilities {
    let root = Path::new("/sys/fs/cgroup");
    // The last of several mounts on one mount point is the visible one.
    let cgroup_v2 =
        mounts.iter().rfind(|m| m.point == root).is_some_and(|m| m.fs_type == "cgroup2");
    let mut host = HostCapabilities {
        cgroup_v2,
        resctrl: mounts.iter().any(|m| m.fs_type == "resctrl"),
        kernel: kernel(release),
        ..HostCapabilities::default()
    };
    if cgroup_v2 {
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        host.controllers = controllers.split_whitespace().map(str::to_owned).collect();
        add_files(&mut host, root);
    } else {
        for mount in mounts.iter().filter(|m| m.fs_type == "cgroup") {
            for option in mount.super_options.split(',') {
                if ["blkio", "cpu", "memory"].contains(&option) {
                    add_files(&mut host, &mount.point);
                }
                // Options that are no controllers, such as `rw`, end up in the set, too. They do no
                // harm, because no field needs them.
                let controller = if option == "blkio" { "io" } else { option };
                host.controllers.insert(controller.to_owned());
            }
        }
    }
    host
}

/// Adds the files of [`capability::FILES`] that exist in a hierarchy: in the root, or in one of its
/// children, since the root cgroup of v2 does not have these files. If no cgroup has the controller
/// of a file, the file cannot be looked up, and is assumed to exist.
fn add_files(host: &mut HostCapabilities, root: &Path) {
    let below =
        fs::read_dir(root).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir());
    let dirs: Vec<PathBuf> = below.chain([root.to_owned()]).collect();
    let has = |name: &str| dirs.iter().any(|dir| dir.join(name).exists());
    let names = |wanted: &dyn Fn(&str) -> bool| {
        let names = capability::FILES.into_iter().filter(|name| wanted(name));
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let is_unknown = |name: &str, controller: &str| {
        name.starts_with(controller) && !has(&format!("{controller}max"))
    };
    let mut assumed = names(&|name| {
        is_unknown(name, "io.") || name.starts_with("memory.swap.") && is_unknown(name, "memory.")
    });
    host.files.extend(names(&has));
    host.files.extend(assumed.iter().cloned());
    host.assumed_files.append(&mut assumed);
}

/// Returns major and minor number of a kernel release. Returns zeros if they cannot be parsed; the
/// capability check then refuses no feature because of the kernel.
fn kernel(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        host::error_chain::chain,
        state::{
            record::{EXAMPLE, Record},
            registry::Registry,
            store::Store,
        },
    };
    use nri_mountinfo::parse;
    use std::sync::Arc;

    #[tokio::test]
    async fn resources_that_are_nested_too_deeply_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let config = nri_config::Config::default();
        let manager = ResourceManager::new(Arc::new(registry), Audit::off(), &config);
        let record: Record = serde_json::from_str(EXAMPLE).unwrap();
        let deep = (0..nri_spec::MAX_DEPTH).fold(json!({}), |inner, _| json!({"a": inner}));
        let (before, owners) = (json!({}), FieldOwners::new());
        let checked = manager.check_resources(&record.runtime, &before, &deep, &owners).await;
        let expected = "resources: OCI config is nested more than 127 levels deep";
        assert_eq!(chain(&checked.unwrap_err()), expected);
    }

    #[test]
    fn a_hybrid_host_counts_as_cgroup_v1() {
        let mounts = parse(
            b"\
1 0 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
2 1 0:2 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
3 1 0:3 / /sys/fs/cgroup/nowhere rw - cgroup cgroup rw,blkio
4 1 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
5 1 0:5 / /sys/fs/resctrl rw - resctrl resctrl rw
",
        );
        let host = host_of(&mounts, "6.1.0-18-amd64");
        assert!(!host.cgroup_v2 && host.resctrl);
        assert!(["cpu", "cpuacct", "io"].iter().all(|c| host.controllers.contains(*c)), "{host:?}");
        assert!(!host.controllers.contains("memory"));
        assert_eq!(host.kernel, (6, 1));
    }

    #[test]
    fn the_last_mount_on_a_mount_point_counts() {
        let mounts = parse(
            b"\
1 0 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw
2 1 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
",
        );
        assert!(host_of(&mounts, "5.15").cgroup_v2);
        assert!(!host_of(&[], "").cgroup_v2);
    }

    #[test]
    fn controller_files_are_found_in_children_of_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let check = |expected: &[&str], assumed| {
            let mut host = HostCapabilities::default();
            add_files(&mut host, dir.path());
            let found = &host.files;
            assert!(found.iter().map(String::as_str).eq(expected.iter().copied()), "{found:?}");
            assert_eq!(host.assumed_files.len(), assumed);
        };
        // No cgroup has `io.max` or `memory.max`, so the files of their controllers are assumed to
        // exist.
        check(&["io.bfq.weight", "io.weight", "memory.swap.max"], 3);
        let below = dir.path().join("system.slice");
        fs::create_dir(&below).unwrap();
        check(&["io.bfq.weight", "io.weight", "memory.swap.max"], 3);
        for file in ["io.max", "io.weight", "cpu.rt_period_us"] {
            fs::write(below.join(file), "").unwrap();
        }
        check(&["cpu.rt_period_us", "io.weight", "memory.swap.max"], 1);
        // Without accounting of swap.
        fs::write(below.join("memory.max"), "").unwrap();
        check(&["cpu.rt_period_us", "io.weight"], 0);
        fs::write(below.join("memory.swap.max"), "").unwrap();
        check(&["cpu.rt_period_us", "io.weight", "memory.swap.max"], 0);
    }
}
