//! The socket at which metrics are served: follows the configuration, and is created again if it
//! is removed.

use crate::{
    host::file_access::{self, FileSystem, LOOKUP_TIMEOUT, blocking},
    metrics::{families::MetricsSource, http},
    process::sockets::{self, Socket, SocketError, UnusablePath},
    settings::load::Settings,
};
use nri_config::MetricsAddress;
use parking_lot::{Mutex, MutexGuard};
use std::{fs, io, os::unix::fs::DirBuilderExt, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};

/// Maximum number of connections at the same time; others wait in the queue of the kernel. A node
/// has one or two scrapers.
const MAX_CONNECTIONS: usize = 8;

/// Time that a connection may take, so that slow clients do not keep others out.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after an `accept` that failed, for example because descriptors are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The listener of the metrics, which may be off.
pub struct MetricsListener {
    source: MetricsSource,
    /// Locked while the address is examined or replaced, for as long as a file system hangs.
    serving: Mutex<Option<Serving>>,
    /// What a status shows.
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// The address that is served.
    address: Option<String>,
    /// Why the configured address is not served.
    error: Option<String>,
}

/// A listening socket.
struct Serving {
    address: MetricsAddress,
    /// The file of a unix socket.
    socket: Option<Socket>,
    task: AbortHandle,
}

/// Reason why metrics are not served.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error("another process listens there: {0}")]
    InUse(String),
    #[error(transparent)]
    Path(#[from] UnusablePath),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl MetricsListener {
    /// Creates a listener that is off.
    pub fn new(source: MetricsSource) -> Self {
        Self { source, serving: Mutex::default(), shown: Mutex::default() }
    }

    /// Serves metrics where the configuration says, unless they are served there. Called at the
    /// start, at each reload, and at intervals, so that a removed socket or a port that was in use
    /// does not keep metrics away for long.
    pub async fn serve(self: &Arc<Self>, settings: &Settings) {
        let wanted = settings.config.metrics.listen.clone();
        if wanted.is_none() && self.address().is_none() {
            return self.set_error(None);
        }
        let (listener, address) = (self.clone(), wanted.clone());
        let listen = move || listener.listen_at(address.as_ref());
        let listening = file_access::run(FileSystem::Metrics, LOOKUP_TIMEOUT, listen).await;
        if let (Err(hangs), Some(address)) = (listening, wanted) {
            self.set_error(Some(format!("metrics cannot be served at {address}: {hangs}")));
        }
    }

    /// Serves metrics at this address, unless they are served there already, or nowhere. May block
    /// for as long as the file system of a socket hangs; until then, further calls do nothing.
    fn listen_at(&self, wanted: Option<&MetricsAddress>) {
        let Some(mut serving) = self.serving.try_lock() else { return };
        if serving.as_ref().is_some_and(|serving| serving.is_at(wanted)) {
            self.set_error(None);
            return;
        }
        *serving = None;
        self.shown().address = None;
        let Some(address) = wanted else { return self.set_error(None) };
        match listen(address, self.source.clone()) {
            Ok((socket, task)) => {
                tracing::info!(%address, "metrics are served");
                *serving = Some(Serving { address: address.clone(), socket, task });
                self.shown().address = Some(address.to_string());
                self.set_error(None);
            }
            Err(error) => {
                self.set_error(Some(format!("metrics cannot be served at {address}: {error}")));
            }
        }
    }

    /// Sets why the configured address is not served, and logs it once.
    fn set_error(&self, error: Option<String>) {
        let mut shown = self.shown();
        if let Some(error) = error.as_ref().filter(|error| shown.error.as_ref() != Some(*error)) {
            tracing::error!("{error}");
        }
        shown.error = error;
    }

    /// Returns the address that is served.
    pub fn address(&self) -> Option<String> {
        self.shown().address.clone()
    }

    /// Returns why the configured address is not served.
    pub fn error(&self) -> Option<String> {
        self.shown().error.clone()
    }

    /// Ends serving, and removes the socket, unless its file system hangs.
    pub fn stop(&self) {
        if let Some(mut serving) = self.serving.try_lock() {
            *serving = None;
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock()
    }
}

impl Serving {
    /// Whether this address is served, and its socket was not removed.
    fn is_at(&self, address: Option<&MetricsAddress>) -> bool {
        Some(&self.address) == address
            && self.socket.as_ref().is_none_or(Socket::is_at_path)
            && !self.task.is_finished()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(socket) = &self.socket {
            socket.remove();
        }
    }
}

/// Starts to listen.
fn listen(
    address: &MetricsAddress,
    source: MetricsSource,
) -> Result<(Option<Socket>, AbortHandle), ListenError> {
    let (acceptor, socket) = match address {
        MetricsAddress::Unix(path) => {
            let (listener, socket) = listen_unix(path)?;
            (Acceptor::Unix(listener), Some(socket))
        }
        MetricsAddress::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            (Acceptor::Tcp(TcpListener::from_std(listener)?), None)
        }
    };
    Ok((socket, tokio::spawn(acceptor.serve(source)).abort_handle()))
}

fn listen_unix(path: &Path) -> Result<(UnixListener, Socket), ListenError> {
    if let Some(pid) = nri_host::listener(path) {
        return Err(ListenError::InUse(nri_host::describe(pid)));
    }
    if let Some(parent) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    sockets::check_replaceable(path)?;
    Ok(sockets::bind(path)?)
}

/// A socket that accepts connections.
enum Acceptor {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Acceptor {
    async fn serve(self, source: MetricsSource) {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            // Fails only if the semaphore is closed, which nothing does.
            let Ok(permit) = connections.clone().acquire_owned().await else { return };
            let accepted = match &self {
                Self::Unix(listener) => {
                    listener.accept().await.map(|(stream, _)| spawn(stream, &source, permit))
                }
                Self::Tcp(listener) => {
                    listener.accept().await.map(|(stream, _)| spawn(stream, &source, permit))
                }
            };
            if let Err(error) = accepted {
                tracing::debug!(%error, "cannot accept a connection for metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection in a task of its own.
fn spawn(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    source: &MetricsSource,
    permit: OwnedSemaphorePermit,
) {
    let source = source.clone();
    tokio::spawn(async move {
        let _permit = permit;
        let serving = http::serve(&mut stream, || blocking(|| source.text()));
        // A client that leaves or is slow needs no line in the log.
        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serving).await;
    });
}
