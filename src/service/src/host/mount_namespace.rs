//! Mount namespaces of callers that do not run in the mount namespace of `nrid`. The paths in a
//! caller's request must be resolved in the caller's namespace: the bundle, the root directory of
//! the runtime, the sources of mounts. Start from [`MountNamespaces::of_process`].
//!
//! Each namespace is held open once, as long as a container or a request refers to it. The record
//! of a container stores the inode of the namespace. After a restart, [`MountNamespaces::find`]
//! searches for a process in that namespace, such as the engine or the parent of the container's
//! process.

use nri_trust::Owners;
use parking_lot::Mutex;
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2},
    process::{chroot, fchdir, geteuid},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, Metadata},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    sync::{Arc, Weak},
};

/// A mount namespace, held open.
#[derive(Debug)]
pub struct MountNamespace {
    inode: u64,
    /// User namespace of a process in the namespace, if it has to be entered first.
    user: Option<OwnedFd>,
    namespace: OwnedFd,
    /// Root directory of a process in the namespace.
    root: OwnedFd,
}

impl MountNamespace {
    fn of_process(pid: i32) -> io::Result<Self> {
        let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
        let inode = namespace.metadata()?.ino();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
        Ok(Self { inode, user: user_namespace_to_enter(pid)?, namespace: namespace.into(), root })
    }

    /// Returns the inode, which identifies the namespace as long as the namespace exists.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Opens a path as a process in this namespace would.
    ///
    /// # Errors
    /// The path does not exist, or cannot be opened.
    pub fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        Ok(openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?)
    }

    /// Returns the metadata of a file in this namespace, links followed.
    ///
    /// # Errors
    /// The file does not exist, or cannot be opened.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open(path, OFlags::PATH)?).metadata()
    }

    /// Returns the descriptors for [`enter`].
    pub fn descriptors(&self) -> NamespaceDescriptors<'_> {
        NamespaceDescriptors {
            user: self.user.as_ref().map(AsFd::as_fd),
            mount: self.namespace.as_fd(),
            root: self.root.as_fd(),
        }
    }
}

/// The mount namespace of a call, by its inode.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CallerNamespace {
    pub(super) inode: u64,
    /// The namespace; `None` if no process was found in it after a restart of `nrid`.
    #[serde(skip)]
    pub(super) open: Option<Arc<MountNamespace>>,
}

impl PartialEq for CallerNamespace {
    fn eq(&self, other: &Self) -> bool {
        self.inode == other.inode
    }
}

/// What [`enter`] enters.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceDescriptors<'a> {
    /// User namespace to enter first, if any.
    pub user: Option<BorrowedFd<'a>>,
    /// Mount namespace.
    pub mount: BorrowedFd<'a>,
    /// Root directory.
    pub root: BorrowedFd<'a>,
}

/// Opens the user namespace of a process if this one has to enter it first: that of a rootless
/// engine, from an `nrid` outside of it, which has capabilities only inside.
fn user_namespace_to_enter(pid: i32) -> io::Result<Option<OwnedFd>> {
    if geteuid().is_root() {
        return Ok(None);
    }
    let namespace = File::open(format!("/proc/{pid}/ns/user"))?;
    let is_own = fs::metadata("/proc/self/ns/user")?.ino() == namespace.metadata()?.ino();
    Ok((!is_own).then(|| namespace.into()))
}

/// Moves this process into a namespace. The process must have one thread. Makes system calls only,
/// so that it may be called between fork and exec.
///
/// # Errors
/// The process lacks CAP_SYS_ADMIN or CAP_SYS_CHROOT, or did not make the user namespace.
pub fn enter(descriptors: NamespaceDescriptors<'_>) -> io::Result<()> {
    let NamespaceDescriptors { user, mount, root } = descriptors;
    if let Some(user) = user {
        move_into_link_name_space(user, Some(LinkNameSpaceType::User))?;
    }
    move_into_link_name_space(mount, Some(LinkNameSpaceType::Mount))?;
    // setns(2) has set the root directory to that of the namespace; the caller's may differ.
    fchdir(root)?;
    chroot(c".")?;
    Ok(())
}

/// The mount namespaces that are held open.
#[derive(Debug)]
pub struct MountNamespaces {
    /// Inode of the namespace of this process; `None` if it is unknown.
    own: Option<u64>,
    known: Mutex<HashMap<u64, Weak<MountNamespace>>>,
}

impl Default for MountNamespaces {
    fn default() -> Self {
        Self { own: inode_of("self"), known: Mutex::default() }
    }
}

