//! Lookups of paths from plugins or OCI configs, in a child process with a time limit. For paths
//! that anyone may choose, and for other mount namespaces; other files have `file_access.rs`.
//!
//! A path may lie on a file system that hangs. Even SIGKILL may not end a process that waits for
//! such a file system. A hanging thread would prevent `nrid` from exiting; a hanging child only
//! occupies an entry of the process table. The number of children is limited; above the limit,
//! probes fail. Start from [`PathProbe::probe`]; [`run`] is the child.

use crate::host::{
    mount_namespace::{self, MountNamespace, NamespaceDescriptors},
    proc::mounts,
    sys,
};
use command_fds::{CommandFdExt, FdMapping, FdMappingCollision};
use nri_facts::{HostFiles, MountSource, NamespaceId};
use nri_host::podman::{InfraCandidate, runs_infra};
use nri_mountinfo::{MountInfo, MountPropagation};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    io::{self, Write},
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    sync::{Semaphore, oneshot},
    time::timeout,
};

/// First argument of the child process.
pub const ARGUMENT: &str = "--probe";
/// Second argument of a child that gets the descriptors of a mount namespace, and enters it.
const IN_NAMESPACE: &str = "--in-namespace";
/// Time limit of a probe, which takes milliseconds unless the file system hangs.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of children at the same time, including hanging children: a plugin must not be
/// able to fill the process table.
const MAX_CHILDREN: usize = 32;
/// The same, of a child that enters a user namespace first.
const IN_USER_NAMESPACE: &str = "--in-user-namespace";
/// Descriptors of the mount namespace, of its root directory, and of the user namespace in the
/// child.
const DESCRIPTORS: [i32; 3] = [3, 4, 5];

/// The lookups to do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Paths for which the propagation of their mount is wanted.
    pub sources: Vec<String>,
    /// Paths of device nodes, links not followed.
    pub nodes: Vec<String>,
    /// A container that may be an infra container of Podman.
    pub infra: Option<InfraCandidate>,
    /// Sources of mounts to resolve.
    pub mount_sources: Vec<MountSource>,
    /// Paths of namespaces.
    pub namespaces: Vec<String>,
}

/// The results, in the order of the request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProbeReply {
    /// Reason why the mount namespace could not be entered; nothing was looked up.
    error: Option<String>,
    /// Propagation of the mounts that contain [`ProbeRequest::sources`]; `None` if there is no
    /// mount, as for a relative path.
    pub propagation: Vec<Option<MountPropagation>>,
    /// Nodes at the paths [`ProbeRequest::nodes`]; `None` for a path that does not exist.
    pub nodes: Vec<Option<Node>>,
    /// Whether [`ProbeRequest::infra`] runs the program of an infra container.
    pub infra: bool,
    /// Files at [`ProbeRequest::mount_sources`], or the reason why they are unknown.
    pub mount_sources: Vec<Result<Vec<HostFiles>, String>>,
    /// Namespaces at [`ProbeRequest::namespaces`], or the reason why they are unknown.
    pub namespaces: Vec<Result<NamespaceId, String>>,
}

/// Metadata of a file, which may be a device node.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Node {
    /// Type and permission bits.
    pub mode: u32,
    /// Device number.
    pub rdev: u64,
}

/// Error of a probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The child did not end in time.
    #[error("the file system hangs: no reply within {TIMEOUT:?}")]
    Hangs,
    /// The maximum number of children is reached, since earlier probes hang.
    #[error("{MAX_CHILDREN} earlier probes still run, because file systems hang")]
    TooMany,
    /// The mount namespace of the engine cannot be entered.
    #[error("cannot enter the mount namespace of the engine: {0}")]
    Namespace(String),
    /// The child cannot be started, or it failed.
    #[error("cannot probe: {0}")]
    Failed(#[from] io::Error),
}

/// Starts children that probe paths, a limited number at a time.
#[derive(Debug)]
pub struct PathProbe {
    program: PathBuf,
    permits: Arc<Semaphore>,
}

impl Default for PathProbe {
    fn default() -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CHILDREN));
        Self { program: "/proc/self/exe".into(), permits }
    }
}

