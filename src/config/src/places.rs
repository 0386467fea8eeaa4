//! Where things are when nothing else is said.

use std::path::{Path, PathBuf};

/// The configuration file.
pub const CONFIG_FILE: &str = "/etc/nri-container-runtime/config.toml";
/// Names another configuration file.
pub const CONFIG_ENV: &str = "NRI_CONTAINER_RUNTIME_CONFIG";
/// Names the real runtime.
pub const RUNTIME_ENV: &str = "NRI_CONTAINER_RUNTIME_PATH";
/// Set to 1: the wrapper is a plain call of the real runtime.
pub const BYPASS_ENV: &str = "NRI_CONTAINER_RUNTIME_BYPASS";
/// Exists: the wrapper is a plain call of the real runtime.
pub const BYPASS_FILE: &str = "/etc/nri-container-runtime/bypass";
/// Where `nrid` and the hook are, when they are not beside the wrapper.
pub const LIBEXEC_DIR: &str = "/usr/libexec/nri-container-runtime";
/// The plugins' directory that all NRI runtimes share.
pub const PLUGIN_DIR: &str = "/opt/nri/plugins";
/// The socket that NRI plugins look for.
pub const PLUGIN_SOCKET: &str = "/var/run/nri/nri.sock";
/// Real runtimes to try, in order.
pub const DEFAULT_RUNTIMES: [&str; 3] = ["runc", "crun", "youki"];
/// Searched after PATH, which engines may leave unset.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whose `nrid` it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Root of the host.
    Host,
    /// A user, or root of a user namespace.
    User {
        /// User id as seen by the process.
        uid: u32,
        /// The same as seen from outside of its user namespace, if it is in one.
        outer: Option<u32>,
        /// `$XDG_RUNTIME_DIR`, if it is absolute
        runtime_dir: Option<PathBuf>,
    },
}

impl Owner {
    /// Tells from the text of `/proc/self/uid_map`, the effective uid and `$XDG_RUNTIME_DIR`.
    ///
    /// Root of a user namespace is not root of the host: rootless Podman runs the wrapper as uid 0.
    pub fn of(uid_map: &str, euid: u32, runtime_dir: Option<PathBuf>) -> Self {
        let initial = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
        if initial && euid == 0 {
            return Self::Host;
        }
        // As the XDG Base Directory Specification wants it: others are ignored. The working
        // directory is nobody's place for sockets.
        let runtime_dir = runtime_dir.filter(|dir| dir.is_absolute());
        let outer = if initial { None } else { outer(uid_map, euid) };
        Self::User { uid: euid, outer, runtime_dir }
    }
}

/// The default directory of sockets, locks and records.
pub fn state_dir(owner: &Owner) -> PathBuf {
    const NAME: &str = "nri-container-runtime";
    match owner {
        Owner::Host => Path::new("/run").join(NAME),
        Owner::User { runtime_dir: Some(dir), .. } => dir.join(NAME),
        Owner::User { uid, outer: None, .. } => Path::new("/tmp").join(format!("{NAME}-{uid}")),
        // Root of a user namespace is another user in each of them.
        Owner::User { uid, outer: Some(outer), .. } => {
            Path::new("/tmp").join(format!("{NAME}-{outer}-{uid}"))
        }
    }
}

/// Who a user of a user namespace is outside of it.
fn outer(uid_map: &str, uid: u32) -> Option<u32> {
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map_while(|n| n.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let at = uid.checked_sub(inside).filter(|at| *at < count)?;
        outside.checked_add(at)
    };
    uid_map.lines().find_map(range)
}

/// Where a runtime of this base name keeps its containers when it is not told by `--root`.
///
/// crun follows `$XDG_RUNTIME_DIR` also as root of the host (`crun: src/libcrun/status.c`); runc
/// and youki do not (`runc: rootless_linux.go`, `youki: crates/youki/src/rootpath.rs`). For root of
/// a user namespace runc asks `$USER`, too: "root" there, which only a namespace made by root has,
/// is taken for a user here.
pub fn runtime_root(runtime: &str, owner: &Owner, runtime_dir: Option<&Path>) -> PathBuf {
    let name = ["crun", "youki"].into_iter().find(|n| runtime.contains(n)).unwrap_or("runc");
    let follows = name == "crun" || *owner != Owner::Host;
    match runtime_dir.filter(|dir| follows && !dir.as_os_str().is_empty()) {
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
            state_dir(&Owner::of(map, uid, xdg.map(Into::into)))
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
        // Neither the working directory nor anything in it.
        for odd in ["", ".", "run", "../run"] {
            assert_eq!(
                dir(host, 1000, Some(odd)),
                Path::new("/tmp/nri-container-runtime-1000"),
                "{odd:?}"
            );
        }
    }

    #[test]
    fn roots_of_runtimes() {
        let user = Owner::User { uid: 0, outer: None, runtime_dir: None };
        for (name, owner, xdg, expected) in [
            ("runc", &Owner::Host, None, "/run/runc"),
            ("runc", &Owner::Host, Some("/x"), "/run/runc"),
            ("runc", &user, Some("/x"), "/x/runc"),
            ("runc", &user, None, "/run/runc"),
            ("crun-1.28", &Owner::Host, Some("/x"), "/x/crun"),
            ("crun", &Owner::Host, Some(""), "/run/crun"),
            ("youki", &Owner::Host, Some("/x"), "/run/youki"),
            ("youki", &user, Some("/x"), "/x/youki"),
            ("other", &user, None, "/run/runc"),
        ] {
            let root = runtime_root(name, owner, xdg.map(Path::new));
            assert_eq!(root, Path::new(expected), "{name} {owner:?} {xdg:?}");
        }
    }
}
