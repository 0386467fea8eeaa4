//! Lookups of paths from plugins or OCI configs, in a child process with a time limit. For paths
//! that anyone may choose, and for other mount namespaces; other files have `file_access.rs`.
//!
//! A path may lie on a file system that hangs. Even SIGKILL may not end a process that waits for
//! such a file system. A hanging thread would prevent `nrid` from exiting; a hanging child only
//! occupies an entry of the process table.
//!
//! The number of children is limited, and of those that wait for one file system: a child asks
//! before it enters one (`walk.rs`), and is admitted as threads are (`file_access.rs`). While
//! one is stuck there, others are refused at once. Start from [`PathProbe::probe`];
//! `lookup.rs` is the child.

use crate::host::{
    file_access::{Access, FileAccess, FileSystem, FileSystemHangs},
    mount_namespace::{MountNamespace, NamespaceDescriptors},
};
use command_fds::{CommandFdExt, FdMapping, FdMappingCollision};
use nri_facts::{HostFiles, MountSource, NamespaceId};
use nri_host::podman::InfraCandidate;
use nri_mountinfo::MountPropagation;
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::{Semaphore, oneshot},
    time::{Instant, timeout, timeout_at},
};

/// First argument of the child process.
pub const ARGUMENT: &str = "--probe";
/// Second argument of a child that gets the descriptors of a mount namespace, and enters it.
pub(super) const IN_NAMESPACE: &str = "--in-namespace";
/// Time limit of a probe, which takes milliseconds unless the file system hangs.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of children at the same time, without those that are stuck at a known file
/// system, which are limited by `file_access.rs`: a plugin must not be able to fill the process
/// table.
const MAX_CHILDREN: usize = 32;
/// The same, of a child that enters a user namespace first.
pub(super) const IN_USER_NAMESPACE: &str = "--in-user-namespace";
/// Descriptors of the mount namespace, of its root directory, and of the user namespace in the
/// child.
pub(super) const DESCRIPTORS: [i32; 3] = [3, 4, 5];

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
    pub(super) error: Option<String>,
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

/// What a child writes to stdout, a line each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// It is about to wait for these file systems, and for no others, see `walk.rs`. Before
    /// that, it waits for a line on stdin.
    Enters(Vec<String>),
    /// The end.
    Replies(ProbeReply),
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
    /// Earlier probes wait for the same file system.
    #[error(transparent)]
    FileSystem(#[from] FileSystemHangs),
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
    access: Arc<FileAccess>,
}

