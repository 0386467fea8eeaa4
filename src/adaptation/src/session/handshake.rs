//! Registration and configuration of a plugin that has connected.
//!
//! [`crate::session::admission`] then adds the configured plugin to the pipeline.

use nri_api::proto::ConfigureRequest;
use nri_api::{EventMask, NRI_VERSION, PluginId};
use nri_trust::Owners;
use nri_wire::{CallError, Closed, RuntimeEnd, Trunk, WireError};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tracing::info;

use crate::core::Core;
use crate::error::SessionError;
use crate::launch::process::Process;
use crate::plugin::handle::Plugin;
use crate::plugin::registrant::{Registrant, ReplacementBar};
use crate::plugin::status::{PluginOrigin, PluginState, SessionEnd, StatusRecord};
use crate::policy::failure_policy::RequestedFailurePolicy;
use crate::policy::peers::CheckedPeer;
use crate::session::service::RuntimeService;

/// Time that a refused plugin has to read the error before its connection is closed. Also the time
/// that a program has to exit after its connection closed: the exit status is then reported as the
/// cause. Both usually take a few milliseconds.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Callback at the end of a session, with the time that the plugin was active. Not called for a
/// plugin that a reload ended.
pub(crate) type OnEnd = Box<dyn FnOnce(Duration) + Send>;

/// A connection of a plugin that has not registered yet.
pub(crate) struct Connection<S> {
    pub(crate) stream: S,
    pub(crate) record: Arc<StatusRecord>,
    /// Plugin configuration that `Configure` sends; empty for an external plugin.
    pub(crate) config: String,
    /// Program of a launched plugin; `None` for an external plugin.
    pub(crate) process: Option<Process>,
    pub(crate) on_end: Option<OnEnd>,
    /// Process of an external plugin, if it was checked.
    pub(crate) peer: Option<CheckedPeer>,
}

/// A plugin that is configured, but not in the pipeline yet.
pub(crate) struct ConfiguredPlugin {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) end: RuntimeEnd,
    pub(crate) service: Arc<RuntimeService>,
    pub(crate) process: Option<Process>,
    pub(crate) on_end: Option<OnEnd>,
}

impl Core {
    /// Registers and configures a plugin. On failure the record is closed, and a launched program
    /// is stopped and reaped.
    pub(crate) async fn configure<S>(
        self: &Arc<Self>,
        connection: Connection<S>,
    ) -> Result<ConfiguredPlugin, SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let Connection { stream, record, config, process, on_end, peer } = connection;
        let handshake = self.handshake(stream, &record, config, process.as_ref(), peer);
        let result = tokio::select! {
            result = handshake => result,
            () = self.wait_for_shutdown() => Err(SessionError::ShuttingDown),
        };
        match result {
            Ok((plugin, end, service)) => {
                Ok(ConfiguredPlugin { plugin: Arc::new(plugin), end, service, process, on_end })
            }
            Err(e) => {
                let mut end = SessionEnd::failure(&e);
                end.failed = !self.is_shutting_down();
                if let Some(process) = process {
                    process.stop();
                    process.exited().await;
                    end.last_output = process.last_output().filter(|line| !repeats(line, &e));
                }
                let status = self.registry.close(&record, end);
                let is_external = status.origin == PluginOrigin::External;
                if matches!(e, SessionError::Unregistered(_)) && is_external {
                    // Not listed: such a connection is a probe of the socket, not a plugin.
                    self.registry.remove(status.serial);
                }
                self.notify_changed(status);
                Err(e)
            }
        }
    }

    async fn handshake<S>(
        self: &Arc<Self>,
        stream: S,
        record: &Arc<StatusRecord>,
        plugin_config: String,
        process: Option<&Process>,
        peer: Option<CheckedPeer>,
    ) -> Result<(Plugin, RuntimeEnd, Arc<RuntimeService>), SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (uid, service) = peer.map_or((None, None), |peer| (Some(peer.uid), peer.service));
        let registrant = record.read(|status| Registrant {
            pid: status.pid,
            uid,
            service,
            is_external: status.origin == PluginOrigin::External,
        });
        let core = self.clone();
        let (registering, checked) = (record.clone(), registrant.clone());
        let check_name = Box::new(move |id: &PluginId| core.check_name(id, &checked, &registering));
        let (service, registration) =
            RuntimeService::new(self.manager.clone(), record.get().id, check_name);
        let trunk = Trunk::new(stream);
        let end = match RuntimeEnd::over(trunk, service.clone(), &self.call_limits).await {
            Ok(end) => end,
            Err(e) => return Err(connect_error(e, process).await),
        };
        let config = self.config();
        let limit = config.registration_timeout;
        let registration = tokio::select! {
            biased;
            registration = registration => registration,
            why = wait_disconnected(&end, process) => return Err(SessionError::Unregistered(why)),
            () = tokio::time::sleep(limit) => return Err(SessionError::RegistrationTimeout(limit)),
        };
        let (id, version) = match registration {
            Ok(Ok(registered)) => registered,
            Ok(Err(e)) => {
                if let SessionError::Replacement(refused) = &e {
                    self.registry.remove_refused(&refused.plugin);
                    record.set_replacement_refused(&refused.plugin);
                }
                let _ = timeout(CLOSE_GRACE, end.closed()).await;
                return Err(e);
            }
            // The service keeps the sender until the registration, so this does not occur.
            Err(_) => return Err(SessionError::Unregistered("registration was dropped".into())),
        };
        let history = self.registry.remove_closed(&id);
        // A launch was counted before its program could register.
        let counters = match process {
            Some(_) => self.statistics.counters(&id),
            None => self.statistics.start_session(&id),
        };
        record.set(|s| {
            if s.origin == PluginOrigin::External {
                s.history = history;
            }
            s.id = Some(id.clone());
            s.version = version;
            s.state = PluginState::Configuring;
        });

        let policy = config.policy(&id);
        let limit = config.timeout(&policy);
        let session = end.plugin().clone();
        let request = ConfigureRequest {
            config: plugin_config,
            runtime_name: config.runtime_name.clone(),
            runtime_version: config.runtime_version.clone(),
            registration_timeout: millis(config.registration_timeout),
            request_timeout: millis(limit),
            NRI_version: NRI_VERSION.to_owned(),
            ..Default::default()
        };
        let reply = session.configure(limit, &request).await;
        if let Some(process) = process {
            process.end_kept_warnings().await;
        }
        let reply = reply.map_err(|source| {
            let file = record.read(|status| status.config_file.clone());
            SessionError::Configure { file, source }
        })?;
        let mask = EventMask::from_subscription(reply.events)?;
        let requested = RequestedFailurePolicy::of(&reply);
        if let Some(requested) = requested {
            let RequestedFailurePolicy { fail_request, keep_connected } = requested;
            let in_effect = policy.failure_handling(Some(requested));
            info!(
                plugin = %id, fail_request, keep_connected, ?in_effect.on_failure,
                in_effect.consecutive_timeouts, "failure policy requested"
            );
        }
        let serial = record.set(|s| {
            s.events = mask;
            s.requested_failure_policy = requested;
            s.state = PluginState::Synchronizing;
            s.serial
        });
        let state = (record.clone(), counters);
        let plugin = Plugin::new(id, serial, mask, policy, limit, state, (session, registrant));
        Ok((plugin, end, service))
    }

    /// Checks whether this process may register as `plugin`, and takes a place for it.
    fn check_name(
        &self,
        plugin: &PluginId,
        registrant: &Registrant,
        record: &StatusRecord,
    ) -> Result<(), SessionError> {
        let other_uid = registrant.uid.filter(|uid| !Owners::of_this_process().contains(*uid));
        if let Some(uid) = other_uid
            && !self.config().may_register(uid, plugin)
        {
            return Err(SessionError::Name { plugin: plugin.clone(), uid });
        }
        // A launched plugin keeps its name while it is launched, or launched again.
        if registrant.is_external
            && let Some(holder) = self.registry.launched(plugin)
        {
            return Err(registrant.refused(plugin, holder, ReplacementBar::Launched).into());
        }
        self.pipeline.check(plugin, registrant)?;
        if registrant.is_external {
            let config = self.config();
            let has_policy = config.has_policy(plugin);
            self.registry.register(record, plugin, &config.peers, has_policy)?;
        }
        Ok(())
    }
}

