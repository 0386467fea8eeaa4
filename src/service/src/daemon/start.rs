//! The start of the service, and its clean end.

use crate::{
    control::server,
    daemon::{
        activation::Activation,
        handover::Handover,
        lock,
        log::Log,
        program::Program,
        shared_plugins::{SharedPlugins, plugin_dir},
        sockets::{self, Socket, SocketError},
    },
    engine::own_nri::EngineNri,
    host::path_probe::PathProbe,
    lifecycle::recovery::recover,
    resources::manager::ResourceManager,
    service::{Ending, Service},
    settings::{
        load::Settings,
        plugins::adaptation_config,
        state_dir::{self, StateDirError},
    },
    state::{
        claims::Claims,
        locks::Locks,
        registry::Registry,
        store::{Store, StoreError},
    },
};
use nri_adaptation::{AdaptError, Adaptation};
use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, RwLock, atomic::AtomicUsize},
    time::{Duration, Instant},
};
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::{Mutex, watch},
};

/// Time that a clean end waits for verbs in progress.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a restart waits for verbs in progress. Longer than [`DRAIN_TIMEOUT`], because new
/// callers wait for the next program and get no error.
const RESTART_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of closing all plugins: each has a grace period of its own.
const PLUGIN_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval at which failed writes of records are retried.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// A start that failed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another `nrid` holds the lock of the state directory.
    #[error("nrid runs already for {0}")]
    Running(PathBuf),
    /// A process without the lock listens on the control socket: systemd, which starts `nrid` when
    /// a caller connects.
    #[error(
        "another process listens on {0}; \
         if it is systemd, start nri-container-runtime.service instead"
    )]
    SocketInUse(PathBuf),
    /// The lock cannot be opened.
    #[error("state directory {0}: {1}")]
    Lock(PathBuf, #[source] io::Error),
    /// The state directory cannot be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The directories of the records cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A required plugin cannot be started.
    #[error(transparent)]
    Plugins(#[from] AdaptError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] io::Error),
}

/// A service that has started.
pub struct Running {
    service: Arc<Service>,
    listener: UnixListener,
    control: Socket,
    plugin_sockets: Vec<Socket>,
    signals: Signals,
    lock: OwnedFd,
}

/// Starts the service: lock, records, plugins, sockets, in this order. Waits at most `lock_timeout`
/// for an `nrid` that is ending. Sockets that were passed are kept; the others are created.
///
/// # Errors
/// See [`StartError`]. Then nothing keeps running.
pub async fn start(
    settings: Settings,
    log: Log,
    mut activation: Activation,
    lock_timeout: Duration,
) -> Result<Running, StartError> {
    let signals = Signals::new()?;
    let dir = settings.state_dir.clone();
    state_dir::create(&dir)?;
    let lock = match activation.lock.take() {
        Some(lock) => lock,
        None => take_lock(&dir, lock_timeout).await?,
    };
    let control = dir.join(nri_control::CONTROL_SOCKET);
    // No other nrid runs, so systemd listens; its sockets must not be removed.
    if !activation.has(&control) && nri_host::listener(&control).is_some() {
        return Err(StartError::SocketInUse(control));
    }
    let (registry, broken) = Registry::load(Store::open(&dir)?);
    for error in broken {
        tracing::error!(%error, "record skipped; remove it if its container no longer exists");
    }
    let registry = Arc::new(registry);
    let unchecked = recover(&registry, &dir).await;
    let resource_manager = Arc::new(ResourceManager::new(registry.clone(), &settings.config));
    unchecked.iter().for_each(|one| resource_manager.enforce_recovered(one));
    // Must come before nrid listens on the shared socket: the listener there shows which process
    // launches the plugins.
    let owns_socket = activation.has(Path::new(nri_locate::PLUGIN_SOCKET));
    let plugin_dir = plugin_dir(&settings, owns_socket);
    let shared_plugins = SharedPlugins::new(plugin_dir.is_none());
    let config = adaptation_config(&settings.config, plugin_dir);
    let plugin_sockets = sockets::plugins(&settings, &mut activation)?;
    let (adaptation, outcomes) = Adaptation::start(config, resource_manager.clone()).await?;
    for outcome in outcomes {
        if let Err(error) = outcome.result {
            tracing::error!(plugin = %outcome.path.display(), %error, "plugin not launched");
        }
    }
    for listener in plugin_sockets.listeners {
        adaptation.serve(listener)?;
    }
    let service = Arc::new(Service {
        settings: RwLock::new(Arc::new(settings)),
        log,
        reloading: Mutex::default(),
        registry,
        locks: Locks::default(),
        claims: Claims::default(),
        engine_nri: EngineNri::default(),
        shared_plugins,
        path_probe: PathProbe::default(),
        resource_manager,
        adaptation,
        started: Instant::now(),
        plugin_sockets: plugin_sockets.sockets.iter().map(|s| s.path.clone()).collect(),
        program: Program::of_this_process(activation.failed.take()),
        ending: watch::channel(None).0,
        abandoned: watch::channel(false).0,
        in_progress: AtomicUsize::new(0),
    });
    for container in service.registry.all() {
        service.watch(&container);
        service.follow_caller(&container);
        service.follow_update(&container);
    }
    tokio::spawn(save_later(service.registry.clone()));
    tokio::spawn(service.clone().find_vanished());
    service.log_idle_policies().await;
    let (listener, control) = sockets::listen_on(&control, &mut activation)?;
    Ok(Running {
        service,
        listener,
        control,
        plugin_sockets: plugin_sockets.sockets,
        signals,
        lock,
    })
}

impl Running {
    /// Serves until SIGTERM, SIGINT or a request to end, then ends cleanly: launched plugins end,
    /// containers and external plugins do not. For a restart, returns the descriptors and the path
    /// of the next program.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub async fn serve(self) -> Result<Option<(Handover, PathBuf)>, StartError> {
        let mut term = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
        let mut int = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
        let service = self.service;
        let listening = tokio::spawn(self.signals.follow(service.clone()));
        tracing::info!(state_dir = %service.settings().state_dir.display(), "ready");
        let serving = tokio::spawn(server::serve(service.clone(), self.listener));
        tokio::select! {
            _ = term.recv() => service.end(Ending::Stop),
            _ = int.recv() => service.end(Ending::Stop),
            () = service.ended() => {}
            () = service.idle() => service.end(Ending::Stop),
        }
        listening.abort();
        let is_restart = || matches!(&*service.ending.borrow(), Some(Ending::Restart(_)));
        tracing::info!(restart = is_restart(), "ending");
        if !is_restart() {
            // New callers start the next nrid when the lock is free.
            self.control.remove();
        }
        let _ = serving.await;
        let deadline =
            Instant::now() + if is_restart() { RESTART_DRAIN_TIMEOUT } else { DRAIN_TIMEOUT };
        while service.is_busy() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Requests in progress get no reply: plugins that are being closed send none, and the next
        // nrid finds the requests in the records.
        service.abandoned.send_replace(true);
        service.registry.save_unsaved();
        // Each step has a timeout, but may wait for an abandoned request.
        if tokio::time::timeout(PLUGIN_SHUTDOWN_TIMEOUT, service.adaptation.shutdown())
            .await
            .is_err()
        {
            tracing::error!("plugins did not close within {PLUGIN_SHUTDOWN_TIMEOUT:?}");
        }
        tokio::select! {
            biased;
            // Handles a signal that arrived meanwhile.
            _ = term.recv() => service.end(Ending::Stop),
            _ = int.recv() => service.end(Ending::Stop),
            () = std::future::ready(()) => {}
        }
        let sockets = self.plugin_sockets.into_iter().chain([self.control]);
        let ending = service.ending.borrow().clone();
        if let Some(Ending::Restart(program)) = ending {
            return Ok(Some((Handover::new(sockets.collect(), self.lock), program)));
        }
        for socket in sockets {
            socket.remove();
        }
        Ok(None)
    }
}

