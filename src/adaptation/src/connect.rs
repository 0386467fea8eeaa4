//! The life of a session: connection, registration, configuration, admission to the line, end.
//!
//! Who listens and who launches is in [`crate::adaptation`].

use nri_api::proto::{ConfigureRequest, ConfigureResponse};
use nri_api::{EventMask, NRI_VERSION, PluginId};
use nri_merge::UpdatesMerge;
use nri_wire::{CallError, PLUGIN_SERVICE, RuntimeEnd, WireError, max_message};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::SessionError;
use crate::adaptation::Inner;
use crate::discovery::Found;
use crate::launch::Process;
use crate::line::Admission;
use crate::plugin::Plugin;
use crate::service::Service;
use crate::session::PluginSession;
use crate::status::{PluginOrigin, PluginState, Record};
use crate::synchronize;

/// How long a plugin that was refused has to hear why, before the connection is closed; and how
/// long a program has to exit after it closed its connection, before its exit no longer explains
/// that.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection that is to become a plugin.
pub(crate) struct Candidate<S> {
    pub(crate) stream: S,
    pub(crate) record: Arc<Record>,
    /// What a launched plugin is configured with.
    pub(crate) config: String,
    pub(crate) process: Option<Process>,
    /// What was launched.
    pub(crate) found: Option<Found>,
    /// The user whose plugin it is, if that is neither root nor the one that we run as.
    pub(crate) stranger: Option<u32>,
}

/// A plugin that is configured, but not yet in the line.
pub(crate) struct Ready {
    plugin: Arc<Plugin>,
    end: RuntimeEnd,
    service: Arc<Service>,
    process: Option<Process>,
    found: Option<Found>,
}

