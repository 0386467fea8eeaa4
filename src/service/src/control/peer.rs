//! Authorization of peers of the control socket. Requests name programs that `nrid` runs with its
//! own rights, so a peer must have the user and the pid namespace of `nrid`. If `nrid` is root of
//! the host, the peer must also have CAP_SYS_ADMIN, without which it could not create a container.
//!
//! Directory and mode of the socket exclude other users, unless a systemd unit has set another path
//! and mode. But neither excludes a container that has the directory mounted and runs as root, or a
//! launched plugin that runs as root without capabilities. Such a plugin cannot regain the
//! capability, and so neither can the processes that it starts, whatever group, session or cgroup
//! they move to. Hence capabilities are checked, and not descent.

use nix::sys::socket::{
    getsockopt,
    sockopt::{PeerCredentials, PeerPidfd},
};
use nri_locate::{Environment, NridOwner};
use nri_trust::Owners;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Pid,
    thread::{CapabilitySet, capabilities},
};
use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    sync::{LazyLock, OnceLock},
};

/// Reason why a peer may not send requests.
#[derive(Debug, thiserror::Error)]
pub enum CallerRefusal {
    /// The kernel does not report the peer.
    #[error("the peer is unknown: {0}")]
    Unknown(#[from] nix::Error),
    /// The peer has another user.
    #[error("the peer runs as user {0}, which is not the user of nrid")]
    User(u32),
    /// The peer is in another pid namespace, such as that of a pod.
    #[error(
        "the peer is in another pid namespace than nrid; plugins in containers connect to \
         plugins/nri.sock, probes to plugins/ready.sock"
    )]
    PidNamespace,
    /// The namespaces or capabilities of the peer cannot be determined.
    #[error("the namespaces and capabilities of the peer are unknown: {0}")]
    UnknownRights(#[source] io::Error),
    /// The peer could not create a container by itself.
    #[error(
        "the peer does not have CAP_SYS_ADMIN on the host; launched plugins with fewer \
         capabilities than nrid may not send requests"
    )]
    NotPrivileged,
    /// The pid namespace of `nrid` does not contain the peer: an engine in a container started
    /// `nrid` in a state directory that it shares with the host or with another container.
    #[error(
        "nrid is in another pid namespace, without the peer: an engine in a container started it; \
         set state_dir there to a directory that only the container uses, and end this nrid"
    )]
    OutsidePidNamespace,
    /// The process that connected has ended.
    #[error("the process that connected has ended")]
    Ended,
}

impl From<io::Error> for CallerRefusal {
    fn from(error: io::Error) -> Self {
        let has_ended =
            error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH);
        if has_ended { Self::Ended } else { Self::UnknownRights(error) }
    }
}

/// Checks that the peer of a connection may send requests. Returns its process.
///
/// # Errors
/// It may not.
pub fn authorize(stream: &impl AsFd) -> Result<i32, CallerRefusal> {
    let peer = getsockopt(stream, PeerCredentials)?;
    if !Owners::of_this_process().contains(peer.uid()) {
        return Err(CallerRefusal::User(peer.uid()));
    }
    // The kernel reports 0 for a process that is not in the pid namespace of `nrid`.
    if peer.pid() == 0 {
        return Err(CallerRefusal::OutsidePidNamespace);
    }
    // While the process of the pidfd lives, its pid is not reused. Kernels before Linux 6.5 do not
    // return this pidfd: there the pid may have been reused since the connection was made.
    let process = match getsockopt(stream, PeerPidfd) {
        Ok(process) => Some(process),
        Err(nix::Error::ENOPROTOOPT | nix::Error::EMFILE | nix::Error::ENFILE) => None,
        Err(_) => return Err(CallerRefusal::Ended),
    };
    let is_in_own_namespace = is_in_own_pid_namespace(peer.pid());
    let is_privileged = !*IS_ROOT_OF_HOST || is_privileged(peer.pid())?;
    if process.is_some_and(|process| has_exited(&process)) {
        return Err(CallerRefusal::Ended);
    }
    match (is_in_own_namespace?, is_privileged) {
        (false, _) => Err(CallerRefusal::PidNamespace),
        (true, false) => Err(CallerRefusal::NotPrivileged),
        (true, true) => Ok(peer.pid()),
    }
}

