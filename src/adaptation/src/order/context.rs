//! Context of a request that plugins can refuse: the plugins that received the request, and whether
//! a refusal ends the request.
//!
//! A plugin that did not receive the request, because an earlier plugin refused or because it
//! registered later, is not notified of a rollback ([`crate::events::rollback`]): such a plugin
//! does not know the container, or knows another container with the same id.

use crate::error::{AdaptError, NoReply};
use crate::events::reply_log::log_withheld_refusal;
use crate::plugin::handle::Plugin;
use crate::plugin::status::AbsentPlugin;
use crate::policy::plugin_policy::WithheldBy;
use crate::policy::scope::Origin;
use nri_api::PluginId;
use nri_merge::CreateOutcome;
use parking_lot::{Mutex, MutexGuard};
use std::sync::OnceLock;
use tokio::time::Instant;

/// Context of one request that plugins can refuse. The default ends the request at the first
/// refusal.
#[derive(Debug, Default)]
pub struct RequestContext {
    consult_all: bool,
    origin: Option<Origin>,
    owned: Vec<(String, PluginId)>,
    /// Since when the caller waits.
    start: OnceLock<Instant>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Plugins that received the request, with their serial numbers.
    reached: Vec<(u64, PluginId)>,
    missed: Vec<AbsentPlugin>,
    refusals: Vec<AdaptError>,
    withheld: Vec<WithheldReply>,
}

/// What a plugin replied to a creation, or to the start of a container or pod, without effect.
#[derive(Debug)]
pub struct WithheldReply {
    /// The plugin.
    pub plugin: PluginId,
    /// Why the reply has no effect.
    pub by: WithheldBy,
    /// The outcome of the creation if this reply were the last one, or what would have been
    /// refused.
    pub would_be: Result<Box<CreateOutcome>, AdaptError>,
}

impl RequestContext {
    /// Creates a context in which every plugin receives the request, and refusals are collected
    /// instead of ending it.
    pub fn consult_all() -> Self {
        Self { consult_all: true, ..Self::default() }
    }

    /// Sets the origin of what the request is about, if the container manager does not have it yet:
    /// of a container that is created, or a pod that starts.
    #[must_use]
    pub fn with_origin(self, origin: Origin) -> Self {
        Self { origin: Some(origin), ..self }
    }

    /// Sets the fields that an update changes and plugins own: a required one has to be active.
    #[must_use]
    pub fn with_owned(self, owned: Vec<(String, PluginId)>) -> Self {
        Self { owned, ..self }
    }

    /// Sets since when the caller waits, if that is before the request: plugins then have less time
    /// for it ([`AdaptationConfig::reply_limit`](crate::AdaptationConfig::reply_limit)).
    #[must_use]
    pub fn waiting_since(self, start: Instant) -> Self {
        Self { start: start.into(), ..self }
    }

    /// Returns since when the caller waits: by default, since this is asked for the first time.
    pub(crate) fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    /// Returns the origin of what the request is about, if the caller has set it.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the fields that the update changes and plugins own.
    pub(crate) fn owned(&self) -> &[(String, PluginId)] {
        &self.owned
    }

    /// Returns the replies without effect, and removes them.
    pub fn take_withheld(&self) -> Vec<WithheldReply> {
        std::mem::take(&mut self.lock().withheld)
    }

    /// Records a reply without effect.
    pub(crate) fn record_withheld(&self, reply: WithheldReply) {
        self.lock().withheld.push(reply);
    }

    /// Whether refusals are collected instead of ending the request.
    pub fn consults_all(&self) -> bool {
        self.consult_all
    }

    /// Returns the refusals that were collected.
    pub fn into_refusals(self) -> Vec<AdaptError> {
        self.progress.into_inner().refusals
    }

    /// Returns the plugins that received the request, in the order of their calls.
    pub fn reached(&self) -> Vec<PluginId> {
        self.lock().reached.iter().map(|(_, plugin)| plugin.clone()).collect()
    }

    /// Returns the plugins without which the container is created: launched plugins that were
    /// absent, and plugins that did not reply and were skipped.
    pub fn missed(&self) -> Vec<AbsentPlugin> {
        self.lock().missed.clone()
    }

    /// Records plugins without which the container is created.
    pub(crate) fn record_missed(&self, missed: impl IntoIterator<Item = AbsentPlugin>) {
        let mut progress = self.lock();
        for plugin in missed {
            // A plugin may miss both the creation and the validation.
            if !progress.missed.iter().any(|known| known.plugin == plugin.plugin) {
                progress.missed.push(plugin);
            }
        }
    }

    /// Records that the plugin did not reply, and that its policy is to continue without it.
    pub(crate) fn record_skipped(&self, plugin: &Plugin) {
        let why = if plugin.is_admitted() || plugin.is_closed() {
            plugin.record.read(|status| status.last_error.clone())
        } else {
            Some(NoReply::Unsynchronized.to_string())
        };
        let why = why.unwrap_or_else(|| "it did not reply".to_owned());
        self.record_missed([AbsentPlugin { plugin: plugin.id.clone(), why }]);
    }

    /// Whether the plugin has received the request.
    pub(crate) fn has_reached(&self, plugin: &Plugin) -> bool {
        self.lock().reached.iter().any(|(serial, _)| *serial == plugin.serial)
    }

    /// Records that the plugin received the request, unless it was too large to be sent, or skipped
    /// the plugin because it was not synchronized.
    pub(crate) fn record_reached<T>(&self, plugin: &Plugin, reply: &Result<T, AdaptError>) {
        // A validator also receives the creation.
        let was_sent = plugin.is_admitted() && !matches!(reply, Err(AdaptError::TooLarge { .. }));
        if was_sent && !self.has_reached(plugin) {
            self.lock().reached.push((plugin.serial, plugin.id.clone()));
        }
    }

    /// Records that the plugin received the request, and returns the plugin's reply; `None` if the
    /// request continues without a reply. An error has no effect if the plugin's policy withholds
    /// it.
    pub(crate) fn record_reply<T>(
        &self,
        plugin: &Plugin,
        withheld: Option<WithheldBy>,
        reply: Result<Option<T>, AdaptError>,
    ) -> Result<Option<T>, AdaptError> {
        self.record_reached(plugin, &reply);
        match reply {
            Ok(reply) => Ok(reply),
            Err(refusal) => self.refuse_unless(plugin, withheld, refusal).map(|()| None),
        }
    }

    /// Refuses as [`RequestContext::refuse`] does, unless the plugin's policy withholds what the
    /// plugin refuses.
    pub(crate) fn refuse_unless(
        &self,
        plugin: &Plugin,
        withheld: Option<WithheldBy>,
        refusal: AdaptError,
    ) -> Result<(), AdaptError> {
        let Some(by) = withheld else { return self.refuse(refusal) };
        log_withheld_refusal(&plugin.id, by, &refusal);
        let (plugin, would_be) = (plugin.id.clone(), Err(refusal));
        self.record_withheld(WithheldReply { plugin, by, would_be });
        Ok(())
    }

    /// Collects the refusal, or returns it to end the request.
    pub(crate) fn refuse(&self, refusal: AdaptError) -> Result<(), AdaptError> {
        if !self.consult_all {
            return Err(refusal);
        }
        self.lock().refusals.push(refusal);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}
