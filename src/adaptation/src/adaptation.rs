//! The adaptation: start, external connections, launches, reload, shutdown.
//!
//! Events are handled in [`crate::events`].

use nri_api::PluginId;
use nri_api::proto::{Empty, Event};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

use crate::config::AdaptationConfig;
use crate::core::Core;
use crate::error::{AdaptError, SessionError};
use crate::launch::discovery::PluginFile;
use crate::launch::plan::ReloadAction;
use crate::launch::reload::{PendingReload, ReloadedPlugin};
use crate::launch::skip_reason::SkipReason;
use crate::launch::supervisor::{LaunchOutcome, LaunchSupervisor, id_of};
use crate::manager::ContainerManager;
use crate::plugin::histogram::DurationHistogram;
use crate::plugin::statistics::PluginStatistics;
use crate::plugin::status::{
    PluginOrigin, PluginState, PluginStatus, StatusRecord, involved_events,
};
use crate::policy::budget::{Budget, BudgetExemption};
use crate::policy::failure_policy::FailureHandling;
use crate::policy::peers::{CheckedPeer, Peer, PeerRefusal};
use crate::policy::plugin_policy::PluginPolicy;
use crate::session::handshake::Connection;

/// Pause after a failed accept, so that a listener does not spin while the process has no free
/// descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// NRI adaptation of a runtime: its plugins and their sessions. Clones share one state, so that
/// [`Adaptation::shutdown`] on any clone shuts down all.
#[derive(Clone)]
pub struct Adaptation {
    pub(crate) core: Arc<Core>,
    supervisor: Arc<LaunchSupervisor>,
}

impl Adaptation {
    /// Launches the plugins of the plugin directory. Returns when each of them is registered,
    /// configured and synchronized, or has failed.
    ///
    /// Plugins register in parallel, and are synchronized one after the other in call order. The
    /// start fails only if a required plugin fails, unless `start_without_required` is set.
    ///
    /// # Errors
    /// [`AdaptError::Start`] if a required plugin does not become active, and
    /// [`AdaptError::PluginDirectory`] if the plugin directory hangs.
    pub async fn start(
        config: AdaptationConfig,
        manager: Arc<dyn ContainerManager>,
    ) -> Result<(Self, Vec<LaunchOutcome>), AdaptError> {
        let core = Arc::new(Core::new(config, manager));
        let supervisor = Arc::new(LaunchSupervisor::new(core.clone()));
        let adaptation = Self { core, supervisor };
        let launched = adaptation.supervisor.launch_all().await;
        let mut outcomes = launched.map_err(|source| AdaptError::PluginDirectory {
            path: adaptation.core.config().plugin_path.clone(),
            source,
        })?;
        let failed = outcomes
            .iter()
            .position(|o| o.result.is_err() && adaptation.supervisor.is_required_at_start(&o.path));
        if let Some(index) = failed {
            adaptation.shutdown().await;
            let LaunchOutcome { path, result } = outcomes.swap_remove(index);
            if let (Some(plugin), Err(source)) = (id_of(&path), result) {
                return Err(AdaptError::Start { plugin, source });
            }
        }
        Ok((adaptation, outcomes))
    }

