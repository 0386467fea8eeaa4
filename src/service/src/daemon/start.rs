//! The start of the service, and its clean end.

use crate::{
    audit::Audit,
    control::server,
    daemon::{handover::Handover, life::LifeFile, lock, presence::Presence, ready},
    engine::engines::Engines,
    host::{
        file_access::blocking,
        kernel::{self, UnsupportedKernel},
        mount_namespace::MountNamespaces,
        near_files,
    },
    lifecycle::recovery::recover,
    plugins::{
        config::adaptation_config,
        launch::Plugins,
        requests::PluginRequests,
        shared::{SharedLaunch, SharedState},
    },
    process::{
        activation::Activation,
        log::Log,
        sockets::{self, SocketError},
        this_process::{Ending, ThisProcess},
    },
    resources::manager::ResourceManager,
    service::Service,
    settings::{
        load::Settings,
        state_dir::{self, StateDirError},
    },
    state::{
        external_plugins::ExternalPlugins,
        followed::FollowedRuntimes,
        registry::Registry,
        store::{Store, StoreError},
        verbs::VerbsInProgress,
    },
};
use nri_adaptation::{AdaptError, Adaptation};
use nri_locate::{Environment, UserDirs};
use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// Time that a clean end waits for verbs in progress.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a restart waits for verbs in progress. Longer than [`DRAIN_TIMEOUT`], because new
/// callers wait for the next program and get no error.
const RESTART_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for closing all plugins. Each plugin has a shorter grace period of its own.
const PLUGIN_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// Time that the end waits until the audit log is written.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which failed writes of records are retried: records are written soon after the disk
/// has room again.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// Pause between two attempts to take the lock of an `nrid` that ends, which takes milliseconds.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Pause between two searches for an `nrid` whose lock was removed. A search reads `/proc`.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// A start that failed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another `nrid` holds the lock of the state directory.
    #[error("nrid runs already for {0}")]
    Running(PathBuf),
    /// Another `nrid` holds the lock, or held it before the file was removed, and does not listen.
    #[error(
        "nrid (pid {0}) runs already for {1}, but does not listen on its control socket; \
         `nrictl restart` replaces it"
    )]
    NotListening(i32, PathBuf),
    /// Another process than an `nrid` of this host holds the lock.
    #[error("{0} has locked {1}/{lock} and is no nrid of this host", lock = nri_files::LIFE_LOCK)]
    LockedByOther(String, PathBuf),
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
    /// The kernel is too old.
    #[error(transparent)]
    Kernel(#[from] UnsupportedKernel),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] io::Error),
}

/// A service that has started.
pub struct Running {
    service: Arc<Service>,
    listener: UnixListener,
    presence: Presence,
    signals: Signals,
}

/// Records the directories of the user for calls of engines that pass no `HOME`.
fn record_user_dirs() {
    let environment = Environment::of_this_process();
    let Some(user) = UserDirs::of_this_process(&environment) else { return };
    if let Err(error) = user.record(&environment) {
        tracing::warn!(
            config = %user.config_home.display(),
            %error,
            "directories of the user not recorded; engines that pass no HOME use the system's \
             configuration"
        );
    }
}