impl Inner {
    /// Brings a plugin up to its subscription. The record ends if that fails, and a launched
    /// program is stopped and reaped.
    pub(crate) async fn prepare<S>(&self, candidate: Candidate<S>) -> Result<Ready, SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let Candidate { stream, record, config, process, found, stranger } = candidate;
        let result = tokio::select! {
            result = self.handshake(stream, &record, config, process.as_ref(), stranger) => result,
            () = self.shutting_down() => Err(SessionError::ShuttingDown),
        };
        match result {
            Ok((plugin, end, service)) => {
                Ok(Ready { plugin: Arc::new(plugin), end, service, process, found })
            }
            Err(e) => {
                if let Some(process) = process {
                    process.stop();
                    process.exited().await;
                }
                let status = self.registry.end(&record, e.to_string());
                if matches!(e, SessionError::Unregistered(_))
                    && status.origin == PluginOrigin::External
                {
                    // It looked whether anybody listens, and was no plugin.
                    self.registry.leave(status.serial);
                }
                self.changed(status);
                Err(e)
            }
        }
    }

    /// Registration and configuration.
    async fn handshake<S>(
        &self,
        stream: S,
        record: &Arc<Record>,
        text: String,
        process: Option<&Process>,
        stranger: Option<u32>,
    ) -> Result<(Plugin, RuntimeEnd, Arc<Service>), SessionError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (service, registration) = Service::new(self.host.clone(), record.get().id);
        let end = match RuntimeEnd::new(stream, service.clone()).await {
            Ok(end) => end,
            // It was faster than we; how it ended says more.
            Err(e) => match process {
                None => {
                    return Err(match e {
                        WireError::Closed(why) => SessionError::Unregistered(why.to_string()),
                        e => e.into(),
                    });
                }
                Some(process) => {
                    let how = timeout(FAREWELL, process.exited()).await;
                    return Err(how.map_or(e.into(), |how| {
                        SessionError::Unregistered(format!("the program {how}"))
                    }));
                }
            },
        };
        let config = self.config();
        let limit = config.registration_timeout;
        let registration = tokio::select! {
            biased;
            registration = registration => registration,
            why = gone(&end, process) => return Err(SessionError::Unregistered(why)),
            () = tokio::time::sleep(limit) => return Err(SessionError::RegistrationTimeout(limit)),
        };
        let (id, version) = match registration {
            Ok(Ok(registered)) => registered,
            Ok(Err(e)) => {
                let _ = timeout(FAREWELL, end.closed()).await;
                return Err(e.into());
            }
            // The service is alive, so this does not occur.
            Err(_) => return Err(SessionError::Unregistered("registration was abandoned".into())),
        };
        if let Some(uid) = stranger
            && !config.may_register(uid, &id)
        {
            return Err(SessionError::Name { plugin: id, uid });
        }
        self.registry.is_back(&id);
        record.set(|s| {
            s.id = Some(id.clone());
            s.version = version;
            s.state = PluginState::Configuring;
        });

        let policy = config.policy(&id);
        let limit = config.timeout(&policy);
        let session: Arc<dyn PluginSession> = Arc::new(end.plugin().clone());
        let request = ConfigureRequest {
            config: text,
            runtime_name: config.runtime_name.clone(),
            runtime_version: config.runtime_version.clone(),
            registration_timeout: millis(config.registration_timeout),
            request_timeout: millis(limit),
            NRI_version: NRI_VERSION.to_owned(),
            ..Default::default()
        };
        let answer: ConfigureResponse = within(limit, session.configure(limit, &request))
            .await
            .map_err(SessionError::Configure)?;
        let mask = EventMask::from_subscription(answer.events)?;
        let serial = record.set(|s| {
            s.events = mask;
            s.state = PluginState::Synchronizing;
            s.serial
        });
        Ok((Plugin::new(id, serial, mask, policy, limit, session, record.clone()), end, service))
    }

    /// Gives the plugin its place in the line, and lets requests through to it once it is
    /// synchronized.
    ///
    /// It is done to the end even if the caller goes away: half admitted, the plugin would get
    /// events without knowing the state.
    pub(crate) async fn admit(self: &Arc<Self>, ready: Ready) -> Result<PluginId, SessionError> {
        let inner = self.clone();
        let admitted = tokio::spawn(async move { inner.admit_apart(ready).await });
        admitted.await.unwrap_or_else(|e| Err(SessionError::Unregistered(e.to_string())))
    }

    async fn admit_apart(self: Arc<Self>, ready: Ready) -> Result<PluginId, SessionError> {
        let Ready { plugin, end, service, process, found } = ready;
        let Admission { station, commit } = self.line.admit(&plugin);
        // A reload while it was registering has not seen it: whoever comes into line afterwards has
        // what is configured now.
        loop {
            let config = self.config();
            plugin.policy.set(config.policy(&plugin.id));
            if Arc::ptr_eq(&config, &self.config()) {
                break;
            }
        }
        // Requests that enter from now on wait behind this turn.
        let station = station.turn().await;
        self.watch(plugin.clone(), end, process, found);
        let result = async {
            let snapshot = {
                let _turn = commit.turn().await;
                self.host.snapshot().await
            };
            if self.is_shutting_down() {
                return Err(SessionError::ShuttingDown);
            }
            service.open(plugin.id.clone(), plugin.policy.clone());
            self.synchronize(&plugin, snapshot).await
        };
        match result.await {
            Ok(()) => {
                let status = plugin.record.set(|s| {
                    s.state = PluginState::Active;
                    s.clone()
                });
                self.changed(status);
                drop(station);
                Ok(plugin.id.clone())
            }
            Err(e) => {
                plugin.end(e.to_string());
                Err(e)
            }
        }
    }

    /// Tells the plugin the state, and makes the updates that it answers with.
    async fn synchronize(
        &self,
        plugin: &Plugin,
        snapshot: crate::Snapshot,
    ) -> Result<(), SessionError> {
        let limit = max_message(PLUGIN_SERVICE, "Synchronize", Some(plugin.timeout));
        let parts = synchronize::split(snapshot, limit)?;
        let count = parts.len();
        let mut updates = Vec::new();
        for part in parts {
            let call = plugin.session.synchronize(plugin.timeout, &part);
            let answer = within(plugin.timeout, call).await.map_err(SessionError::Synchronize)?;
            if part.more && (!answer.more || !answer.update.is_empty()) {
                return Err(SessionError::CannotSplit { parts: count });
            }
            updates = answer.update;
        }
        if updates.is_empty() {
            return Ok(());
        }
        plugin.permit().updates(None, &updates, &[]).map_err(SessionError::Denied)?;
        let mut merge = UpdatesMerge::new();
        merge.reply(&plugin.id, updates).map_err(SessionError::Updates)?;
        let outcome = merge.finish();
        // Still at the plugin's station: what it asks for later must not be made before this.
        let mut failed =
            self.host.update_containers(&plugin.id, outcome.updates, outcome.evictions).await.len();
        failed += outcome.failed.len();
        if failed > 0 {
            warn!(plugin = %plugin.id, failed, "updates asked for in the answer to Synchronize failed");
        }
        Ok(())
    }

    /// Holds the session until its end, then clears up behind it.
    fn watch(
        self: &Arc<Self>,
        plugin: Arc<Plugin>,
        end: RuntimeEnd,
        process: Option<Process>,
        found: Option<Found>,
    ) {
        let since = tokio::time::Instant::now();
        let inner = self.clone();
        self.spawn(async move {
            let why = tokio::select! {
                biased;
                why = plugin.ended() => match end.trunk().close_reason() {
                    // A call noticed it first; it knows less.
                    Some(_) => gone(&end, process.as_ref()).await,
                    None => why,
                },
                why = gone(&end, process.as_ref()) => why,
            };
            plugin.end(why.clone());
            end.close();
            inner.line.remove(&plugin);
            if let Some(process) = process {
                process.stop();
                let how = process.exited().await;
                info!(plugin = %plugin.id, "the program {how}");
            }
            let active = since.elapsed();
            inner.changed(inner.registry.end(&plugin.record, why));
            if let Some(found) = found.filter(|_| !plugin.is_retired()) {
                inner.restart(&found, active);
            }
            plugin.set_over();
        });
    }
}

/// Waits until the connection or the program has ended, and tells which. The end of the program
/// counts even if a child of its own still holds the socket; and where the connection ends first,
/// which is usual, the program's end says more about it.
async fn gone(end: &RuntimeEnd, process: Option<&Process>) -> String {
    let Some(process) = process else { return end.closed().await.to_string() };
    let closed = tokio::select! {
        biased;
        how = process.exited() => return format!("the program {how}"),
        closed = end.closed() => closed,
    };
    match timeout(FAREWELL, process.exited()).await {
        Ok(how) => format!("the program {how}"),
        Err(_) => closed.to_string(),
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    timeout(limit, call).await.unwrap_or(Err(CallError::Timeout(limit)))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