    /// Accepts external plugins until the shutdown, or until the task is aborted with the returned
    /// handle. May be called for several listeners.
    ///
    /// # Errors
    /// [`AdaptError::ConnectionsDisabled`] if the configuration disables external plugins.
    pub fn serve(&self, listener: UnixListener) -> Result<AbortHandle, AdaptError> {
        if self.core.config().disable_connections {
            return Err(AdaptError::ConnectionsDisabled);
        }
        let adaptation = self.clone();
        let handle = self.core.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = adaptation.core.wait_for_shutdown() => return,
                };
                match accepted {
                    Ok((stream, _)) => adaptation.accept(stream),
                    Err(e) => {
                        warn!("accepting a plugin connection failed: {e}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
        Ok(handle)
    }

    /// Starts a session for an accepted connection, in a separate task.
    fn accept(&self, stream: UnixStream) {
        let (record, peer) = match self.check_peer(&stream) {
            Ok(checked) => checked,
            Err(e) => {
                // Only logged: the manager was notified of the refusal.
                debug!("plugin connection refused: {e}");
                return;
            }
        };
        let adaptation = self.clone();
        self.core.spawn(async move {
            if let Err(e) = adaptation.connect_peer(stream, record, Some(peer)).await {
                // Only logged: the manager was notified of the failure.
                debug!("plugin did not become active: {e}");
            }
        });
    }

    /// Checks whether the peer may connect. Returns the status record of the connection, and what
    /// is known of the peer.
    fn check_peer(
        &self,
        stream: &UnixStream,
    ) -> Result<(Arc<StatusRecord>, CheckedPeer), PeerRefusal> {
        let core = &self.core;
        let config = core.config();
        let peer = Peer::of(stream).inspect_err(|e| core.notify_refused(None, e))?;
        let checked = peer.check(&config.peers);
        let add = |()| core.registry.add_connection(&config.peers, peer.pid, Some(peer.group()));
        let record = checked.and_then(add);
        let record = record.inspect_err(|e| core.notify_refused(peer.pid, e))?;
        Ok((record, CheckedPeer { uid: peer.uid, service: peer.service() }))
    }

    /// Connects an external plugin over `stream`, without checking the process at the other end.
    /// Returns when the plugin is active. `pid` is reported in the plugin's status.
    ///
    /// # Errors
    /// Reason why the plugin did not become active; the connection is closed then.
    pub async fn connect<S>(&self, stream: S, pid: Option<u32>) -> Result<PluginId, SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let core = &self.core;
        let record = core.registry.add_connection(&core.config().peers, pid, None);
        let record = record.inspect_err(|e| core.notify_refused(pid, e))?;
        self.connect_peer(stream, record, None).await
    }

    async fn connect_peer<S>(
        &self,
        stream: S,
        record: Arc<StatusRecord>,
        peer: Option<CheckedPeer>,
    ) -> Result<PluginId, SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let config = String::new();
        let connection = Connection { stream, record, config, process: None, on_end: None, peer };
        let configured = self.core.configure(connection).await?;
        self.core.admit(configured).await
    }

    /// Launches the plugin of this file after [`Adaptation::start`], at once even if a restart of
    /// the plugin is pending. Returns when the plugin is active. No plugin of this file may be
    /// running, since its program would then run twice.
    ///
    /// # Errors
    /// Reason why the plugin did not become active.
    pub async fn launch(&self, path: &Path) -> Result<PluginId, SessionError> {
        self.supervisor.launch_file(path).await
    }

    /// Whether any plugin is active or becoming active.
    pub fn has_plugins(&self) -> bool {
        self.core.registry.has_plugins()
    }

    /// Whether a request for `event` is needed: a plugin has subscribed to it or may still
    /// subscribe, or `event` is a creation and the built-in validator or a required plugin is
    /// configured.
    pub fn needs_request(&self, event: Event) -> bool {
        let config = self.core.config();
        let has_rules =
            config.default_validator.is_some() || config.policies.iter().any(|p| p.required);
        self.core.registry.may_subscribe(involved_events(event))
            || (event == Event::CREATE_CONTAINER && has_rules)
    }

    /// Returns the status of all plugins in call order. The list includes launched plugins that
    /// have ended, and for a limited time external plugins that closed, failed or were refused.
    pub fn plugins(&self) -> Vec<PluginStatus> {
        self.core.registry.all()
    }

    /// Returns the handling of failures that is in effect for a plugin; `None` before it is
    /// configured, since the plugin may request a policy then.
    pub fn failure_handling(&self, plugin: &PluginStatus) -> Option<FailureHandling> {
        let id = plugin.id.as_ref().filter(|_| plugin.state > PluginState::Configuring)?;
        Some(self.core.config().policy(id).failure_handling(plugin.requested_failure_policy))
    }

    /// Returns the policy that applies to a plugin.
    pub fn policy(&self, plugin: &PluginId) -> PluginPolicy {
        self.core.config().policy(plugin)
    }