/// Starts the service: lock, records, plugins, sockets, in this order. Waits at most `lock_timeout`
/// for an `nrid` that is ending. Sockets that were passed are kept; the others are created.
///
/// # Errors
/// See [`StartError`]. After an error no task or plugin keeps running.
pub async fn start(
    settings: Settings,
    log: Log,
    mut activation: Activation,
    lock_timeout: Duration,
) -> Result<Running, StartError> {
    let signals = Signals::new()?;
    kernel::check()?;
    let dir = settings.state_dir.clone();
    state_dir::create(&dir)?;
    record_user_dirs();
    let is_same_process = activation.lock.is_some();
    let lock = match activation.lock.take() {
        Some(lock) => lock,
        None => take_lock(&dir, lock_timeout).await?,
    };
    near_files::set_file_system(&lock).map_err(|e| StartError::Lock(dir.clone(), e))?;
    let control = dir.join(nri_files::CONTROL_SOCKET);
    // No other nrid runs, so systemd listens; its sockets must not be removed.
    if !activation.has(&control) && nri_host::listener(&control).is_some() {
        return Err(StartError::SocketInUse(control));
    }
    let (registry, broken) = Registry::load(Store::open(&dir)?);
    for error in broken {
        tracing::error!(%error, "record skipped; remove it if its container no longer exists");
    }
    let registry = Arc::new(registry);
    let engines = Engines::default();
    reopen_namespaces(&engines.namespaces, &registry);
    let followed = FollowedRuntimes::open(&dir);
    let verbs = VerbsInProgress { followed, ..VerbsInProgress::default() };
    let audit = Audit::start(&settings);
    let resources = ResourceManager::new(registry.clone(), audit.clone(), &settings.config);
    recover(&resources, &verbs.followed, &dir).await;
    let external = Arc::new(ExternalPlugins::load(&dir));
    let requests = Arc::new(PluginRequests::new(Arc::new(resources), external.clone()));
    // Must come before nrid listens on the shared socket: the process that listens on that socket
    // is assumed to launch the shared plugins.
    let owns_socket = activation.has(Path::new(nri_locate::PLUGIN_SOCKET));
    let has_adjusted = !registry.all().is_empty();
    let shared_launch = SharedLaunch::decide(&settings, owns_socket, has_adjusted);
    let config = adaptation_config(&settings, &shared_launch);
    let plugin_sockets = sockets::plugins(&settings, &mut activation)?;
    let (adaptation, outcomes) = Adaptation::start(config, requests.clone()).await?;
    let mut is_any_withheld = false;
    for outcome in outcomes {
        if let Err(error) = outcome.result {
            is_any_withheld |= error.is_launched_by_other();
            tracing::error!(plugin = %outcome.path.display(), %error, "plugin not launched");
        }
    }
    let shared = SharedState::of(&shared_launch, is_any_withheld);
    let plugins = Plugins::new(adaptation, requests, shared);
    let mut served = Vec::new();
    for (socket, listener) in plugin_sockets.sockets.into_iter().zip(plugin_sockets.listeners) {
        served.push((socket, plugins.adaptation.serve(listener)?));
    }
    let life = LifeFile::begin(&dir, is_same_process, &audit);
    let plugin_sockets = served.iter().map(|(socket, _)| socket.path.clone()).collect();
    let process = ThisProcess::new(log, &mut activation, plugin_sockets, life.unclean_end());
    let service = Arc::new(Service::new(settings, process, engines, plugins, verbs));
    for container in service.registry.all() {
        service.watch(&container);
        service.follow_caller(&container);
        service.follow_update(&container);
    }
    service.follow_of_previous();
    service.plugins.requests.resume_evictions();
    tokio::spawn(retry_failed_writes(service.registry.clone()));
    tokio::spawn(service.clone().find_vanished());
    service.metrics.serve(&service.settings()).await;
    service.log_policy_notes().await;
    service.settings().publish();
    let (listener, control) = sockets::listen_on(&control, &mut activation)?;
    let config = &service.settings().config;
    let accepts_plugins = !config.disable_connections;
    let timeout = config.plugin_registration_timeout;
    tokio::spawn(async move {
        let timeout = if accepts_plugins { timeout } else { Duration::ZERO };
        external.give_up_after(timeout).await;
    });
    let presence = Presence { lock, life, control, plugins: served, ready: None };
    Ok(Running { service, listener, presence, signals })
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
        let (service, mut presence) = (self.service, self.presence);
        let (accept, replacements) = mpsc::channel(1);
        let signal_task = tokio::spawn(self.signals.follow(service.clone()));
        tracing::info!(state_dir = %service.settings().state_dir.display(), "ready");
        let accept_task = tokio::spawn(server::serve(service.clone(), self.listener, replacements));
        match ready::bind(&ready::path(&service.settings().state_dir)) {
            Ok((listener, socket)) => {
                let task = tokio::spawn(ready::serve(listener)).abort_handle();
                presence.ready = Some((socket, task));
            }
            Err(error) => tracing::warn!(%error, "no readiness socket"),
        }
        let mut is_requested = true;
        tokio::select! {
            _ = term.recv() => service.process.end(Ending::Stop),
            _ = int.recv() => service.process.end(Ending::Stop),
            () = service.process.end_requested() => {}
            () = async {
                tokio::select! {
                    () = service.idle() => {}
                    () = presence.keep(&service, &accept) => {}
                }
            } => {
                is_requested = false;
                service.process.end(Ending::Stop);
            }
        }
        signal_task.abort();
        presence.stop_ready();
        service.metrics.stop();
        let is_restart = || matches!(service.process.ending(), Some(Ending::Restart(_)));
        tracing::info!(restart = is_restart(), "ending");
        if !is_restart() {
            if is_requested {
                service.settings().unpublish();
            }
            // New callers start the next nrid when the lock is free.
            presence.control.remove();
        }
        let _ = accept_task.await;
        let deadline =
            Instant::now() + if is_restart() { RESTART_DRAIN_TIMEOUT } else { DRAIN_TIMEOUT };
        while service.is_busy() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Requests in progress get no reply: plugins that are being closed send none, and the next
        // nrid finds the requests in the records.
        service.process.abandon();
        service.plugins.requests.external.keep_for_next();
        service.registry.save_unsaved();
        // Each step has a timeout, but may wait for an abandoned request.
        if tokio::time::timeout(PLUGIN_SHUTDOWN_TIMEOUT, service.plugins.adaptation.shutdown())
            .await
            .is_err()
        {
            tracing::error!("plugins were not closed within {PLUGIN_SHUTDOWN_TIMEOUT:?}");
        }
        blocking(|| service.audit.flush(AUDIT_TIMEOUT));
        tokio::select! {
            biased;
            // A signal that arrived during the steps above turns a restart into a stop.
            _ = term.recv() => service.process.end(Ending::Stop),
            _ = int.recv() => service.process.end(Ending::Stop),
            () = std::future::ready(()) => {}
        }
        if let Some(Ending::Restart(program)) = service.process.ending() {
            return Ok(Some((presence.hand_over(), program)));
        }
        presence.remove();
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
                _ = self.reopen.recv() => service.process.log.reopen(&service.settings()),
            }
        }
    }
}

