//! The files by which others find this `nrid`: the lock of the state directory, and the sockets.
//! `nrid` creates them again if they are removed while it runs. Otherwise callers would wait in
//! vain, or would start a second `nrid` with a second set of plugins.

use crate::{
    bundle::own,
    daemon::{handover::Handover, life::LifeFile, lock, ready},
    host::near_files,
    process::sockets::{self, PLUGIN_DIR, Socket, SocketError},
    service::Service,
    settings::state_dir::{self, StateDirError},
    state::{
        exec_marker,
        store::{Store, StoreError},
    },
};
use nri_adaptation::AdaptError;
use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, FileTypeExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    net::UnixListener,
    sync::mpsc,
    task::{AbortHandle, spawn_blocking},
};

/// Interval of the checks, each of which reads the metadata of a few files. Callers wait for up to
/// this long after a removal.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The lock and the sockets of this `nrid`.
#[derive(Debug)]
pub struct Presence {
    /// The lock of the state directory.
    pub lock: OwnedFd,
    /// The file that says whether the end is clean.
    pub life: LifeFile,
    /// The control socket.
    pub control: Socket,
    /// The sockets for plugins, with the tasks that accept their connections.
    pub plugins: Vec<(Socket, AbortHandle)>,
    /// The readiness socket, while `nrid` serves requests.
    pub ready: Option<(Socket, AbortHandle)>,
}

/// Another `nrid` has locked the state directory after it was removed.
#[derive(Debug)]
struct TakenOver;

/// A removed file that cannot be created again.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    /// The state directory cannot be created.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The lock cannot be opened.
    #[error("lock of {0}: {1}")]
    Lock(PathBuf, #[source] io::Error),
    /// The directories of the records cannot be created.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A socket cannot be created.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Connections of plugins cannot be accepted.
    #[error(transparent)]
    Serve(#[from] AdaptError),
    /// Another process listens at the path of a socket.
    #[error(
        "socket {} was replaced: {listener} listens there now; run `nrictl doctor`",
        socket.display()
    )]
    Replaced {
        /// Path of the socket.
        socket: PathBuf,
        /// The other process.
        listener: String,
    },
    /// The path of a socket has another file.
    #[error("socket {} was replaced by a file that is not a socket; remove it", .0.display())]
    NotASocket(PathBuf),
}