/// Whether `nrid` is root of the host. Otherwise, as with rootless Podman, peers may be in other
/// user namespaces, and capabilities cannot separate processes of the same user.
static IS_ROOT_OF_HOST: LazyLock<bool> = LazyLock::new(|| {
    let owner = NridOwner::of_this_process(&Environment::of_this_process());
    owner == NridOwner::Host && has_sys_admin(None).unwrap_or(false)
});

/// Device and inode of a namespace.
type NamespaceId = (u64, u64);

/// The namespaces of this process, which it does not change once it serves requests.
static OWN_USER_NAMESPACE: OnceLock<NamespaceId> = OnceLock::new();
static OWN_PID_NAMESPACE: OnceLock<NamespaceId> = OnceLock::new();

/// Returns a value that is read once.
fn known(
    value: &OnceLock<NamespaceId>,
    read: impl FnOnce() -> io::Result<NamespaceId>,
) -> io::Result<NamespaceId> {
    match value.get() {
        Some(known) => Ok(*known),
        None => read().map(|read| *value.get_or_init(|| read)),
    }
}

/// Whether a process has CAP_SYS_ADMIN in the user namespace of `nrid`. The namespace is compared
/// too, because a process has all capabilities in a user namespace that it has created. Opens no
/// descriptor for the namespace, for the reason given at [`is_in_own_pid_namespace`].
fn is_privileged(pid: i32) -> Result<bool, CallerRefusal> {
    let namespace = |process: &str| {
        fs::metadata(format!("/proc/{process}/ns/user")).map(|meta| (meta.dev(), meta.ino()))
    };
    let is_in_own_namespace = match namespace(&pid.to_string()) {
        Ok(found) => found == known(&OWN_USER_NAMESPACE, || namespace("self"))?,
        // The process may not be traced.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let map = |process: &str| fs::read_to_string(format!("/proc/{process}/uid_map"));
            map(&pid.to_string())? == map("self")?
        }
        Err(e) => return Err(e.into()),
    };
    Ok(is_in_own_namespace && has_sys_admin(Pid::from_raw(pid))?)
}

/// Whether a process, this one by default, has CAP_SYS_ADMIN in its user namespace, or may get it.
fn has_sys_admin(pid: Option<Pid>) -> io::Result<bool> {
    Ok(capabilities(pid)?.permitted.contains(CapabilitySet::SYS_ADMIN))
}

/// Whether a process is in the pid namespace of `nrid`. Opens no descriptor unless the process may
/// not be traced, so that a peer gets its reply even while descriptors are exhausted.
fn is_in_own_pid_namespace(pid: i32) -> Result<bool, CallerRefusal> {
    let namespace = |process: &str| {
        fs::metadata(format!("/proc/{process}/ns/pid")).map(|meta| (meta.dev(), meta.ino()))
    };
    let pid = pid.to_string();
    match namespace(&pid) {
        Ok(found) => Ok(found == known(&OWN_PID_NAMESPACE, || namespace("self"))?),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Ok(pid_namespace_depth(&pid)? == pid_namespace_depth("self")?)
        }
        Err(e) => Err(e.into()),
    }
}

/// Returns the number of pid namespaces that contain a process, from the one of `/proc` downwards.
/// A process that `nrid` sees and that is in as many pid namespaces as `nrid` is in the same ones.
/// Any process may read this number.
fn pid_namespace_depth(process: &str) -> io::Result<usize> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    Ok(ids.split_whitespace().count())
}

