//! The adaptation itself: start, listening, launching, status, shutdown. What it does with events
//! is in [`crate::create`], [`crate::update`] and [`crate::events`].

use nri_api::PluginId;
use nri_api::proto::Event;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

use crate::connect::{Candidate, Ready};
use crate::discovery::{Found, discover, examine};
use crate::launch::launch;
use crate::line::Line;
use crate::output::Output;
use crate::peers::{Peer, PeerRefusal};
use crate::reload::Launches;
use crate::restart::Restarts;
use crate::status::{PluginOrigin, PluginState, PluginStatus, Record, Registry, involved};
use crate::{AdaptError, AdaptationConfig, ContainerManager, SessionError};

/// Pause of a listener that cannot accept, so as not to spin where descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The plugins of a runtime. Clones are the same adaptation; it ends by [`Adaptation::shutdown`].
#[derive(Clone)]
pub struct Adaptation {
    pub(crate) inner: Arc<Inner>,
}

/// What became of one file in the plugin directory.
#[derive(Debug)]
pub struct LaunchOutcome {
    /// The file; the directory, if that cannot be read.
    pub path: PathBuf,
    /// The plugin, active now, or why it is not.
    pub result: Result<PluginId, SessionError>,
}

pub(crate) struct Inner {
    config: RwLock<Arc<AdaptationConfig>>,
    pub(crate) host: Arc<dyn ContainerManager>,
    pub(crate) line: Line,
    pub(crate) registry: Registry,
    pub(crate) restarts: Restarts,
    /// What runs of the plugin directory, or was to run.
    pub(crate) launched: Launches,
    /// Whoever launches holds it with others; a reload holds it alone, so that nobody comes up
    /// meanwhile.
    pub(crate) launching: tokio::sync::RwLock<()>,
    output: Output,
    pub(crate) runtime: Handle,
    shutdown: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Adaptation {
    /// Launches the plugins of the plugin directory. Returns when each is registered, configured
    /// and synchronized, or has failed.
    ///
    /// They register at the same time, and are synchronized one after the other in their order. A
    /// plugin that fails is reported, and fails the start only if it is required.
    ///
    /// # Errors
    /// [`AdaptError::Start`].
    pub async fn start(
        config: AdaptationConfig,
        host: Arc<dyn ContainerManager>,
    ) -> Result<(Self, Vec<LaunchOutcome>), AdaptError> {
        let inner = Arc::new(Inner {
            config: RwLock::new(Arc::new(config)),
            output: Output::new(host.clone()),
            host,
            line: Line::default(),
            registry: Registry::default(),
            restarts: Restarts::default(),
            launched: Launches::default(),
            launching: tokio::sync::RwLock::default(),
            runtime: Handle::current(),
            shutdown: watch::Sender::new(false),
            tasks: Mutex::default(),
        });
        let adaptation = Self { inner };
        let mut outcomes = adaptation.launch_all().await;
        let failed = outcomes
            .iter()
            .position(|o| o.result.is_err() && adaptation.inner.fails_start(&o.path));
        if let Some(at) = failed {
            adaptation.shutdown().await;
            let LaunchOutcome { path, result } = outcomes.swap_remove(at);
            if let (Some(plugin), Err(source)) = (id_of(&path), result) {
                return Err(AdaptError::Start { plugin, source });
            }
        }
        Ok((adaptation, outcomes))
    }

    /// Accepts external plugins, until shutdown. May be called for several listeners.
    ///
    /// # Errors
    /// [`AdaptError::ConnectionsDisabled`].
    pub fn serve(&self, listener: UnixListener) -> Result<(), AdaptError> {
        if self.inner.config().disable_connections {
            return Err(AdaptError::ConnectionsDisabled);
        }
        let adaptation = self.clone();
        self.inner.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = adaptation.inner.shutting_down() => return,
                };
                match accepted {
                    Ok((stream, _)) => {
                        let (record, stranger) = match adaptation.inner.take_in(&stream) {
                            Ok(taken) => taken,
                            Err(e) => {
                                debug!("a connection was refused: {e}"); // the host was told
                                continue;
                            }
                        };
                        let accepting = adaptation.clone();
                        adaptation.inner.spawn(async move {
                            if let Err(e) = accepting.bring_in(stream, record, stranger).await {
                                debug!("a plugin did not become active: {e}"); // the host was told
                            }
                        });
                    }
                    Err(e) => {
                        warn!("cannot accept a plugin: {e}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
        Ok(())
    }

    /// Takes a connection for an external plugin, whoever is at its other end. Returns when it is
    /// active.
    ///
    /// # Errors
    /// Why it did not become active. The connection is closed then.
    pub async fn connect<S>(&self, stream: S, pid: Option<u32>) -> Result<PluginId, SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let place = self.inner.registry.take_place(&self.inner.config().peers, pid);
        let record = place.inspect_err(|e| self.inner.refused(pid, e))?;
        self.bring_in(stream, record, None).await
    }

    async fn bring_in<S>(
        &self,
        stream: S,
        record: Arc<Record>,
        stranger: Option<u32>,
    ) -> Result<PluginId, SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let config = String::new();
        let candidate = Candidate { stream, record, config, process: None, found: None, stranger };
        let ready = self.inner.prepare(candidate).await?;
        self.inner.admit(ready).await
    }

    /// Launches the plugin in this file, after [`Adaptation::start`]: at once, if it had ended.
    /// Returns when it is active. It is not for a plugin that is there: it would be there twice.
    ///
    /// # Errors
    /// Why it did not become active.
    pub async fn launch(&self, path: &Path) -> Result<PluginId, SessionError> {
        let _launching = self.inner.launching.read().await;
        let found = examine(path, &self.inner.config())?.ok_or(SessionError::NotExecutable)?;
        let serial = self.inner.registry.serial();
        match self.inner.clone().bring_up(found.clone(), serial).await {
            Ok(ready) => self.inner.admit(ready).await,
            Err(e) => {
                self.inner.restart(&found, Duration::ZERO);
                Err(e)
            }
        }
    }

    /// Whether any plugin is there, or on its way.
    pub fn has_plugins(&self) -> bool {
        self.inner.registry.has_plugins()
    }

    /// Whether a request of this kind has to be made at all: some plugin subscribed to it, or may
    /// still, or a creation is subject to rules that hold without plugins too.
    pub fn needs_request(&self, event: Event) -> bool {
        let config = self.inner.config();
        let rules =
            config.default_validator.is_some() || config.policies.iter().any(|p| p.required);
        self.inner.registry.wants(involved(event)) || (event == Event::CREATE_CONTAINER && rules)
    }

    /// All plugins, in the order in which they are called. Launched plugins that ended are among
    /// them, and for a while external ones that went, failed or were refused.
    pub fn plugins(&self) -> Vec<PluginStatus> {
        self.inner.registry.all()
    }

    /// Ends all sessions. Launched plugins are told (`Shutdown`), then their programs are ended,
    /// with SIGKILL if need be, and reaped. External plugins are only disconnected, as upstream
    /// does. Requests pass without plugins from then on.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        inner.shutdown.send_replace(true);
        let mut ending = JoinSet::new();
        for plugin in inner.line.plugins() {
            let launched = matches!(plugin.record.get().origin, PluginOrigin::Launched(_));
            let grace = plugin.timeout.min(inner.config().stop_grace);
            ending.spawn(async move {
                if launched {
                    // An old plugin does not know it, a hanging one does not answer: it is a
                    // courtesy.
                    let _ = tokio::time::timeout(grace, plugin.session.shutdown(grace)).await;
                }
                plugin.end("the runtime shuts down".into());
            });
        }
        while ending.join_next().await.is_some() {}
        loop {
            let tasks =
                std::mem::take(&mut *inner.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            if tasks.is_empty() {
                inner.output.flush().await;
                return;
            }
            for task in tasks {
                // A task that panicked has ended as well.
                let _ = task.await;
            }
        }
    }

    async fn launch_all(&self) -> Vec<LaunchOutcome> {
        let config = self.inner.config();
        let (found, skipped) = match tokio::task::spawn_blocking(move || discover(&config)).await {
            Ok(discovered) => discovered,
            Err(e) => {
                warn!("looking for plugins failed: {e}");
                return Vec::new();
            }
        };
        let registry = &self.inner.registry;
        let mut outcomes: Vec<_> = skipped
            .into_iter()
            .map(|s| {
                // To be seen with the others.
                let origin = PluginOrigin::Launched(s.path.clone());
                let record = registry.add(registry.serial(), id_of(&s.path), origin, None);
                registry.end(&record, s.reason.to_string());
                LaunchOutcome { path: s.path, result: Err(s.reason.into()) }
            })
            .collect();

        // A required one fails the start; nobody is to come up meanwhile.
        let inner = &self.inner;
        outcomes.extend(inner.launch_each(found, |found| !inner.fails_start(&found.path)).await);
        outcomes.sort_by(|a, b| a.path.cmp(&b.path));
        outcomes
    }
}

impl Inner {
    /// What holds now.
    pub(crate) fn config(&self) -> Arc<AdaptationConfig> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on this holds.
    pub(crate) fn set_config(&self, config: Arc<AdaptationConfig>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Launches programs, at the same time, and admits them in the order in which they are given:
    /// that of file names, which is that of indices. Of those that fail, the ones that `again`
    /// chooses are launched again.
    pub(crate) async fn launch_each(
        self: &Arc<Self>,
        found: Vec<Found>,
        again: impl Fn(&Found) -> bool,
    ) -> Vec<LaunchOutcome> {
        let mut launches = Vec::new();
        for found in found {
            let serial = self.registry.serial();
            let launch = tokio::spawn(self.clone().bring_up(found.clone(), serial));
            launches.push((found, launch));
        }
        let mut prepared = Vec::new();
        for (found, launch) in launches {
            let ready =
                launch.await.unwrap_or_else(|e| Err(SessionError::Unregistered(e.to_string())));
            if ready.is_err() && again(&found) {
                self.restart(&found, Duration::ZERO);
            }
            prepared.push((found.path, ready));
        }
        let mut outcomes = Vec::new();
        for (path, ready) in prepared {
            let result = match ready {
                Ok(ready) => self.admit(ready).await,
                Err(e) => Err(e),
            };
            outcomes.push(LaunchOutcome { path, result });
        }
        outcomes
    }

    /// Launches a program, up to its subscription.
    pub(crate) async fn bring_up(
        self: Arc<Self>,
        found: Found,
        serial: u64,
    ) -> Result<Ready, SessionError> {
        self.restarts.begin(&found.path);
        self.registry.forget(&found.path);
        let record = self.registry.add(
            serial,
            Some(found.id.clone()),
            PluginOrigin::Launched(found.path.clone()),
            None,
        );
        let config = self.config();
        self.launched.note(&found, &config);
        match launch(&found, &config, self.output.clone()).await {
            Ok((stream, process)) => {
                record.set(|s| s.pid = process.pid);
                let (config, process) = (found.config.clone(), Some(process));
                let found = Some(found);
                self.prepare(Candidate { stream, record, config, process, found, stranger: None })
                    .await
            }
            Err(e) => {
                let e = SessionError::Launch(e);
                self.changed(self.registry.end(&record, e.to_string()));
                Err(e)
            }
        }
    }

    /// Lets a connection in, if whoever is at its other end may connect; and the user, if that is
    /// another one.
    fn take_in(&self, stream: &UnixStream) -> Result<(Arc<Record>, Option<u32>), PeerRefusal> {
        let config = self.config();
        let peer = Peer::of(stream).inspect_err(|e| self.refused(None, e))?;
        let checked = peer.check(&config.peers);
        let taken = checked.and_then(|()| self.registry.take_place(&config.peers, peer.pid));
        let taken = taken.map(|record| (record, peer.stranger()));
        taken.inspect_err(|e| self.refused(peer.pid, e))
    }

    /// Somebody may not connect: the host is told, and not again while the same is known.
    fn refused(&self, pid: Option<u32>, why: &PeerRefusal) {
        if let Some(status) = self.registry.refuse(pid, &why.to_string()) {
            self.changed(status);
        }
    }

    /// Tells the host.
    pub(crate) fn changed(&self, status: PluginStatus) {
        let name = status.id.as_ref().map_or_else(
            || {
                format!(
                    "(unregistered, pid {})",
                    status.pid.map_or("unknown".into(), |p| p.to_string())
                )
            },
            PluginId::to_string,
        );
        match status.state {
            PluginState::Closed => {
                debug!(
                    plugin = name,
                    "plugin closed: {}",
                    status.last_error.as_deref().unwrap_or_default()
                );
            }
            state => {
                debug!(plugin = name, version = status.version, events = ?status.events, "plugin {state:?}")
            }
        }
        self.host.plugin_changed(&status);
    }

    /// Runs a task that the shutdown waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|t| !t.is_finished());
        tasks.push(self.runtime.spawn(task));
    }

    pub(crate) async fn shutting_down(&self) {
        // The sender is in self, so there is always a shutdown to wait for.
        let _ = self.shutdown.subscribe().wait_for(|down| *down).await;
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.shutdown.borrow()
    }

    /// Whether there is no start without this one.
    fn fails_start(&self, path: &Path) -> bool {
        let config = self.config();
        id_of(path).filter(|_| !config.start_without_required).is_some_and(|id| {
            let policy = config.policy(&id);
            // One for all plugins asks for some plugin, not for each.
            policy.required && policy.plugin != "*"
        })
    }
}

pub(crate) fn id_of(path: &Path) -> Option<PluginId> {
    PluginId::from_file_name(path.file_name()?.to_str()?).ok()
}