/// Receivers of signals: SIGHUP reloads, SIGUSR1 reopens the log. Created first, because a service
/// manager may send signals at once.
struct Signals {
    reload: Signal,
    reopen: Signal,
}

impl Signals {
    fn new() -> Result<Self, StartError> {
        let new = |kind| signal(kind).map_err(StartError::Signals);
        Ok(Self { reload: new(SignalKind::hangup())?, reopen: new(SignalKind::user_defined1())? })
    }

    async fn follow(mut self, service: Arc<Service>) {
        loop {
            tokio::select! {
                _ = self.reload.recv() => {
                    if let Err(error) = service.reload().await {
                        tracing::error!("reload failed: {}", error.line(""));
                    }
                }
                _ = self.reopen.recv() => service.log.reopen(&service.settings()),
            }
        }
    }
}

fn is_listening(dir: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(dir.join(nri_control::CONTROL_SOCKET)).is_ok()
}

/// Retries failed writes of records, which a full disk may cause.
async fn save_later(registry: Arc<Registry>) {
    loop {
        registry.failing().await;
        while !registry.save_unsaved() {
            tokio::time::sleep(SAVE_INTERVAL).await;
        }
        tracing::info!("all records are saved after failed writes");
    }
}

async fn take_lock(dir: &Path, timeout: Duration) -> Result<OwnedFd, StartError> {
    let deadline = Instant::now() + timeout;
    loop {
        match lock::take(dir).map_err(|e| StartError::Lock(dir.to_owned(), e))? {
            Some(lock) => return Ok(lock),
            // An nrid that accepts connections is not ending.
            None if Instant::now() >= deadline || is_listening(dir) => {
                return Err(StartError::Running(dir.to_owned()));
            }
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