    /// Returns the budget of a plugin, and why it does not limit the plugin; `None` without a
    /// budget, and before the plugin is configured, since the plugin may request a policy then.
    pub fn budget(&self, plugin: &PluginStatus) -> Option<(Budget, Option<BudgetExemption>)> {
        let id = plugin.id.as_ref().filter(|_| plugin.state > PluginState::Configuring)?;
        self.core.config().budget(id, plugin.requested_failure_policy)
    }

    /// Returns the statistics of all plugins by name, ordered by index. They count since the start
    /// of this adaptation, and include plugins that have ended.
    pub fn statistics(&self) -> Vec<(PluginId, PluginStatistics)> {
        self.core.statistics.all()
    }

    /// Returns the times that requests waited for the commits of earlier requests.
    pub fn commit_queue(&self) -> DurationHistogram {
        self.core.commit_queue.get()
    }

    /// Returns what a reload with the current configuration would do.
    ///
    /// # Errors
    /// The plugin directory cannot be read within `limit`.
    pub async fn pending_reload(&self, limit: Duration) -> Result<PendingReload, SkipReason> {
        let config = self.core.config();
        let (plan, found) = self.supervisor.plan_reload(config.clone(), limit).await?;
        let refusal = |file: &PluginFile| {
            let is_relaunch = matches!(plan.get(&file.path), Some(Some(ReloadAction::Relaunch(_))));
            let why = self.supervisor.inputs.refusal(file).filter(|_| is_relaunch)?;
            Some((file.path.clone(), why))
        };
        let refused = found.iter().filter_map(refusal).collect();
        let files = plan.keys().filter_map(|path| id_of(path));
        let ids: Vec<_> = self.plugins().into_iter().filter_map(|p| p.id).chain(files).collect();
        let is_unmatched =
            |p: &&PluginPolicy| !p.is_for_all() && !ids.iter().any(|id| p.matches(id));
        let unmatched = config.policies.iter().filter(is_unmatched).map(|p| p.plugin.clone());
        let unmatched_policies = unmatched.collect();
        let actions = plan.into_iter().filter_map(|(path, action)| Some((path, action?))).collect();
        Ok(PendingReload { actions, refused, unmatched_policies })
    }

    /// Returns the file of a plugin that is required, and that has refused its configuration: a
    /// start would fail because of it, for the reason in `pending`.
    pub fn blocks_a_start<'a>(&self, pending: &'a PendingReload) -> Option<(&'a Path, &'a str)> {
        let mut refused = pending.refused.iter();
        let blocking = refused.find(|(path, _)| self.supervisor.is_required_at_start(path));
        blocking.map(|(path, why)| (&**path, &**why))
    }

    /// Replaces the configuration, then launches, relaunches and ends plugins as the new
    /// configuration and the plugin directory require. All other plugins keep their program and
    /// connection.
    ///
    /// A plugin that does not become active is reported, and restarted like a plugin that exited;
    /// while a required plugin is not active, no container is created. The reload completes even if
    /// the caller's future is dropped.
    pub async fn reload(&self, config: AdaptationConfig) -> Vec<ReloadedPlugin> {
        let supervisor = self.supervisor.clone();
        let reloaded = tokio::spawn(async move { supervisor.reload(config).await }).await;
        reloaded.unwrap_or_default()
    }

    /// Ends all sessions. Launched plugins get a `Shutdown`, then their programs are stopped, with
    /// SIGKILL if need be, and reaped. External plugins are disconnected, as in upstream NRI. Later
    /// requests succeed without calling plugins.
    pub async fn shutdown(&self) {
        let core = &self.core;
        core.start_shutdown();
        let mut ending = JoinSet::new();
        for plugin in core.pipeline.plugins() {
            let is_launched = plugin.record.read(|s| matches!(s.origin, PluginOrigin::Launched(_)));
            let grace = plugin.timeout.min(core.config().stop_grace);
            ending.spawn(async move {
                if is_launched {
                    // Best effort: old plugins do not implement `Shutdown`, hanging plugins do not
                    // reply.
                    let _ = plugin.session.shutdown(grace, &Empty::new()).await;
                }
                plugin.close("the runtime shuts down".into());
            });
        }
        while ending.join_next().await.is_some() {}
        core.join_tasks().await;
        self.supervisor.output.flush().await;
    }
}
