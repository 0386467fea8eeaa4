//! Entry into the namespaces of the host. The process that starts `nrid` may have namespaces of its
//! own, for example an engine whose systemd unit has private mounts. `nrid` serves all engines of
//! the host, so it enters the namespaces of process 1. Start from [`enter_host`].
//!
//! An engine in a container, and a rootless engine, each have an `nrid` of their own, which stays
//! in the namespaces of its engine. `nrid` recognizes this case by a user namespace or a root
//! directory that differs from that of process 1. In a container with a pid namespace of its own,
//! process 1 is a process of the container.

use nri_control::Inherited;
use nri_locate::{Environment, UserDirs};
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, fstat, openat2, stat},
    process::{chroot, fchdir, getpid},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use std::{
    fs::{self, File, metadata},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

/// What to do about a restriction that was inherited from the process that started `nrid`.
pub(super) const START_AGAIN: &str = "`nrictl stop`, then start nri-container-runtime.service, or \
     `nrictl start` from a root shell without this restriction; containers keep running.";

/// What a user does about it.
pub(super) const START_AS_USER: &str = "`nrictl stop`, then `systemctl --user start \
     nri-container-runtime.socket`, or `nrictl start` from a login shell; containers keep running.";

/// Directories of the namespaces of process 1 and of this process.
const OF_HOST: &str = "/proc/1/ns";
const OWN: &str = "/proc/self/ns";

/// The namespaces to enter. The mount namespace is the last one, because entering it also changes
/// the root directory of this process.
const ENTERED: [(&str, LinkNameSpaceType); 6] = [
    ("net", LinkNameSpaceType::Network),
    ("ipc", LinkNameSpaceType::InterProcessCommunication),
    ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
    ("cgroup", LinkNameSpaceType::ControlGroup),
    ("time", LinkNameSpaceType::Time),
    ("mnt", LinkNameSpaceType::Mount),
];

/// Reason why `nrid` stays in its namespaces.
#[derive(Debug, thiserror::Error)]
enum Kept {
    #[error("process 1 has another user namespace")]
    UserNamespace,
    #[error("process 1 has another root directory")]
    Root,
    #[error("the namespaces of process 1 cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error(
        "on the host (mount namespace of process 1), the path {0} does not lead to the state \
         directory that nrid uses"
    )]
    StateDir(PathBuf),
}

/// A state directory that the process that started `nrid` does not share with the host.
#[derive(Debug, thiserror::Error)]
#[error(
    "on the host (mount namespace of process 1), where nrid runs, the path {0} does not lead to \
     the state directory of the engine: let the engine use the host's directory (in a systemd \
     unit: no private /run or /tmp), or set state_dir to a directory that engine and host share"
)]
pub struct HiddenStateDir(PathBuf);

/// A `/proc` that shows the processes of another pid namespace.
#[derive(Debug, thiserror::Error)]
#[error(
    "/proc belongs to another pid namespace, so nrid cannot find processes in it: mount \
     proc in the pid namespace of the engine, or let the engine use the host's pid namespace"
)]
pub struct WrongProc;

/// Whether this is the `nrid` of a user, for rootless engines. It keeps the namespaces, limits and
/// other attributes that the user has: those of process 1 are not for users.
pub fn is_of_user() -> bool {
    UserDirs::of_this_process(&Environment::of_this_process()).is_some()
}

/// Checks that `/proc` shows the processes of this pid namespace.
///
/// # Errors
/// `/proc` shows the processes of another pid namespace.
pub fn check_proc() -> Result<(), WrongProc> {
    let own = getpid().as_raw_nonzero().to_string();
    // Without /proc, the first read of a file in it reports the error.
    let is_wrong = fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() != own.as_str());
    if is_wrong { Err(WrongProc) } else { Ok(()) }
}

