//! Names and labels that an engine keeps elsewhere than in the document. Read with a short
//! deadline: a container must neither fail nor wait long because its names could not be found.

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

/// A file of an engine that does not come within this time (its disk hangs) is done without.
const PATIENCE: Duration = Duration::from_millis(500);
/// The process through which Kubernetes uses Docker.
const CRI_DOCKERD: &str = "cri-dockerd";
/// Lists of containers/storage grow with the number of containers; some thousand fit.
const MAX_FILE: u64 = 16 << 20;

/// Why names are missing.
#[derive(Debug, thiserror::Error)]
enum NoNames {
    #[error("{0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0}: not read within {PATIENCE:?}")]
    Late(PathBuf),
    #[error("{0}: {1}")]
    Parse(PathBuf, #[source] Unreadable),
    #[error(transparent)]
    Containerd(#[from] containerd::ContainerdError),
    #[error(transparent)]
    Metadata(#[from] Unreadable),
}

/// Completes an identity from where its engine keeps more. `pod_is_known`: the pod has its names
/// from its sandbox.
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
        // Anybody who may use Docker may choose such labels: without kubelet's helper they mean
        // nothing.
        let kubernetes = nri_host::is_running(CRI_DOCKERD);
        return docker::complete(identity, id, &config, host_config.as_deref(), kubernetes)
            .map_err(|e| NoNames::Parse(file, e));
    }
    Ok(())
}

async fn from_cri_o(identity: &mut Identity, sandbox: &Path) -> Result<(), NoNames> {
    let Some(document) = read(sandbox).await? else { return Ok(()) };
    cri_o::complete(identity, &document).map_err(|e| NoNames::Parse(sandbox.to_owned(), e))
}

async fn from_podman(identity: &mut Identity, id: &str, lists: &[PathBuf]) -> Result<(), NoNames> {
    let mut broken = Ok(());
    for list in lists {
        // One that cannot be read must not hide the next.
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

/// A file's content; none if there is no such file.
async fn read(path: &Path) -> Result<Option<Vec<u8>>, NoNames> {
    let file = path.to_owned();
    let read = timeout(PATIENCE, spawn_blocking(move || read_bounded(&file))).await;
    match read.map_err(|_| NoNames::Late(path.to_owned()))?.map_err(io::Error::other).flatten() {
        Ok(content) => Ok(Some(content)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(NoNames::Read(path.to_owned(), e)),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end.
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
