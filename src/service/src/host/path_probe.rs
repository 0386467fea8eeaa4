//! Lookups of paths from plugins or OCI configs, in a child process with a time limit.
//!
//! A path may lie on a file system that hangs, and even SIGKILL may not end a process that waits
//! for it. A hanging thread would prevent `nrid` from exiting; a hanging child only occupies an
//! entry of the process table. The number of children is limited; above the limit probes fail.
//! Start from [`PathProbe::probe`]; [`run`] is the child.

use nri_host::podman::{InfraCandidate, runs_infra};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::PathBuf,
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
/// Time limit of a probe; a file system that works replies in milliseconds.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of concurrent children, hanging ones included, so that a plugin cannot fill the process
/// table.
const MAX_CHILDREN: usize = 32;

/// The lookups to do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Paths to resolve, links followed.
    pub real: Vec<String>,
    /// Paths of device nodes, links not followed.
    pub nodes: Vec<String>,
    /// A container that may be an infra container of Podman.
    pub infra: Option<InfraCandidate>,
}

/// The results, in the order of the request; `None` for a path that does not exist.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProbeReply {
    /// Resolved paths of [`ProbeRequest::real`].
    pub real: Vec<Option<String>>,
    /// Nodes at the paths [`ProbeRequest::nodes`].
    pub nodes: Vec<Option<Node>>,
    /// Whether [`ProbeRequest::infra`] runs the program of an infra container.
    pub infra: bool,
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
    #[error("the file system hangs: no answer within {TIMEOUT:?}")]
    Hangs,
    /// The limit of children is reached, since probes hang.
    #[error("{MAX_CHILDREN} probes of paths that hang have not ended")]
    TooMany,
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
    /// Does the lookups in a child.
    ///
    /// # Errors
    /// A path hangs, or no child can be started.
    pub async fn probe(&self, request: &ProbeRequest) -> Result<ProbeReply, ProbeError> {
        let Ok(Ok(permit)) = timeout(TIMEOUT, self.permits.clone().acquire_owned()).await else {
            return Err(ProbeError::TooMany);
        };
        let request = serde_json::to_vec(request).map_err(io::Error::from)?;
        let mut command = Command::new(&self.program);
        command.arg(ARGUMENT).current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let ended = timeout(TIMEOUT, exchange(&mut child, &request)).await;
            let hangs = ended.is_err();
            let _ = sender.send(ended);
            if hangs {
                // A child that cannot be killed keeps the permit until it ends.
                let _ = child.kill().await;
            }
            drop(permit);
        });
        let (status, reply) = match receiver.await {
            Ok(Ok(ended)) => ended?,
            Ok(Err(_)) => return Err(ProbeError::Hangs),
            Err(closed) => return Err(ProbeError::Failed(io::Error::other(closed))),
        };
        if !status.success() {
            return Err(ProbeError::Failed(io::Error::other(status.to_string())));
        }
        Ok(serde_json::from_slice(&reply).map_err(io::Error::from)?)
    }
}

/// Writes the request, and returns the exit status and the reply.
async fn exchange(child: &mut Child, request: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    if let Some(mut stdin) = child.stdin.take() {
        // Ignore EPIPE: the exit status of a child that exits without reading is an error.
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
    let written = serde_json::to_vec(&look_up(&request)).map_err(io::Error::from);
    match written.and_then(|bytes| io::stdout().lock().write_all(&bytes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn look_up(request: &ProbeRequest) -> ProbeReply {
    let node = |path: &String| {
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some(Node { mode: meta.mode(), rdev: meta.rdev() })
    };
    let real =
        |path: &String| Some(std::fs::canonicalize(path).ok()?.to_string_lossy().into_owned());
    ProbeReply {
        real: request.real.iter().map(real).collect(),
        nodes: request.nodes.iter().map(node).collect(),
        infra: request.infra.as_ref().is_some_and(runs_infra),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(script: &str) -> (tempfile::TempDir, PathProbe) {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, PathProbe { program, ..PathProbe::default() })
    }

    #[test]
    fn links_are_followed_for_real_paths_and_not_for_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let paths =
            [link.to_str().unwrap().to_owned(), "/nowhere".to_owned(), "/dev/null".to_owned()];
        let request = ProbeRequest { real: paths.to_vec(), nodes: paths.to_vec(), infra: None };
        let found = look_up(&request);
        let null = Some("/dev/null".to_owned());
        assert_eq!(found.real, [null.clone(), None, null]);
        let kinds: Vec<_> = found.nodes.iter().map(|n| n.map(|n| n.mode & 0o170_000)).collect();
        assert_eq!(kinds, [Some(0o120_000), None, Some(0o020_000)]);
    }

    #[tokio::test]
    async fn a_probe_that_fails_has_the_exit_status() {
        let (_dir, probe) = probe("exit 3");
        let error = probe.probe(&ProbeRequest::default()).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[tokio::test]
    async fn probes_that_hang_are_killed_and_return_their_permits() {
        let (_dir, probe) = probe("exec sleep 1000");
        let all: Vec<_> = (0..MAX_CHILDREN + 4)
            .map(|_| {
                let (program, permits) = (probe.program.clone(), probe.permits.clone());
                let probe = PathProbe { program, permits };
                tokio::spawn(async move { probe.probe(&ProbeRequest::default()).await })
            })
            .collect();
        for one in all {
            let error = one.await.unwrap().unwrap_err();
            assert!(matches!(error, ProbeError::Hangs | ProbeError::TooMany), "{error}");
        }
        let freed = probe.permits.acquire_many(MAX_CHILDREN as u32);
        drop(timeout(Duration::from_secs(20), freed).await.unwrap().unwrap());
    }
}
