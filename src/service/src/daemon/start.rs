//! From a started process to a service that answers, and to its clean end.

use crate::{
    control::server,
    daemon::{
        lock,
        log::Log,
        restart::{Handover, Program},
        sharing::{self, SharedPlugins},
        sockets::{self, Socket},
        systemd::Activation,
    },
    engine::own_nri::EngineNri,
    host::path_probe::PathProbe,
    lifecycle::recovery::recover,
    resources::keeper::Keeper,
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

/// How long a clean end waits for verbs that are under way.
const DRAIN: Duration = Duration::from_secs(5);

/// How long one for another program waits: nobody is in a hurry then, and callers wait for the
/// other one.
const RESTART_DRAIN: Duration = Duration::from_secs(10);

/// How long plugins may take to leave; a few graces.
const FAREWELL: Duration = Duration::from_secs(15);

/// How long a record that could not be written waits for the next attempt.
const SAVE_AGAIN: Duration = Duration::from_millis(500);

/// Why the service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another one runs.
    #[error("nrid runs already for {0}")]
    Runs(PathBuf),
    /// Whoever listens there starts it when it is needed.
    #[error(
        "somebody listens on {0} already; if it is systemd, start nri-container-runtime.service in place of this"
    )]
    Answered(PathBuf),
    /// A socket unit that is for another state directory.
    #[error("the control socket that was passed is {passed}, and callers look for {control}")]
    Elsewhere {
        /// As the unit says.
        passed: PathBuf,
        /// As the configuration says.
        control: PathBuf,
    },
    /// The state directory cannot be used.
    #[error("state directory {0}: {1}")]
    StateDir(PathBuf, #[source] io::Error),
    /// Others have a say in it, or it cannot be made.
    #[error(transparent)]
    State(#[from] StateDirError),
    /// A record's directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A socket cannot be made.
    #[error("socket {0}: {1}")]
    Socket(PathBuf, #[source] io::Error),
    /// A required plugin is not there.
    #[error(transparent)]
    Plugins(#[from] AdaptError),
    /// No signals.
    #[error("signals: {0}")]
    Signals(#[source] io::Error),
}

/// A service that answers.
pub struct Running {
    service: Arc<Service>,
    listener: UnixListener,
    control: Socket,
    plugin_sockets: Vec<Socket>,
    signals: Signals,
    lock: OwnedFd,
}

/// Brings the service up: lock, records, plugins, sockets, in this order. An `nrid` that is ending
/// gets `patience` for it. Sockets that were passed are used and stay; the others are made.
///
/// # Errors
/// See [`StartError`]; what was begun is undone.
pub async fn start(
    settings: Settings,
    log: Log,
    mut activation: Activation,
    patience: Duration,
) -> Result<Running, StartError> {
    let signals = Signals::new()?;
    let dir = settings.state_dir.clone();
    state_dir::create(&dir)?;
    let lock = match activation.lock.take() {
        Some(lock) => lock,
        None => take_lock(&dir, patience).await?,
    };
    let control = dir.join(nri_control::CONTROL_SOCKET);
    // No other nrid runs, so it is systemd; its sockets must not be removed.
    if !sockets::passes(&activation, &control) && nri_host::listener(&control).is_some() {
        return Err(StartError::Answered(control));
    }
    let (registry, broken) = Registry::load(Store::open(&dir)?);
    for error in broken {
        tracing::error!(%error, "left out; remove the file if its container is gone");
    }
    let registry = Arc::new(registry);
    let unchecked = recover(&registry, &dir).await;
    let keeper = Arc::new(Keeper::new(registry.clone(), &settings.config));
    unchecked.iter().for_each(|one| keeper.enforce_recovered(one));
    // Before we listen on the shared socket ourselves, which tells whose the shared plugins are.
    let ours = sockets::passes(&activation, Path::new(nri_locate::PLUGIN_SOCKET));
    let plugin_dir = sharing::plugin_dir(&settings, ours);
    let shared_plugins = SharedPlugins::new(plugin_dir.is_none());
    let config = adaptation_config(&settings.config, plugin_dir);
    let plugin_sockets = sockets::plugins(&settings, &mut activation)?;
    let (adaptation, outcomes) = Adaptation::start(config, keeper.clone()).await?;
    for outcome in outcomes {
        if let Err(error) = outcome.result {
            tracing::error!(plugin = %outcome.path.display(), %error, "not launched");
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
        keeper,
        adaptation,
        started: Instant::now(),
        plugin_sockets: plugin_sockets.sockets.iter().map(|s| s.path.clone()).collect(),
        program: Program::own(activation.failed.take()),
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
    service.tell_idle_policies().await;
    let (listener, control) = sockets::ours(&control, &mut activation)?;
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
    /// Serves until SIGTERM, SIGINT or a request to end, then ends cleanly: launched plugins with
    /// it, containers and external plugins not. Returns what goes over to the program that is to
    /// take our place, if one is.
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
            // New callers start a new nrid once the lock is free.
            self.control.remove();
        }
        let _ = serving.await;
        let deadline = Instant::now() + if is_restart() { RESTART_DRAIN } else { DRAIN };
        while service.is_busy() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Without an answer. One from plugins that are just being closed would be none; records
        // tell the successor what was begun.
        service.abandoned.send_replace(true);
        service.registry.save_unsaved();
        // It bounds each step by itself; requests that we have given up may hold one up.
        if tokio::time::timeout(FAREWELL, service.adaptation.shutdown()).await.is_err() {
            tracing::error!("ending although plugins have not been seen off within {FAREWELL:?}");
        }
        tokio::select! {
            biased;
            // It came meanwhile.
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

/// SIGHUP reads the configuration anew; SIGUSR1 opens the log again. Whoever starts us may send
/// them at once.
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
                        tracing::error!("not reloaded: {}", error.line(""));
                    }
                }
                _ = self.reopen.recv() => service.log.reopen(&service.settings()),
            }
        }
    }
}

fn is_answered(dir: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(dir.join(nri_control::CONTROL_SOCKET)).is_ok()
}

/// Writes records that could not be written at once: the disk was full, say.
async fn save_later(registry: Arc<Registry>) {
    loop {
        registry.failing().await;
        while !registry.save_unsaved() {
            tokio::time::sleep(SAVE_AGAIN).await;
        }
        tracing::info!("records that could not be kept are kept now");
    }
}

async fn take_lock(dir: &Path, patience: Duration) -> Result<OwnedFd, StartError> {
    let deadline = Instant::now() + patience;
    loop {
        match lock::take(dir).map_err(|e| StartError::StateDir(dir.to_owned(), e))? {
            Some(lock) => return Ok(lock),
            // Who answers is not ending, and has what would be waited for.
            None if Instant::now() >= deadline || is_answered(dir) => {
                return Err(StartError::Runs(dir.to_owned()));
            }
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