/// Opens the mount namespaces that records name.
pub fn reopen_namespaces(namespaces: &MountNamespaces, registry: &Registry) {
    let named: Vec<_> = registry
        .all()
        .into_iter()
        .filter_map(|c| Some((c.record().runtime.namespace_inode()?, c)))
        .collect();
    let found = namespaces.find(&named.iter().map(|(inode, _)| *inode).collect());
    for (inode, container) in named {
        if namespaces.is_own(inode) || found.contains_key(&inode) {
            container.set_namespace(found.get(&inode).cloned());
        } else {
            tracing::warn!(
                container = container.key().id,
                pod = container.record().pod_id,
                "no process is left in the mount namespace of the container's engine"
            );
        }
    }
}

fn is_listening(dir: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(dir.join(nri_files::CONTROL_SOCKET)).is_ok()
}

/// Retries failed writes of records, which a full disk may cause.
async fn retry_failed_writes(registry: Arc<Registry>) {
    loop {
        registry.write_failed().await;
        while !registry.save_unsaved() {
            tokio::time::sleep(SAVE_INTERVAL).await;
        }
        tracing::info!("all records are saved after failed writes");
    }
}

/// Takes the lock of the state directory. Waits for an `nrid` that ends, or whose lock was removed:
/// that `nrid` creates its files again ([`Presence::keep`]).
async fn take_lock(dir: &Path, timeout: Duration) -> Result<OwnedFd, StartError> {
    let deadline = Instant::now() + timeout;
    let path = dir.join(nri_files::LIFE_LOCK);
    let holder = || nri_host::lock_holder(&path, nri_locate::NRID);
    loop {
        let without_lock = if path.exists() { None } else { holder() };
        if without_lock.is_none()
            && let Some(lock) = lock::take(dir).map_err(|e| StartError::Lock(dir.to_owned(), e))?
        {
            return Ok(lock);
        }
        let is_listening = is_listening(dir);
        // An nrid that accepts connections is not about to end.
        if is_listening || Instant::now() >= deadline {
            return Err(match holder() {
                Some(pid) if !is_listening && nri_host::is_own(pid, nri_locate::NRID) => {
                    StartError::NotListening(pid, dir.to_owned())
                }
                Some(pid) if !is_listening => {
                    StartError::LockedByOther(nri_host::describe(pid), dir.to_owned())
                }
                _ => StartError::Running(dir.to_owned()),
            });
        }
        let pause = if without_lock.is_some() { SEARCH_PAUSE } else { LOCK_PAUSE };
        tokio::time::sleep(pause).await;
    }
}