/// Returns the error for a connection that failed before the registration. For a launched program,
/// the exit status explains the failure better than the error of the connection.
async fn connect_error(error: WireError, process: Option<&Process>) -> SessionError {
    match (process, error) {
        (None, WireError::Closed(why)) => SessionError::Unregistered(describe(&why)),
        (None, error) => error.into(),
        (Some(process), error) => match timeout(CLOSE_GRACE, process.exited()).await {
            Ok(how) => SessionError::Unregistered(format!("the program {how}")),
            Err(_) => error.into(),
        },
    }
}

/// Waits until the connection is closed or the program has exited, and returns the cause.
///
/// An exit of the program ends the wait even if a child of the program keeps the socket open.
/// Usually the connection closes first; if the program then exits within [`CLOSE_GRACE`], its exit
/// status is returned, since that explains more.
pub(crate) async fn wait_disconnected(end: &RuntimeEnd, process: Option<&Process>) -> String {
    let Some(process) = process else { return describe(&end.closed().await) };
    let closed = tokio::select! {
        biased;
        how = process.exited() => return format!("the program {how}"),
        closed = end.closed() => closed,
    };
    match timeout(CLOSE_GRACE, process.exited()).await {
        Ok(how) => format!("the program {how}"),
        Err(_) => describe(&closed),
    }
}

/// Whether the last line of a program says why it refused its configuration, as its reply does.
fn repeats(line: &str, error: &SessionError) -> bool {
    // The line may be cut, far behind this number of characters.
    const COMPARED: usize = 100;
    let SessionError::Configure { source: CallError::Status { message, .. }, .. } = error else {
        return false;
    };
    let begin: String = message.trim().chars().take(COMPARED).collect();
    !begin.is_empty() && line.contains(&begin)
}

/// Describes the end of a connection, of which the plugin is the peer.
fn describe(closed: &Closed) -> String {
    let text = match closed {
        Closed::Local => "the runtime closed the connection",
        Closed::Peer => "the plugin closed the connection",
        Closed::Truncated(_) => "the plugin closed the connection in the middle of a message",
        Closed::Io(_) => "the connection to the plugin failed",
        Closed::Frame(_) | Closed::Message { .. } | Closed::Unopened { .. } => {
            "the plugin violated the protocol"
        }
    };
    match closed {
        Closed::Local | Closed::Peer | Closed::Truncated(_) => text.to_owned(),
        Closed::Io(source) => format!("{text}: {source}"),
        Closed::Frame(source) => format!("{text}: {source}"),
        Closed::Message { source, .. } => format!("{text}: {source}"),
        Closed::Unopened { .. } => format!("{text}: {closed}"),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
