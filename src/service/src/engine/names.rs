//! Reads names and labels that an engine stores outside of the OCI config. The timeout is short,
//! and a failure is only logged: missing names must not delay or fail the creation of a container.
//! Labels that are expensive to find are read only if the configuration makes annotations of them.

use crate::{
    engine::{
        containerd,
        libpod::{self, LibpodError},
    },
    host::{
        error_chain::chain,
        file_access::{self, FileSystem, FileSystemHangs, blocking},
    },
};
use nri_engine::{EngineKind, Identity, Role, Source, Unreadable, cri_o, docker, podman};
use nri_trust::read_regular;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Timeout of reading an engine's file: the file system may hang, and the creation waits.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Command name of the adapter between kubelet and Docker.
const CRI_DOCKERD: &str = "cri-dockerd";
/// Maximum size of a file in bytes. Podman's lists (containers/storage) grow with the number of
/// containers; lists of some thousand containers are smaller.
const MAX_FILE: u64 = 16 << 20;

/// Error of reading names.
#[derive(Debug, thiserror::Error)]
enum NamesError {
    #[error("{file}: {source}")]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    #[error("{0}: not read within {TIMEOUT:?}")]
    Timeout(PathBuf),
    #[error("{file}: {source}")]
    Parse {
        /// Path of the file or database.
        file: PathBuf,
        /// Cause of the failure.
        source: Unreadable,
    },
    #[error(transparent)]
    Containerd(#[from] containerd::ContainerdError),
    #[error(transparent)]
    Metadata(#[from] Unreadable),
    #[error("{0}")]
    Libpod(#[from] LibpodError),
    #[error("the engine's data of the container is not found")]
    NoSource,
}

/// Completes an identity with names and labels from files or the API of its engine. If
/// `pod_is_known`, the names of the pod are already known from its sandbox. With `needs_labels`,
/// missing labels are logged, too. Returns whether all is known that the engine knows.
pub async fn complete(
    identity: &mut Identity,
    id: &str,
    pod_is_known: bool,
    needs_labels: bool,
) -> bool {
    let completed = match identity.source.clone() {
        Some(Source::Docker { dirs }) => from_docker(identity, id, &dirs).await,
        Some(Source::Podman { lists }) => from_podman(identity, id, &lists).await,
        Some(Source::CriO { sandbox }) => from_cri_o(identity, &sandbox).await,
        Some(Source::Containerd { socket, namespace }) => {
            from_containerd(identity, id, (&socket, &namespace), pod_is_known).await
        }
        None => Err(NamesError::NoSource),
    };
    let completed = match (identity.source.clone(), completed) {
        (Some(Source::Podman { lists }), Ok(())) if needs_labels => {
            labels_from_podman(identity, id, &lists).await
        }
        (_, completed) => completed,
    };
    let Err(error) = completed else { return true };
    // Engines without names have no labels, either; other engines are known by traces that do not
    // always lead to their names.
    let has_labels = !matches!(identity.engine, EngineKind::Plain | EngineKind::BuildKit);
    let is_logged = !matches!(error, NamesError::NoSource) || (needs_labels && has_labels);
    if is_logged {
        let error = chain(&error);
        let (container, engine) = (id, identity.engine);
        if needs_labels {
            tracing::warn!(
                container,
                %engine,
                error,
                "container names and labels are incomplete: plugins see no annotations from labels"
            );
        } else {
            tracing::warn!(container, %engine, error, "container names are incomplete");
        }
    }
    // Podman's database has labels only, and that of Podman 4 is of a kind that is not read.
    matches!(error, NamesError::NoSource | NamesError::Libpod(_))
}

async fn from_docker(
    identity: &mut Identity,
    id: &str,
    dirs: &[PathBuf],
) -> Result<(), NamesError> {
    for dir in dirs {
        let file = dir.join("config.v2.json");
        // `…/containers/ID`
        let containers = dir.parent().unwrap_or(dir);
        let Some(config) = read(&file, containers).await? else { continue };
        let host_config = read(&dir.join("hostconfig.json"), containers).await?;
        // Any Docker user may set the labels of Kubernetes, so trust them only if cri-dockerd runs.
        let kubernetes = blocking(|| nri_host::is_running(CRI_DOCKERD));
        return docker::complete(identity, id, &config, host_config.as_deref(), kubernetes)
            .map_err(|source| NamesError::Parse { file, source });
    }
    Err(NamesError::NoSource)
}

async fn from_cri_o(identity: &mut Identity, sandbox: &Path) -> Result<(), NamesError> {
    // `…/overlay-containers/ID/userdata/config.json`
    let containers = sandbox.ancestors().nth(3).unwrap_or(sandbox);
    let Some(config) = read(sandbox, containers).await? else { return Ok(()) };
    cri_o::complete(identity, &config)
        .map_err(|source| NamesError::Parse { file: sandbox.to_owned(), source })
}

async fn from_podman(
    identity: &mut Identity,
    id: &str,
    lists: &[PathBuf],
) -> Result<(), NamesError> {
    let mut result = Ok(());
    for list in lists {
        // Continue with the next list if this one cannot be read.
        let found = match read(list, list.parent().unwrap_or(list)).await {
            Ok(Some(text)) => podman::complete(identity, id, &text)
                .map_err(|source| NamesError::Parse { file: list.clone(), source }),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        match found {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Adds the labels of the container and of its pod from libpod's database.
async fn labels_from_podman(
    identity: &mut Identity,
    id: &str,
    lists: &[PathBuf],
) -> Result<(), NamesError> {
    let databases = podman::databases(lists);
    let Some(first) = databases.first().cloned() else { return Err(NamesError::NoSource) };
    let file_system = FileSystem::directory(first.parent().unwrap_or(&first));
    let container = id.to_owned();
    let read = move || libpod::read(&databases, &container);
    let stored = file_access::run(file_system, TIMEOUT, read).await;
    let stored = stored.map_err(|FileSystemHangs| NamesError::Timeout(first.clone()))??;
    podman::complete_labels(identity, &stored.container, stored.pod.as_deref())
        .map_err(|source| NamesError::Parse { file: first, source })
}

async fn from_containerd(
    identity: &mut Identity,
    id: &str,
    (socket, namespace): (&Path, &str),
    pod_is_known: bool,
) -> Result<(), NamesError> {
    let own = containerd::container(socket, namespace, id).await?;
    let sandbox = match identity.role {
        Role::Member if !pod_is_known => {
            Some(containerd::container(socket, namespace, &identity.pod.id).await?)
        }
        _ => None,
    };
    Ok(nri_engine::containerd::complete(identity, &own, sandbox.as_ref())?)
}

/// Returns the content of a file; `None` if it does not exist. `containers` is the directory in
/// which the engine keeps the files of its containers. If reads in it hang, reads in the
/// directories of other engines are not delayed.
async fn read(path: &Path, containers: &Path) -> Result<Option<Vec<u8>>, NamesError> {
    let file = path.to_owned();
    let read = move || read_regular(&file, MAX_FILE);
    let read = file_access::run(FileSystem::directory(containers), TIMEOUT, read).await;
    match read.map_err(|FileSystemHangs| NamesError::Timeout(path.to_owned()))? {
        Ok(content) => Ok(Some(content)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(NamesError::Read { file: path.to_owned(), source }),
    }
}
