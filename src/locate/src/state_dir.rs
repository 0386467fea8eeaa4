//! The default state directory, and the default `--root` of the low-level runtimes. Both depend on
//! the user and the user namespace.

use crate::{environment::Environment, paths::STATE_DIR};
use std::path::{Path, PathBuf};

/// User whose `nrid` this program starts or connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NridOwner {
    /// Root of the host.
    Host,
    /// A user, or root of a user namespace.
    User {
        /// User id as seen by the process.
        uid: u32,
        /// Id of the same user outside of the user namespace; `None` in the initial user namespace.
        outer: Option<u32>,
        /// `$XDG_RUNTIME_DIR`, if it is absolute.
        runtime_dir: Option<PathBuf>,
    },
}

impl NridOwner {
    /// The owner of this process, by its user namespace, its effective uid and `$XDG_RUNTIME_DIR`.
    pub fn of_this_process(environment: &Environment) -> Self {
        let uid_map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let runtime_dir = environment.var("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self::of(&uid_map, rustix::process::geteuid().as_raw(), runtime_dir)
    }

    /// The owner of a process with this text in `/proc/self/uid_map`.
    ///
    /// Root of a user namespace is not root of the host: rootless Podman runs the wrapper as uid 0.
    pub fn of(uid_map: &str, euid: u32, runtime_dir: Option<PathBuf>) -> Self {
        let initial = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
        if initial && euid == 0 {
            return Self::Host;
        }
        // The XDG Base Directory Specification requires that relative paths are ignored. A program
        // in another working directory would not find a socket with a relative path.
        let runtime_dir = runtime_dir.filter(|dir| dir.is_absolute());
        let outer = if initial { None } else { outer_uid(uid_map, euid) };
        Self::User { uid: euid, outer, runtime_dir }
    }

    /// The default directory of sockets, locks and records.
    pub fn state_dir(&self) -> PathBuf {
        const NAME: &str = "nri-container-runtime";
        match self {
            Self::Host => STATE_DIR.into(),
            Self::User { runtime_dir: Some(dir), .. } => dir.join(NAME),
            Self::User { uid, outer: None, .. } => Path::new("/tmp").join(format!("{NAME}-{uid}")),
            // The same uid is another user in each user namespace, so the outer id is needed, too.
            Self::User { uid, outer: Some(outer), .. } => {
                Path::new("/tmp").join(format!("{NAME}-{outer}-{uid}"))
            }
        }
    }
}

/// Converts the id of a user in a user namespace to the id outside of it.
fn outer_uid(uid_map: &str, uid: u32) -> Option<u32> {
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map_while(|n| n.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let offset = uid.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    };
    uid_map.lines().find_map(range)
}

/// Directory where a runtime of this base name keeps its containers when `--root` is not given.
///
/// crun follows `$XDG_RUNTIME_DIR` also as root of the host (`crun: src/libcrun/status.c`); runc
/// and youki do not (`runc: rootless_linux.go`, `youki: crates/youki/src/rootpath.rs`). As root of
/// a user namespace runc uses `/run/runc` if `$USER` is "root". This function ignores that case,
/// which is rare: `$USER` is normally "root" only where root itself created the user namespace.
pub fn runtime_root(runtime: &str, owner: &NridOwner, runtime_dir: Option<&Path>) -> PathBuf {
    let name = ["crun", "youki"].into_iter().find(|n| runtime.contains(n)).unwrap_or("runc");
    let follows_variable = name == "crun" || *owner != NridOwner::Host;
    match runtime_dir.filter(|dir| follows_variable && !dir.as_os_str().is_empty()) {
        Some(dir) => dir.join(name),
        None => Path::new("/run").join(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_a_user_namespace_is_not_the_host() {
        let dir = |map: &str, uid, xdg: Option<&str>| {
            NridOwner::of(map, uid, xdg.map(Into::into)).state_dir()
        };
        let host = "         0          0 4294967295\n";
        assert_eq!(dir(host, 0, Some("/run/user/0")), Path::new("/run/nri-container-runtime"));
        assert_eq!(
            dir(host, 1000, Some("/run/user/1000")),
            Path::new("/run/user/1000/nri-container-runtime")
        );
        let rootless = "0 1000 1\n1 100000 65536\n";
        assert_eq!(
            dir(rootless, 0, Some("/run/user/1000")),
            Path::new("/run/user/1000/nri-container-runtime")
        );
        assert_eq!(dir(rootless, 0, None), Path::new("/tmp/nri-container-runtime-1000-0"));
        assert_eq!(dir(rootless, 3, None), Path::new("/tmp/nri-container-runtime-100002-3"));
        assert_eq!(dir(host, 1000, None), Path::new("/tmp/nri-container-runtime-1000"));
        // Relative paths are ignored.
        for odd in ["", ".", "run", "../run"] {
            assert_eq!(
                dir(host, 1000, Some(odd)),
                Path::new("/tmp/nri-container-runtime-1000"),
                "{odd:?}"
            );
        }
    }

    #[test]
    fn default_roots_depend_on_runtime_and_user() {
        let user = NridOwner::User { uid: 0, outer: None, runtime_dir: None };
        for (name, owner, xdg, expected) in [
            ("runc", &NridOwner::Host, None, "/run/runc"),
            ("runc", &NridOwner::Host, Some("/x"), "/run/runc"),
            ("runc", &user, Some("/x"), "/x/runc"),
            ("runc", &user, None, "/run/runc"),
            ("crun-1.28", &NridOwner::Host, Some("/x"), "/x/crun"),
            ("crun", &NridOwner::Host, Some(""), "/run/crun"),
            ("youki", &NridOwner::Host, Some("/x"), "/run/youki"),
            ("youki", &user, Some("/x"), "/x/youki"),
            ("other", &user, None, "/run/runc"),
        ] {
            let root = runtime_root(name, owner, xdg.map(Path::new));
            assert_eq!(root, Path::new(expected), "{name} {owner:?} {xdg:?}");
        }
    }
}
