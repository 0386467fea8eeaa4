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
    sharing::{self, SharedPlugins},
    sockets::{self, Socket},
    state_dir::{self, StateDirError},
    store::{Store, StoreError},
};
use nri_adaptation::{
    AdaptError, Adaptation, Config, DefaultValidatorConfig, OnFailure, PeerPolicy, Permissions, PluginPolicy,
    Privileges,
};
use std::{
    io,
    os::fd::OwnedFd,
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
    state_dir::make(&dir)?;
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
    let shared_plugins = SharedPlugins::new(config.plugin_path.as_os_str().is_empty());
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
        shared_plugins,
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
    tokio::spawn(save_later(service.registry.clone()));
    tokio::spawn(service.clone().notice_gone());
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
        service.registry.save_unsaved();
        service.adaptation.shutdown().await;
        for socket in &self.plugin_sockets {
            socket.remove();
        }
        Ok(())
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
        restart: p.restart == nri_config::Restart::Always,
        restart_backoff: p.restart_backoff,
        permissions: permissions(p),
        privileges: privileges(p),
    };
    let peers = PeerPolicy {
        uids: config.connections.allow_uids.clone(),
        programs: config.connections.allow_programs.clone(),
        max_unregistered: config.connections.max_unregistered,
        max_plugins: config.connections.max_plugins,
    };
    Config {
        plugin_path: plugin_dir.unwrap_or_default(),
        plugin_config_path: config.plugin_config_path.clone(),
        disable_connections: config.disable_connections,
        registration_timeout: config.plugin_registration_timeout,
        request_timeout: config.plugin_request_timeout,
        restart_backoff: config.plugin_restart_backoff,
        restart_backoff_limit: config.plugin_restart_backoff_limit,
        peers,
        runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
        policies: config.plugin.iter().map(policy).collect(),
        default_validator: config.default_validator.enable.then(|| validator(&config.default_validator)),
        ..Config::default()
    }
}

fn permissions(p: &nri_config::PluginPolicy) -> Permissions {
    let allow = p.allow.as_ref().map(|groups| groups.iter().map(|group| group.name()));
    let permissions = Permissions::new(allow, p.deny.iter().map(|group| group.name()));
    // Both tables of names are the same: there is a test. If they were not, nothing would be allowed.
    permissions.unwrap_or_else(|_| Permissions::none())
}

fn privileges(p: &nri_config::PluginPolicy) -> Privileges {
    let limit = |limit: &nri_config::Limit| match limit {
        nri_config::Limit::Value(value) => Some(*value),
        nri_config::Limit::Unlimited => None,
    };
    let names = |all: &Vec<nri_config::Capability>| all.iter().map(|c| c.name().to_owned()).collect();
    Privileges {
        user: p.user.as_ref().map(|user| user.user.to_string()),
        group: p.user.as_ref().and_then(|user| user.group.as_ref()).map(ToString::to_string),
        capabilities: p.capabilities.as_ref().map(names),
        no_new_privs: p.no_new_privs,
        rlimits: p.rlimits.iter().map(|(name, value)| (name.name().to_owned(), limit(value))).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use nri_adaptation::{field_groups, launcher};

    #[test]
    fn the_names_that_a_configuration_may_use_are_those_that_are_known() {
        let named: std::collections::BTreeSet<_> = nri_config::FIELD_GROUPS.iter().copied().collect();
        assert_eq!(named, field_groups());
        for name in nri_config::CAPABILITIES {
            assert!(launcher::knows_capability(name), "{name}");
        }
        for name in nri_config::RLIMITS {
            assert!(launcher::knows_rlimit(name), "{name}");
        }
        assert!(!launcher::knows_capability("nonsense") && !launcher::knows_rlimit("nonsense"));
    }

    #[test]
    fn what_a_policy_says_is_what_a_plugin_gets() {
        let text = "[[plugin]]\nmatch = 'a'\nuser = 'nobody:7'\ncapabilities = ['CAP_KILL']\nno_new_privs = true\n\
                    rlimits = { core = 0, as = 'unlimited' }\nallow = ['mounts']\ndeny = ['hooks']\nrestart = 'never'\n";
        let config = nri_config::Config::parse(text).unwrap();
        let expected = Privileges {
            user: Some("nobody".into()),
            group: Some("7".into()),
            capabilities: Some(vec!["kill".into()]),
            no_new_privs: true,
            rlimits: vec![("as".into(), None), ("core".into(), Some(0))],
        };
        assert_eq!(privileges(&config.plugin[0]), expected);
        let expected = Permissions::new(Some(["mounts"]), ["hooks"]).unwrap();
        assert_eq!(permissions(&config.plugin[0]), expected);
        let config = nri_config::Config::parse("[[plugin]]\nmatch = 'a'\n").unwrap();
        assert_eq!(privileges(&config.plugin[0]), Privileges::default());
        assert_eq!(permissions(&config.plugin[0]), Permissions::default());
    }
}