impl Presence {
    /// Creates removed files again. Returns when another `nrid` has taken over the state directory.
    /// New listeners of the control socket are sent to `accept`.
    pub async fn keep(&mut self, service: &Service, accept: &mpsc::Sender<UnixListener>) {
        // The last failure, which is logged once.
        let mut failure = String::new();
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            service.metrics.serve(&service.settings()).await;
            let result = match self.restore_state_dir(service).await {
                Ok(Err(TakenOver)) => {
                    let dir = service.settings().state_dir.clone();
                    tracing::error!(
                        state_dir = %dir.display(),
                        "the state directory was removed, and another nrid has created it again: \
                         this nrid ends"
                    );
                    return;
                }
                Ok(Ok(())) => {
                    self.life.give_sign();
                    self.restore_sockets(service, accept).await
                }
                Err(error) => Err(error),
            };
            let error = result.err().map(|error| error.to_string()).unwrap_or_default();
            if !error.is_empty() && error != failure {
                tracing::error!("{error}");
            }
            failure = error;
        }
    }

    /// Creates the state directory, its lock and its records again, if the lock is not at its path.
    async fn restore_state_dir(
        &mut self,
        service: &Service,
    ) -> Result<Result<(), TakenOver>, RestoreError> {
        let settings = service.settings();
        let dir = &settings.state_dir;
        if lock::is_at_path(&self.lock, dir) {
            return Ok(Ok(()));
        }
        state_dir::create(dir)?;
        let lock = lock::take(dir).map_err(|e| RestoreError::Lock(dir.clone(), e))?;
        let Some(lock) = lock else { return Ok(Err(TakenOver)) };
        self.lock = lock;
        near_files::set_file_system(&self.lock).map_err(|e| RestoreError::Lock(dir.clone(), e))?;
        Store::create_directories(dir)?;
        service.process.log.reopen(&settings);
        tracing::error!(
            state_dir = %dir.display(),
            "the state directory or its lock was removed while nrid runs: created again"
        );
        let registry = service.registry.clone();
        let _ = spawn_blocking(move || registry.save_all()).await;
        for container in service.registry.all() {
            let record = container.record();
            if let Some(own) = record.bundle.own.as_ref().filter(|own| own.config.is_some())
                && let Err(error) = own::write(dir, own)
            {
                let container = &record.key.id;
                tracing::error!(%error, container, "cannot write the bundle again");
            }
            exec_marker::restore(dir, record).await;
        }
        service.plugins.requests.external.save_again();
        service.verbs.followed.save_again(dir);
        Ok(Ok(()))
    }

    /// Creates sockets again whose path was removed.
    async fn restore_sockets(
        &mut self,
        service: &Service,
        accept: &mpsc::Sender<UnixListener>,
    ) -> Result<(), RestoreError> {
        if let Some(listener) = restore(&mut self.control, sockets::bind)? {
            // The other end is closed only while nrid ends.
            let _ = accept.send(listener).await;
        }
        let plugin_dir = service.settings().state_dir.join(PLUGIN_DIR);
        if !plugin_dir.exists() {
            sockets::create_plugin_dir(&plugin_dir)?;
        }
        for (socket, task) in &mut self.plugins {
            if let Some(listener) = restore(socket, sockets::bind)? {
                task.abort();
                *task = service.plugins.adaptation.serve(listener)?;
            }
        }
        if let Some((socket, task)) = &mut self.ready
            && let Some(listener) = restore(socket, ready::bind)?
        {
            task.abort();
            *task = tokio::spawn(ready::serve(listener)).abort_handle();
        }
        Ok(())
    }

    /// Removes the readiness socket.
    pub fn stop_ready(&mut self) {
        if let Some((socket, task)) = self.ready.take() {
            task.abort();
            socket.remove();
        }
    }

    /// Prepares lock and sockets for the next program.
    pub fn hand_over(self) -> Handover {
        let plugins = self.plugins.into_iter().map(|(socket, _)| socket);
        Handover::new(plugins.chain([self.control]).collect(), self.lock)
    }

    /// Removes the sockets that `nrid` created, and the file that says that it runs.
    pub fn remove(self) {
        self.life.remove();
        self.plugins.iter().for_each(|(socket, _)| socket.remove());
        self.control.remove();
    }
}

/// Creates a socket again if its path was removed, or has a file that no process listens on.
///
/// # Errors
/// Another process listens at the path, or the socket cannot be created.
fn restore(
    socket: &mut Socket,
    bind: impl FnOnce(&Path) -> Result<(UnixListener, Socket), SocketError>,
) -> Result<Option<UnixListener>, RestoreError> {
    if socket.is_at_path() {
        return Ok(None);
    }
    let path: &Path = &socket.path;
    if let Some(pid) = nri_host::listener(path) {
        let (socket, listener) = (path.to_owned(), nri_host::describe(pid));
        return Err(RestoreError::Replaced { socket, listener });
    }
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket()) {
        return Err(RestoreError::NotASocket(path.to_owned()));
    }
    if let Some(parent) = path.parent() {
        // If this fails, the error of `bind` names the path.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
    }
    let (listener, created) = bind(path)?;
    tracing::error!(socket = %path.display(), "the socket was removed: created again");
    *socket = created;
    Ok(Some(listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_at_the_path_of_a_removed_socket_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (_listener, mut socket) = sockets::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "kept").unwrap();
        let error = restore(&mut socket, sockets::bind).unwrap_err();
        assert!(matches!(&error, RestoreError::NotASocket(p) if *p == path), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        fs::remove_file(&path).unwrap();
        assert!(restore(&mut socket, sockets::bind).unwrap().is_some());
    }
}
