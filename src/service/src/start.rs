//! From a started process to a service that answers, and to its clean end.

use crate::{
    activation::Activation,
    claims::Claims,
    engine_nri::EngineNri,
    keeper::Keeper,
    lock,
    recall::recall,
    registry::Registry,
    server,
    service::Service,
    settings::Settings,
    sharing,
    sockets::{self, Socket},
    store::{Store, StoreError},
};
use nri_adaptation::{AdaptError, Adaptation, Config, DefaultValidatorConfig, OnFailure, PluginPolicy};
use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::UnixListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// How long a clean end waits for verbs that are under way.
const DRAIN: Duration = Duration::from_secs(5);

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
    _lock: OwnedFd,
}

/// Brings the service up: lock, records, plugins, sockets, in this order. An `nrid` that is ending gets `patience` for it. Sockets that were passed
/// are used and stay; the others are made.
///
/// # Errors
/// See [`StartError`]; what was begun is undone.
pub async fn start(
    settings: Settings,
    mut activation: Activation,
    patience: Duration,
) -> Result<Running, StartError> {
    let dir = settings.state_dir.clone();
    let in_dir = |e| StartError::StateDir(dir.clone(), e);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(in_dir)?;
    let lock = take_lock(&dir, patience).await?;
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
    recall(&registry, &dir).await;
    let keeper = Arc::new(Keeper::new(registry.clone(), &settings.config));
    // Before we listen on the shared socket ourselves, which tells whose the shared plugins are.
    let config = adaptation_config(&settings, &activation);
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
        settings,
        registry,
        claims: Claims::default(),
        engine_nri: EngineNri::default(),
        keeper,
        adaptation,
        started: Instant::now(),
        plugin_sockets: plugin_sockets.sockets.iter().map(|s| s.path.clone()).collect(),
        stopping: watch::channel(false).0,
    });
    for container in service.registry.all() {
        service.watch(&container);
        service.follow_caller(&container);
        service.follow_update(&container);
    }
    let (listener, control) = sockets::ours(&control, &mut activation)?;
    Ok(Running { service, listener, control, plugin_sockets: plugin_sockets.sockets, _lock: lock })
}

impl Running {
    /// Serves until SIGTERM, SIGINT or a request to stop, then ends cleanly: launched plugins with it, containers and external plugins not.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub async fn serve(self) -> Result<(), StartError> {
        let mut term = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
        let mut int = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
        let service = self.service;
        tracing::info!(state_dir = %service.settings.state_dir.display(), "ready");
        let serving = tokio::spawn(server::serve(service.clone(), self.listener));
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            () = service.stopped() => {}
        }
        service.stop();
        tracing::info!("ending");
        // New callers start a new nrid once the lock is free.
        self.control.remove();
        let _ = serving.await;
        let deadline = Instant::now() + DRAIN;
        while service.registry.is_busy() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        service.adaptation.shutdown().await;
        for socket in &self.plugin_sockets {
            socket.remove();
        }
        Ok(())
    }
}

async fn take_lock(dir: &Path, patience: Duration) -> Result<OwnedFd, StartError> {
    let deadline = Instant::now() + patience;
    loop {
        match lock::take(dir).map_err(|e| StartError::StateDir(dir.to_owned(), e))? {
            Some(lock) => return Ok(lock),
            None if Instant::now() >= deadline => return Err(StartError::Runs(dir.to_owned())),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn adaptation_config(settings: &Settings, activation: &Activation) -> Config {
    let config = &settings.config;
    let plugin_dir = if sockets::passes(activation, Path::new(nri_config::PLUGIN_SOCKET)) {
        // systemd listens there, for us.
        Some(config.plugin_path.clone().unwrap_or_else(|| nri_config::PLUGIN_DIR.into()))
    } else {
        sharing::plugin_dir(settings)
    };
    let policy = |p: &nri_config::PluginPolicy| PluginPolicy {
        plugin: p.pattern.clone(),
        on_failure: match p.on_failure {
            nri_config::OnFailure::Ignore => OnFailure::Ignore,
            nri_config::OnFailure::Fail => OnFailure::Fail,
        },
        required: p.required,
        timeout: p.timeout,
        consecutive_timeouts: p.consecutive_timeouts,
    };
    Config {
        plugin_path: plugin_dir.unwrap_or_default(),
        plugin_config_path: config.plugin_config_path.clone(),
        disable_connections: config.disable_connections,
        registration_timeout: config.plugin_registration_timeout,
        request_timeout: config.plugin_request_timeout,
        runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
        policies: config.plugin.iter().map(policy).collect(),
        default_validator: config.default_validator.enable.then(|| validator(&config.default_validator)),
        ..Config::default()
    }
}

fn validator(rules: &nri_config::ValidatorSettings) -> DefaultValidatorConfig {
    DefaultValidatorConfig {
        reject_oci_hook_adjustment: rules.reject_oci_hook_adjustment,
        reject_runtime_default_seccomp_adjustment: rules.reject_runtime_default_seccomp_adjustment,
        reject_unconfined_seccomp_adjustment: rules.reject_unconfined_seccomp_adjustment,
        reject_custom_seccomp_adjustment: rules.reject_custom_seccomp_adjustment,
        reject_namespace_adjustment: rules.reject_namespace_adjustment,
        reject_sysctl_adjustment: rules.reject_sysctl_adjustment,
        required_plugins: rules.required_plugins.clone(),
        tolerate_missing_plugins_annotation: rules.tolerate_missing_plugins_annotation.clone(),
    }
}