impl MountNamespaces {
    /// Returns the namespace of a process; `None` if it is that of `nrid`, or cannot be read.
    pub fn of_process(&self, pid: i32) -> Option<Arc<MountNamespace>> {
        let inode = inode_of(&pid.to_string())?;
        if self.own.is_none_or(|own| own == inode) {
            return None;
        }
        let mut known = self.known.lock();
        if let Some(namespace) = known.get(&inode).and_then(Weak::upgrade) {
            return Some(namespace);
        }
        known.retain(|_, namespace| namespace.strong_count() > 0);
        let opened = match MountNamespace::of_process(pid) {
            Ok(opened) => Arc::new(opened),
            Err(error) => {
                tracing::warn!(pid, %error, "cannot open the mount namespace of a process");
                return None;
            }
        };
        // If the pid was reused since `inode` was read, this is the namespace of the new process:
        // the key is the inode of the namespace that was opened.
        known.insert(opened.inode, Arc::downgrade(&opened));
        Some(opened)
    }

    /// Finds the namespaces with these inodes: searches `/proc` for host processes in them. Other
    /// processes do not count, because the kernel reuses inode numbers: the number of a former
    /// namespace may now belong to a container, whose files must not be run as the runtime.
    pub fn find(&self, inodes: &HashSet<u64>) -> HashMap<u64, Arc<MountNamespace>> {
        let mut found = HashMap::new();
        if inodes.is_empty() {
            return found;
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok()) {
            let inode = inode_of(&pid.to_string());
            let Some(inode) = inode.filter(|i| inodes.contains(i) && !found.contains_key(i)) else {
                continue;
            };
            let Some(namespace) = self.of_process(pid) else { continue };
            // Checked after the namespace and the root directory are open, because the pid may have
            // been reused.
            if namespace.inode == inode && is_of_host(pid) && has_root_of_host(&namespace) {
                found.insert(inode, namespace);
            }
        }
        found
    }

    /// Whether this is the namespace of `nrid`.
    pub fn is_own(&self, inode: u64) -> bool {
        self.own == Some(inode)
    }
}

/// Whether a process runs as root or as the user of `nrid`, in the user namespace and the pid
/// namespace of `nrid`. The engine of a user without root has a user namespace of its own; its
/// containers have pid namespaces of their own, or a root directory.
fn is_of_host(pid: i32) -> bool {
    let of = |name: &str| fs::metadata(format!("/proc/{pid}/ns/{name}")).ok().map(|m| m.ino());
    let own = |name: &str| fs::metadata(format!("/proc/self/ns/{name}")).ok().map(|m| m.ino());
    let has_our = |name: &str| of(name).is_some() && of(name) == own(name);
    let status = procfs::process::Process::new(pid).and_then(|process| process.status());
    let owners = Owners::of_this_process();
    (has_our("user") || !geteuid().is_root())
        && has_our("pid")
        && status.is_ok_and(|s| {
            [s.ruid, s.euid, s.suid, s.fuid].into_iter().all(|uid| owners.contains(uid))
        })
}

/// Whether the root directory of a namespace is that of `nrid`: a container that shares the pid
/// namespace of the host has a root directory of its own.
fn has_root_of_host(namespace: &MountNamespace) -> bool {
    let id = |m: Metadata| (m.dev(), m.ino());
    let root = namespace.metadata(Path::new("/")).ok().map(id);
    root.is_some() && root == fs::metadata("/").ok().map(id)
}

fn inode_of(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/mnt")).ok().map(|m| m.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        process::{Child, Command, Stdio},
    };

    /// Starts a process in a new mount namespace, and returns the inode of the namespace. `outer`
    /// is a command that runs the process, such as `unshare --pid`.
    fn unshared(outer: &[&str]) -> (Child, u64) {
        let mut child = Command::new("env")
            .args(outer)
            .args(["unshare", "--mount"])
            .args(["sh", "-c", "stat -L -c %i /proc/self/ns/mnt; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut inode = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut inode).unwrap();
        (child, inode.trim().parse().unwrap())
    }

    #[test]
    fn only_namespaces_of_host_processes_are_found_again() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make mount namespaces");
            return;
        }
        for (outer, is_found) in [
            (&[][..], true),
            (&["unshare", "--pid", "--fork", "--kill-child"], false),
            (&["unshare", "--user", "--map-root-user"], false),
            (&["setpriv", "--reuid", "65534", "unshare", "--user", "--map-root-user"], false),
        ] {
            let (mut child, inode) = unshared(outer);
            let found = MountNamespaces::default().find(&HashSet::from([inode]));
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found.contains_key(&inode), is_found, "{outer:?}");
        }
    }
}