/// Enters the namespaces of process 1, if this process is on the host. Returns a description of the
/// namespaces that differ afterwards. No second thread may exist yet.
///
/// # Errors
/// On the host, the path `state_dir` does not lead to the same directory, so the process that
/// started `nrid` would not find the sockets. In a restart (`is_restart`), the sockets exist
/// already, so the namespaces are kept instead.
pub fn enter_host(
    state_dir: Option<&Path>,
    is_restart: bool,
) -> Result<Option<Inherited>, HiddenStateDir> {
    if is_of_user() {
        return Ok(None);
    }
    let kept = match Host::find() {
        Ok(None) => return Ok(None),
        Ok(Some(host)) => match state_dir.filter(|dir| dir.exists() && !host.has(dir)) {
            None => return Ok(host.enter()),
            Some(dir) if is_restart => Kept::StateDir(dir.to_owned()),
            Some(dir) => return Err(HiddenStateDir(dir.to_owned())),
        },
        Err(kept) => kept,
    };
    Ok(Some(Inherited {
        what: format!("nrid is in the namespaces of the process that started it: {kept}"),
        effect: "nrid uses the plugins, configuration and sockets of these namespaces".into(),
        remedy: "Nothing is to be done if the engine runs in a container or rootless. Otherwise \
                 `nrictl stop`, then `nrictl start` on the host; containers keep running."
            .into(),
    }))
}

/// The namespaces of process 1.
struct Host {
    root: OwnedFd,
    /// Namespaces that differ from those of this process.
    others: Vec<(&'static str, LinkNameSpaceType, File)>,
}

impl Host {
    /// Opens the namespaces of process 1; `None` if this process is in all of them.
    fn find() -> Result<Option<Self>, Kept> {
        if !is_same("user")? {
            return Err(Kept::UserNamespace);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/proc/1/root", flags, Mode::empty());
        let root = root.map_err(io::Error::from)?;
        if !is_same_file(root.as_fd(), Path::new("/"))? {
            return Err(Kept::Root);
        }
        let mut others = Vec::new();
        for (name, kind) in ENTERED {
            match is_same(name) {
                Ok(true) => {}
                Ok(false) => others.push((name, kind, File::open(format!("{OF_HOST}/{name}"))?)),
                // An older kernel has no namespaces of this kind.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((!others.is_empty()).then_some(Self { root, others }))
    }

    /// Whether a directory of this process is the one with the same path on the host.
    fn has(&self, dir: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(&self.root, dir, flags, Mode::empty(), ResolveFlags::IN_ROOT)
            .is_ok_and(|found| is_same_file(found.as_fd(), dir).unwrap_or(false))
    }

    /// Enters the namespaces, and returns those that could not be entered.
    fn enter(self) -> Option<Inherited> {
        let mut failed = Vec::new();
        for (name, kind, file) in self.others {
            let mut entered =
                move_into_link_name_space(file.as_fd(), Some(kind)).map_err(io::Error::from);
            if kind == LinkNameSpaceType::Mount && entered.is_ok() {
                // The root directory is now that of the namespace; process 1 may have another one.
                entered = fchdir(&self.root).and_then(|()| chroot(".")).map_err(io::Error::from);
            }
            if let Err(error) = entered {
                failed.push(format!("{name}: {error}"));
            }
        }
        (!failed.is_empty()).then(|| Inherited {
            what: format!("namespaces of process 1 cannot be entered ({})", failed.join("; ")),
            effect: "plugins, configuration and sockets may differ from those of the host".into(),
            remedy: START_AGAIN.into(),
        })
    }
}

/// Whether process 1 and this process are in the same namespace of this kind.
pub(super) fn is_same(name: &str) -> io::Result<bool> {
    let id = |dir| metadata(format!("{dir}/{name}")).map(|m| (m.dev(), m.ino()));
    Ok(id(OWN)? == id(OF_HOST)?)
}

fn is_same_file(file: std::os::fd::BorrowedFd<'_>, path: &Path) -> io::Result<bool> {
    let (open, at_path) = (fstat(file)?, stat(path)?);
    Ok((open.st_dev, open.st_ino) == (at_path.st_dev, at_path.st_ino))
}
