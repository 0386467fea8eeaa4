//! Reads names and labels that an engine stores outside the OCI config. The timeout is short, and
//! a failure is only logged: missing names must not fail or delay a container.

use crate::{engine::containerd, host::error_chain::chain};
use nri_engine::{Identity, Role, Source, Unreadable, cri_o, docker, podman};
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::timeout};

/// Timeout of reading a file of an engine, which may lie on a disk that hangs.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Command name of the adapter between kubelet and Docker.
const CRI_DOCKERD: &str = "cri-dockerd";
/// Size limit of a file in bytes. Lists of containers/storage grow with the number of containers;
/// some thousand fit.
const MAX_FILE: u64 = 16 << 20;

/// Error of reading names.
#[derive(Debug, thiserror::Error)]
enum NoNames {
    #[error("{0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0}: not read within {TIMEOUT:?}")]
    Late(PathBuf),
    #[error("{0}: {1}")]
    Parse(PathBuf, #[source] Unreadable),
    #[error(transparent)]
    Containerd(#[from] containerd::ContainerdError),
    #[error(transparent)]
    Metadata(#[from] Unreadable),
}

/// Completes an identity with names and labels from files or the API of its engine. If
/// `pod_is_known`, the names of the pod are already known from its sandbox.
pub async fn complete(identity: &mut Identity, id: &str, pod_is_known: bool) {
    let completed = match identity.source.clone() {
        Some(Source::Docker { dirs }) => from_docker(identity, id, &dirs).await,
        Some(Source::Podman { lists }) => from_podman(identity, id, &lists).await,
        Some(Source::CriO { sandbox }) => from_cri_o(identity, &sandbox).await,
        Some(Source::Containerd { socket, namespace }) => {
            from_containerd(identity, id, (&socket, &namespace), pod_is_known).await
        }
        None => Ok(()),
    };
    if let Err(error) = completed {
        tracing::warn!(container = id, engine = %identity.engine, error = chain(&error), "names \
        are incomplete");
    }
}

async fn from_docker(identity: &mut Identity, id: &str, dirs: &[PathBuf]) -> Result<(), NoNames> {
    for dir in dirs {
        let file = dir.join("config.v2.json");
        let Some(config) = read(&file).await? else { continue };
        let host_config = read(&dir.join("hostconfig.json")).await?;
        // Any Docker user may set the labels of Kubernetes, so trust them only if cri-dockerd runs.
        let kubernetes = nri_host::is_running(CRI_DOCKERD);
        return docker::complete(identity, id, &config, host_config.as_deref(), kubernetes)
            .map_err(|e| NoNames::Parse(file, e));
    }
    Ok(())
}

async fn from_cri_o(identity: &mut Identity, sandbox: &Path) -> Result<(), NoNames> {
    let Some(config) = read(sandbox).await? else { return Ok(()) };
    cri_o::complete(identity, &config).map_err(|e| NoNames::Parse(sandbox.to_owned(), e))
}

async fn from_podman(identity: &mut Identity, id: &str, lists: &[PathBuf]) -> Result<(), NoNames> {
    let mut broken = Ok(());
    for list in lists {
        // Continue with the next list if this one cannot be read.
        let found = match read(list).await {
            Ok(Some(text)) => {
                podman::complete(identity, id, &text).map_err(|e| NoNames::Parse(list.clone(), e))
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        match found {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => broken = Err(error),
        }
    }
    broken
}

async fn from_containerd(
    identity: &mut Identity,
    id: &str,
    (socket, namespace): (&Path, &str),
    pod_is_known: bool,
) -> Result<(), NoNames> {
    let own = containerd::container(socket, namespace, id).await?;
    let sandbox = match identity.role {
        Role::Member if !pod_is_known => {
            Some(containerd::container(socket, namespace, &identity.pod.id).await?)
        }
        _ => None,
    };
    Ok(nri_engine::containerd::complete(identity, &own, sandbox.as_ref())?)
}

/// Returns the content of a file; `None` if it does not exist.
async fn read(path: &Path) -> Result<Option<Vec<u8>>, NoNames> {
    let file = path.to_owned();
    let read = timeout(TIMEOUT, spawn_blocking(move || read_bounded(&file))).await;
    match read.map_err(|_| NoNames::Late(path.to_owned()))?.map_err(io::Error::other).flatten() {
        Ok(content) => Ok(Some(content)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(NoNames::Read(path.to_owned(), e)),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // O_NONBLOCK: opening a pipe would block until it has a writer.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("longer than {MAX_FILE} bytes")));
    }
    Ok(content)
}
