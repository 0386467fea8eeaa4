//! What `nri_spec::capability` has to know of this host: the version of a real runtime, and what
//! cgroups, resctrl and the kernel have.
//!
//! A runtime is asked for its version once; another file at its path is asked anew. The rest is
//! read when it is needed. Start from [`Versions`] and [`host`].

use crate::{host::runtime::LowLevelRuntime, resources::keeper::Keeper};
use nri_api::proto::FieldOwners;
use nri_host::mountinfo::{MountInfo, mounts};
use nri_spec::{
    OciConfig,
    capability::{self, HostCapabilities, RuntimeVersion, UnsupportedFields},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The runtimes that were asked for their versions.
#[derive(Debug, Default)]
pub struct Versions(Mutex<HashMap<File, RuntimeVersion>>);

/// A program file: what stands at the path now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct File {
    path: PathBuf,
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Versions {
    /// Which runtime this is. One that does not say is none that is known.
    pub async fn of(&self, runtime: &LowLevelRuntime) -> RuntimeVersion {
        let unknown = RuntimeVersion { kind: None, version: None };
        let Some(file) = File::of(runtime.path()) else { return unknown };
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&file) {
            return known.clone();
        }
        let found = match runtime.version().await {
            Ok(said) => RuntimeVersion::parse(&String::from_utf8_lossy(&said)),
            Err(error) => {
                // It may be better next time.
                tracing::warn!(%error, "the runtime does not tell its version");
                return unknown;
            }
        };
        tracing::info!(path = %file.path.display(), runtime = %found, "runtime");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(file, found.clone());
        found
    }
}

impl File {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        let changed = (meta.mtime(), meta.mtime_nsec());
        Some(Self { path: path.to_owned(), device: meta.dev(), inode: meta.ino(), changed })
    }
}

impl Keeper {
    /// Checks what plugins made of a document.
    ///
    /// # Errors
    /// What the runtime cannot do here.
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
        capability::check(before, after, owners, &runtime, &host())
    }

    /// The same for the resources of a container that exists.
    ///
    /// # Errors
    /// What the runtime cannot do here.
    pub async fn check_resources(
        &self,
        runtime: &LowLevelRuntime,
        before: &Value,
        after: &Value,
        owners: &FieldOwners,
    ) -> Result<(), UnsupportedFields> {
        let document =
            |resources: &Value| OciConfig::from_value(json!({"linux": {"resources": resources}}));
        match (document(before), document(after)) {
            (Ok(before), Ok(after)) => self.check(runtime, &before, &after, owners).await,
            // Too deep for a document: then it is nothing that a plugin can have asked for.
            _ => Ok(()),
        }
    }
}

/// Returns what this host has.
pub fn host() -> HostCapabilities {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    host_of(&mounts(), &release)
}

fn host_of(mounts: &[MountInfo], release: &str) -> HostCapabilities {
    let root = Path::new("/sys/fs/cgroup");
    // The last mount on a point is on top.
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
        host.files = files(root);
    } else {
        for mount in mounts.iter().filter(|m| m.fs_type == "cgroup") {
            for option in &mount.super_options {
                if option == "blkio" || option == "cpu" {
                    host.files.append(&mut files(&mount.point));
                }
                // Options that are no controllers do no harm here.
                let controller = if option == "blkio" { "io" } else { option };
                host.controllers.insert(controller.to_owned());
            }
        }
    }
    host
}

/// Which of the files there are in the cgroups of a hierarchy. The root of v2 has none; and where
/// no cgroup below it has a controller yet, its files are not known, and taken to be there.
fn files(root: &Path) -> BTreeSet<String> {
    let below =
        fs::read_dir(root).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir());
    let dirs: Vec<PathBuf> = below.chain([root.to_owned()]).collect();
    let has = |name: &str| dirs.iter().any(|dir| dir.join(name).exists());
    let is_unknown = |name: &str| name.starts_with("io.") && !has("io.max");
    let names = capability::FILES.into_iter().filter(|name| has(name) || is_unknown(name));
    names.map(str::to_owned).collect()
}

/// Major and minor number; zeros if they are not understood, with which nothing is refused for
/// being new.
fn kernel(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_control::OsText;
    use nri_host::mountinfo::parse_mounts;

    #[test]
    fn hybrid_and_v1_are_v1() {
        let mounts = parse_mounts(
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
    fn the_mount_on_top_counts() {
        let mounts = parse_mounts(
            b"\
1 0 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw
2 1 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
",
        );
        assert!(host_of(&mounts, "5.15").cgroup_v2);
        assert!(!host_of(&[], "").cgroup_v2);
    }

    #[test]
    fn files_of_controllers() {
        let dir = tempfile::tempdir().unwrap();
        let check = |expected: &[&str]| {
            let found = files(dir.path());
            assert!(found.iter().map(String::as_str).eq(expected.iter().copied()), "{found:?}");
        };
        check(&["io.bfq.weight", "io.weight"]);
        let below = dir.path().join("system.slice");
        fs::create_dir(&below).unwrap();
        check(&["io.bfq.weight", "io.weight"]);
        for file in ["io.max", "io.weight", "cpu.rt_period_us"] {
            fs::write(below.join(file), "").unwrap();
        }
        check(&["cpu.rt_period_us", "io.weight"]);
    }

    #[tokio::test]
    async fn a_runtime_is_asked_once_and_a_new_one_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, asked) = (dir.path().join("runc"), dir.path().join("asked"));
        let install = |version: &str| {
            let script = format!(
                "#!/bin/sh\n[ \"$*\" = --version ] || exit 1\necho x >>{}\n\
                 echo runc version {version}\n",
                asked.display()
            );
            // Written by another process: a file that this one has open for writing, be it in a
            // child that was just forked, cannot be run.
            let write =
                "printf %s \"$1\" >\"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
            let path = path.as_os_str();
            let done = std::process::Command::new("sh")
                .args(["-c", write, "sh", &script])
                .arg(path)
                .status();
            assert!(done.unwrap().success());
        };
        let globals = [OsText::from("--root"), OsText::from("/r")];
        let text = OsText::from(path.to_str().unwrap());
        let runtime = LowLevelRuntime::new(
            &text,
            &globals,
            None,
            &["PATH=/bin:/usr/bin".into()],
            &"/".into(),
        );
        let versions = Versions::default();
        assert_eq!(versions.of(&runtime).await.to_string(), "the runtime");
        for version in ["1.1.5", "1.3.6"] {
            install(version);
            for _ in 0..2 {
                assert_eq!(versions.of(&runtime).await.to_string(), format!("runc {version}"));
            }
        }
        assert_eq!(fs::read_to_string(&asked).unwrap(), "x\nx\n");
    }
}