impl PathProbe {
    /// Does the lookups in a child, in `namespace`, or in the mount namespace of `nrid` if it is
    /// `None`.
    ///
    /// # Errors
    /// A path hangs, or no child can be started.
    pub async fn probe(
        &self,
        request: &ProbeRequest,
        namespace: Option<&MountNamespace>,
    ) -> Result<ProbeReply, ProbeError> {
        let Ok(Ok(permit)) = timeout(TIMEOUT, self.permits.clone().acquire_owned()).await else {
            return Err(ProbeError::TooMany);
        };
        let request = serde_json::to_vec(request).map_err(io::Error::from)?;
        let mut child = self.command(namespace)?.spawn()?;
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let exchanged = timeout(TIMEOUT, exchange(&mut child, &request)).await;
            let hangs = exchanged.is_err();
            let _ = sender.send(exchanged);
            if hangs {
                // A child that cannot be killed keeps the permit until it ends.
                let _ = child.kill().await;
            }
            drop(permit);
        });
        let (status, reply) = match receiver.await {
            Ok(Ok(exchanged)) => exchanged?,
            Ok(Err(_)) => return Err(ProbeError::Hangs),
            Err(closed) => return Err(ProbeError::Failed(io::Error::other(closed))),
        };
        if !status.success() {
            return Err(ProbeError::Failed(io::Error::other(status.to_string())));
        }
        let reply: ProbeReply = serde_json::from_slice(&reply).map_err(io::Error::from)?;
        match reply.error {
            Some(error) => Err(ProbeError::Namespace(error)),
            None => Ok(reply),
        }
    }

    /// Returns the command of the child, which gets the descriptors of the namespace.
    fn command(&self, namespace: Option<&MountNamespace>) -> io::Result<Command> {
        let mut command = std::process::Command::new(&self.program);
        command.arg(ARGUMENT).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(namespace) = namespace {
            let NamespaceDescriptors { user, mount, root } = namespace.descriptors();
            command.arg(if user.is_some() { IN_USER_NAMESPACE } else { IN_NAMESPACE });
            let mut mappings = Vec::new();
            for (fd, child_fd) in [mount, root].into_iter().chain(user).zip(DESCRIPTORS) {
                mappings.push(FdMapping { parent_fd: fd.try_clone_to_owned()?, child_fd });
            }
            command
                .fd_mappings(mappings)
                .map_err(|FdMappingCollision| io::Error::from(io::ErrorKind::InvalidInput))?;
        }
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        Ok(command)
    }
}

/// Writes the request, and returns the exit status and the reply.
async fn exchange(child: &mut Child, request: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    if let Some(mut stdin) = child.stdin.take() {
        // EPIPE is ignored: a child that exits without reading has an exit status of failure.
        let _ = stdin.write_all(request).await;
    }
    let mut reply = Vec::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_end(&mut reply).await?;
    }
    Ok((child.wait().await?, reply))
}