fn has_exited(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    !matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        os::unix::net::{UnixListener, UnixStream},
        path::Path,
        process::{Command, Stdio},
    };

    #[test]
    fn only_the_owner_of_nrid_may_send_requests() {
        let (stream, _peer) = UnixStream::pair().unwrap();
        assert!(authorize(&stream).is_ok());
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can become another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        for file in [dir.path(), &path] {
            std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o777))
                .unwrap();
        }
        let connect = || {
            // Changes the user of this thread only.
            let nobody = rustix::fs::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            UnixStream::connect(&path).unwrap()
        };
        let _client = std::thread::scope(|s| s.spawn(connect).join().unwrap());
        let (stream, _) = listener.accept().unwrap();
        assert!(matches!(authorize(&stream), Err(CallerRefusal::User(65534))));
    }

    /// Environment variable for [`connecting_process`]: path of the socket to connect to.
    const CONNECT_TO: &str = "NRID_TEST_CONNECT_TO";

    /// Starts [`connecting_process`] through the command `prefix`, and authorizes its connection;
    /// `None` if `prefix` fails. With `ends_first`, the process ends before the authorization.
    fn authorize_child(
        dir: &Path,
        prefix: &[&str],
        ends_first: bool,
    ) -> Option<Result<i32, CallerRefusal>> {
        let path = dir.join("s");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let program = std::env::current_exe().unwrap();
        let test = "control::peer::tests::connecting_process";
        let mut arguments: Vec<_> = prefix.iter().map(std::ffi::OsStr::new).collect();
        arguments.extend([program.as_os_str(), "--exact".as_ref(), test.as_ref()]);
        let mut command = Command::new(arguments[0]);
        command.args(&arguments[1..]).env(CONNECT_TO, &path).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = |child: &mut std::process::Child| {
            let _ = child.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
            child.wait().unwrap();
        };
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if child.try_wait().unwrap().is_some() => return None,
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        };
        if ends_first {
            end(&mut child);
        }
        let result = authorize(&stream);
        end(&mut child);
        Some(result)
    }

    /// The process that [`authorize_child`] starts. Does nothing in a usual run of the tests.
    #[test]
    fn connecting_process() {
        if let Some(path) = std::env::var_os(CONNECT_TO) {
            let _stream = UnixStream::connect(path).unwrap();
            let _ = std::io::stdin().read_line(&mut String::new());
        }
    }

    #[test]
    fn peers_without_the_capability_to_create_containers_are_refused() {
        if !*IS_ROOT_OF_HOST {
            println!("skipped: only root of the host has capabilities to take away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let none = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
        let few = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all"];
        // As a plugin that tries to regain capabilities in a user namespace.
        let user_namespace = [&none[..], &["unshare", "--user"]].concat();
        for prefix in [&none[..], &few, &user_namespace, &["unshare", "--user"]] {
            match authorize_child(dir.path(), prefix, false) {
                Some(refused) => {
                    let is_expected = matches!(refused, Err(CallerRefusal::NotPrivileged));
                    assert!(is_expected, "{prefix:?}: {refused:?}");
                }
                None => println!("skipped: {prefix:?} fails"),
            }
        }
        let most = ["setpriv", "--bounding-set=-net_raw", "--no-new-privs"];
        assert!(matches!(authorize_child(dir.path(), &most, false), Some(Ok(_))));
    }

    #[test]
    fn peers_in_other_pid_namespaces_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(authorize_child(dir.path(), &["env"], false), Some(Ok(_))));
        let ended = authorize_child(dir.path(), &["env"], true);
        assert!(matches!(ended, Some(Err(CallerRefusal::Ended))), "{ended:?}");
        // A container, with and without a mount of its own /proc.
        for options in [&["unshare", "-pf"][..], &["unshare", "-pf", "--mount-proc"]] {
            match authorize_child(dir.path(), options, false) {
                Some(refused) => {
                    assert!(matches!(refused, Err(CallerRefusal::PidNamespace)), "{refused:?}");
                }
                None => println!("skipped: no pid namespaces"),
            }
        }
    }
}