impl Default for PathProbe {
    fn default() -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CHILDREN));
        let access = Arc::new(FileAccess::of_children());
        Self { program: "/proc/self/exe".into(), permits, access }
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
        let mut request = serde_json::to_vec(request).map_err(io::Error::from)?;
        request.push(b'\n');
        let deadline = Instant::now() + TIMEOUT;
        // Entering a namespace asks the file system of its root directory.
        let held = match namespace {
            Some(namespace) => {
                let place = FileSystem::Probed(vec![format!("mnt:[{}]", namespace.inode())]);
                Some(self.access.enter(place, deadline).await?)
            }
            None => None,
        };
        let mut child = self.command(namespace)?.spawn()?;
        let mut exchange = Exchange { access: self.access.clone(), held, deadline };
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let exchanged = timeout_at(deadline, exchange.run(&mut child, &request)).await;
            let has_ended = matches!(exchanged, Ok(Ok(_)));
            let is_late = exchanged.is_err();
            let _ = sender.send(exchanged);
            if has_ended {
                return;
            }
            let _ = child.start_kill();
            if let Some(held) = exchange.held.as_ref().filter(|_| is_late) {
                // The file system is known, so others do not go there, and have the permit.
                held.report();
                drop(permit);
                let _ = child.wait().await;
            } else {
                // A child that cannot be killed keeps the permit until it ends.
                let _ = child.wait().await;
                drop(permit);
            }
        });
        let (status, reply) = match receiver.await {
            Ok(Ok(exchanged)) => exchanged?,
            Ok(Err(_)) => return Err(ProbeError::Hangs),
            Err(closed) => return Err(ProbeError::Failed(io::Error::other(closed))),
        };
        if !status.success() {
            return Err(ProbeError::Failed(io::Error::other(status.to_string())));
        }
        let reply = reply.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        match reply.error {
            Some(error) => Err(ProbeError::Namespace(error)),
            None => Ok(reply),
        }
    }

    /// Returns a line for each file system at which children are stuck.
    pub fn problems(&self) -> Vec<String> {
        let late = self.access.late_accesses().into_iter();
        let line = |(file_system, children): (FileSystem, usize)| {
            format!(
                "{file_system} hangs, and processes of nrid that look at it ({children}) cannot be \
                 killed: facts about paths there are unknown"
            )
        };
        let mut lines: Vec<_> = late.map(line).collect();
        lines.sort();
        lines
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

/// The conversation with a child.
struct Exchange {
    access: Arc<FileAccess>,
    /// What the child waits for.
    held: Option<Access>,
    deadline: Instant,
}

impl Exchange {
    /// Writes the request, and returns the exit status and the reply. The child must be killed if
    /// this fails, or does not end.
    async fn run(
        &mut self,
        child: &mut Child,
        request: &[u8],
    ) -> Result<(ExitStatus, Option<ProbeReply>), ProbeError> {
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        };
        // EPIPE is ignored: a child that exits without reading has an exit status of failure.
        let _ = stdin.write_all(request).await;
        let (mut stdout, mut line, mut reply) = (BufReader::new(stdout), Vec::new(), None);
        while stdout.read_until(b'\n', &mut line).await? > 0 {
            match serde_json::from_slice::<Said>(&line).map_err(io::Error::from)? {
                Said::Enters(places) => {
                    // Not both at once: what it has left does not hang.
                    self.held = None;
                    let places = FileSystem::Probed(places);
                    let entered = self.access.enter(places, self.deadline).await;
                    if entered.is_err() {
                        // Before its stdin is closed, at which it would end by itself.
                        let _ = child.start_kill();
                    }
                    self.held = Some(entered?);
                    let _ = stdin.write_all(b"\n").await;
                }
                Said::Replies(found) => reply = Some(found),
            }
            line.clear();
        }
        Ok((child.wait().await?, reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Returns a handle to the same children.
    fn same(PathProbe { program, permits, access }: &PathProbe) -> PathProbe {
        PathProbe { program: program.clone(), permits: permits.clone(), access: access.clone() }
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
                let probe = same(&probe);
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

    #[tokio::test]
    async fn children_at_a_file_system_that_hangs_leave_the_others_to_other_containers() {
        // One that the file system keeps from ending.
        let hangs = r#"read request; echo '{"Enters":["0:1"]}'; read go; exec sleep 1000"#;
        let (_dir, stuck) = probe(hangs);
        let probe_at = |device: &str| {
            let said =
                format!(r#"read request; echo '{{"Enters":["{device}"]}}'; read go; exit 3"#);
            let (dir, other) = probe(&said);
            (dir, PathProbe { program: other.program, ..same(&stuck) })
        };
        let deadline = Instant::now();
        let place = FileSystem::Probed(vec!["0:1".to_owned()]);
        let held = stuck.access.enter(place, deadline).await.unwrap();
        while stuck.problems().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(stuck.problems()[0].contains("0:1"), "{:?}", stuck.problems());
        for _ in 0..MAX_CHILDREN + 1 {
            let error = stuck.probe(&ProbeRequest::default(), None).await.unwrap_err();
            assert_eq!(error.to_string(), "its file system hangs");
        }
        let (_other_dir, other) = probe_at("0:2");
        let error = other.probe(&ProbeRequest::default(), None).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        drop(held);
        let (_same_dir, again) = probe_at("0:1");
        let error = again.probe(&ProbeRequest::default(), None).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(stuck.problems().is_empty());
    }
}