/// Runs the child: reads a request from stdin, and writes the reply to stdout.
pub fn run() -> ExitCode {
    let Ok(request) = serde_json::from_reader::<_, ProbeRequest>(io::stdin().lock()) else {
        return ExitCode::FAILURE;
    };
    let second = std::env::args_os().nth(2);
    let entered = match second.as_ref().and_then(|second| second.to_str()) {
        Some(IN_NAMESPACE) => enter_namespace(false),
        Some(IN_USER_NAMESPACE) => enter_namespace(true),
        _ => Ok(()),
    };
    let reply = match entered {
        Ok(()) => look_up(&request),
        Err(error) => ProbeReply { error: Some(error.to_string()), ..ProbeReply::default() },
    };
    let written = serde_json::to_vec(&reply).map_err(io::Error::from);
    match written.and_then(|bytes| io::stdout().lock().write_all(&bytes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Enters the mount namespace whose descriptors this process got. The child enters it itself, and
/// not before it is executed, because the program and its libraries are in `nrid`'s namespace.
fn enter_namespace(has_user_namespace: bool) -> io::Result<()> {
    let [mount, root, user] = DESCRIPTORS.map(i32::cast_unsigned);
    let (mount, root) = (sys::take_descriptor(mount)?, sys::take_descriptor(root)?);
    let user = has_user_namespace.then(|| sys::take_descriptor(user)).transpose()?;
    let user = user.as_ref().map(AsFd::as_fd);
    let (mount, root) = (mount.as_fd(), root.as_fd());
    mount_namespace::enter(NamespaceDescriptors { user, mount, root })
}

fn look_up(request: &ProbeRequest) -> ProbeReply {
    let needs_mounts = !request.sources.is_empty() || !request.mount_sources.is_empty();
    let mounts = if needs_mounts { mounts() } else { Vec::new() };
    let mount_sources = nri_facts::resolve(&request.mount_sources, &mounts);
    let mounts = by_point(mounts);
    let propagation = |path: &String| {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        propagation_at(&mounts, &real)
    };
    let node = |path: &String| {
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some(Node { mode: meta.mode(), rdev: meta.rdev() })
    };
    let namespace = |path: &String| {
        NamespaceId::at(path.as_ref()).map_err(|error| format!("{path:?}: {error}"))
    };
    ProbeReply {
        error: None,
        propagation: request.sources.iter().map(propagation).collect(),
        nodes: request.nodes.iter().map(node).collect(),
        infra: request.infra.as_ref().is_some_and(runs_infra),
        mount_sources,
        namespaces: request.namespaces.iter().map(namespace).collect(),
    }
}

/// Maps mount points to propagations. The last of several mounts on one point is the visible one.
fn by_point(mounts: Vec<MountInfo>) -> HashMap<PathBuf, MountPropagation> {
    mounts.into_iter().map(|mount| (mount.point, mount.propagation)).collect()
}

/// Returns the propagation of the deepest mount that contains a path.
fn propagation_at(
    mounts: &HashMap<PathBuf, MountPropagation>,
    path: &Path,
) -> Option<MountPropagation> {
    path.ancestors().find_map(|point| mounts.get(point)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_mountinfo::parse;

    fn probe(script: &str) -> (tempfile::TempDir, PathProbe) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        // Written by another process: a child that another test forks meanwhile would keep the file
        // open for writing, and executing it would fail (ETXTBSY).
        let source = dir.path().join("source");
        std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut install = std::process::Command::new("install");
        assert!(install.arg("-m755").args([&source, &program]).status().unwrap().success());
        (dir, PathProbe { program, ..PathProbe::default() })
    }

    #[test]
    fn links_are_followed_for_sources_and_not_for_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let paths =
            [link.to_str().unwrap().to_owned(), "/nowhere".to_owned(), "/dev/null".to_owned()];
        let sources = paths.to_vec();
        let request = ProbeRequest { sources, nodes: paths.to_vec(), ..ProbeRequest::default() };
        let found = look_up(&request);
        // The link has the propagation of its target.
        assert_eq!(found.propagation[0], found.propagation[2]);
        assert!(found.propagation[0].is_some());
        let kinds: Vec<_> = found.nodes.iter().map(|n| n.map(|n| n.mode & 0o170_000)).collect();
        assert_eq!(kinds, [Some(0o120_000), None, Some(0o020_000)]);
    }

    #[tokio::test]
    async fn the_error_of_a_failed_probe_has_the_exit_status() {
        let (_dir, probe) = probe("exit 3");
        let error = probe.probe(&ProbeRequest::default(), None).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[tokio::test]
    async fn probes_that_hang_are_killed_and_return_their_permits() {
        let (_dir, probe) = probe("exec sleep 1000");
        let all: Vec<_> = (0..MAX_CHILDREN + 4)
            .map(|_| {
                let (program, permits) = (probe.program.clone(), probe.permits.clone());
                let probe = PathProbe { program, permits };
                tokio::spawn(async move { probe.probe(&ProbeRequest::default(), None).await })
            })
            .collect();
        for task in all {
            let error = task.await.unwrap().unwrap_err();
            assert!(matches!(error, ProbeError::Hangs | ProbeError::TooMany), "{error}");
        }
        let freed = probe.permits.acquire_many(MAX_CHILDREN as u32);
        drop(timeout(Duration::from_secs(20), freed).await.unwrap().unwrap());
    }

    #[test]
    fn the_last_mount_on_the_deepest_mount_point_has_the_propagation() {
        let table = "\
1 0 0:1 / / rw shared:1 - ext4 /dev/a rw
2 1 0:2 / /a rw master:1 - ext4 /dev/b rw
3 2 0:3 / /a/b\\040c rw - ext4 /dev/c rw
4 2 0:4 / /a rw shared:9 master:1 - tmpfs t rw
";
        let mounts = by_point(parse(table.as_bytes()));
        let of = |p: &str| propagation_at(&mounts, Path::new(p));
        assert_eq!(of("/x"), Some(MountPropagation::Shared));
        assert_eq!(of("/a/x"), Some(MountPropagation::Shared));
        assert_eq!(of("/a/b c/d"), Some(MountPropagation::Private));
        assert_eq!(of("/ab"), Some(MountPropagation::Shared));
        assert_eq!(of("/a/"), Some(MountPropagation::Shared));
        assert_eq!(of("a"), None);
        assert_eq!(propagation_at(&HashMap::new(), Path::new("/a")), None);
    }

    #[test]
    fn each_of_thousands_of_mounts_has_its_own_propagation() {
        use std::fmt::Write;
        let kinds = [MountPropagation::Shared, MountPropagation::Slave, MountPropagation::Private];
        let mut table = String::from("1 0 0:1 / / rw - ext4 /dev/a rw\n");
        // Every seventh mount point has a second mount, with the next propagation.
        for layer in 0..2 {
            for n in (0..5000).filter(|n| layer == 0 || n % 7 == 0) {
                let tag = ["shared:1 ", "master:1 ", ""][(n + layer) % 3];
                writeln!(table, "2 1 0:2 / /m/{n}/inner rw {tag}- ext4 /dev/b rw").unwrap();
            }
        }
        let mounts = by_point(parse(table.as_bytes()));
        for n in 0..5000 {
            let expected = kinds[(n + usize::from(n % 7 == 0)) % 3];
            let of = |below: &str| propagation_at(&mounts, Path::new(&format!("/m/{n}{below}")));
            assert_eq!(of("/inner"), Some(expected), "{n}");
            assert_eq!(of("/inner/deep/down"), Some(expected), "{n}");
            assert_eq!(of("/innermost"), Some(MountPropagation::Private), "{n}");
        }
    }
}
