//! Status of a plugin: identity, state, subscription, last error.
//!
//! A status exists from the connection on, before the plugin has a name.

use crate::plugin::kept_lines::KeptLines;
use crate::policy::failure_policy::RequestedFailurePolicy;
use crate::policy::peers::PeerGroup;
use nri_api::proto::Event;
use nri_api::{EventMask, PluginId};
use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;
use tokio::time::Instant;

/// Status of a plugin at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// Unique number within this adaptation, ascending in the order of launch or connection.
    pub serial: u64,
    /// Index and name; `None` until an external plugin has registered.
    pub id: Option<PluginId>,
    /// Whether the plugin was launched or connected by itself.
    pub origin: PluginOrigin,
    /// NRI version that the plugin registered with; empty before the registration, and for old
    /// plugins.
    pub version: String,
    /// Process id, as launched or as reported by the socket.
    pub pid: Option<u32>,
    /// Subscribed events; empty until the plugin is configured.
    pub events: EventMask,
    /// Failure policy that the plugin requested; `None` without one, and until the plugin is
    /// configured.
    pub requested_failure_policy: Option<RequestedFailurePolicy>,
    /// State of the session.
    pub state: PluginState,
    /// How far the synchronization is, while it lasts.
    pub synchronization: Option<SynchronizationProgress>,
    /// Number of consecutive timeouts up to now.
    pub timeouts: u32,
    /// Limit of the plugin by its budget, while it lasts.
    pub limit: Option<PluginLimit>,
    /// Last failure of a call, or the reason why the plugin was closed.
    pub last_error: Option<String>,
    /// Whether the session ended by a failure, and not because a reload or the shutdown ended it,
    /// or because an external plugin disconnected.
    pub failed: bool,
    /// Time of the next launch, while the state is `Restarting`.
    pub next_launch: Option<SystemTime>,
    /// Whether the session was refused because another session has its name, and may not be
    /// replaced by it ([`ReplacementRefused`](crate::ReplacementRefused)).
    pub replacement_refused: bool,
    /// Earlier sessions of the same plugin, and how the last one ended.
    pub history: PluginHistory,
    /// File with the configuration that a launched plugin was sent; `None` without one.
    pub config_file: Option<PathBuf>,
    /// Warnings that a launched plugin wrote until it was configured.
    pub warnings: Vec<String>,
}

/// Progress of a synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynchronizationProgress {
    /// Start of the synchronization.
    pub start: SystemTime,
    /// Number of containers that were sent, in one or several messages.
    pub sent: usize,
    /// Number of containers to send.
    pub total: usize,
}

/// Limit of a plugin that exceeds its budget: requests skip it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginLimit {
    /// Start of the limit.
    pub since: SystemTime,
    /// Number of requests that have skipped the plugin.
    pub skipped: u64,
    /// Time from which on a request reaches the plugin again, as a try.
    pub next_try: SystemTime,
}

/// Earlier sessions of a plugin that was launched again, or connected again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginHistory {
    /// Number of launches or connections after a session had ended.
    pub restarts: u32,
    /// Reason for the end of the last session that has ended.
    pub last_exit: Option<String>,
    /// Last line that the program of that session wrote to its standard output or error.
    pub last_output: Option<String>,
}

/// A plugin without which a container is created: it was expected, and was absent or did not reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentPlugin {
    /// The plugin.
    pub plugin: PluginId,
    /// Why the plugin was not called, or did not reply.
    pub why: String,
}

/// End of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionEnd {
    pub(crate) why: String,
    /// See [`PluginStatus::failed`].
    pub(crate) failed: bool,
    /// Last line of output of a launched program.
    pub(crate) last_output: Option<String>,
}

impl SessionEnd {
    /// The end of a session by a failure, for this reason.
    pub(crate) fn failure(why: impl ToString) -> Self {
        Self { why: why.to_string(), failed: true, last_output: None }
    }
}

/// Origin of a plugin's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginOrigin {
    /// Launched from this file.
    Launched(PathBuf),
    /// Connected to the socket.
    External,
}

impl PluginOrigin {
    /// Whether the plugin was launched from this file.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        matches!(self, Self::Launched(file) if file == path)
    }
}

/// State of a plugin's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginState {
    /// Connected or launched, not registered yet.
    Connecting,
    /// Registered, being configured.
    Configuring,
    /// Configured and in the pipeline; waits for, or handles, `Synchronize`.
    Synchronizing,
    /// Synchronized; receives events.
    Active,
    /// Closed, and about to be launched again.
    Restarting,
    /// Closed.
    Closed,
}

impl PluginState {
    /// Whether the session has ended: closed, or closed and about to be launched again.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Restarting | Self::Closed)
    }
}

/// Status of one plugin, shared by all that change it.
#[derive(Debug)]
pub(crate) struct StatusRecord {
    status: Mutex<PluginStatus>,
    /// Number that orders the plugins of one index; see [`StatusRecord::set_order`].
    order: AtomicU64,
    closed_at: Mutex<Option<Instant>>,
    /// Whether a reload ends the plugin for good.
    removed: AtomicBool,
    /// Whether the session has ended, and the plugin is to be launched again.
    restarts: AtomicBool,
    /// The peers that share places with this connection; unset if the peer was not checked.
    group: OnceLock<PeerGroup>,
    /// What is kept of the output of a launched plugin.
    output: OnceLock<KeptLines>,
}

impl StatusRecord {
    /// Creates the record of a plugin that connects or is launched.
    pub(crate) fn new(
        serial: u64,
        id: Option<PluginId>,
        origin: PluginOrigin,
        pid: Option<u32>,
    ) -> Self {
        let status = PluginStatus {
            serial,
            id,
            origin,
            version: String::new(),
            pid,
            events: EventMask::NONE,
            requested_failure_policy: None,
            state: PluginState::Connecting,
            synchronization: None,
            timeouts: 0,
            limit: None,
            last_error: None,
            failed: false,
            next_launch: None,
            replacement_refused: false,
            history: PluginHistory::default(),
            config_file: None,
            warnings: Vec::new(),
        };
        let order = AtomicU64::new(serial);
        let (closed_at, removed, restarts, group, output) = Default::default();
        Self { status: Mutex::new(status), order, closed_at, removed, restarts, group, output }
    }

    /// Sets the group of peers that this connection belongs to.
    pub(crate) fn set_group(&self, group: PeerGroup) {
        let _ = self.group.set(group);
    }

    /// Returns the group of peers that this connection belongs to, if it was checked.
    pub(crate) fn group(&self) -> Option<PeerGroup> {
        self.group.get().copied()
    }

    /// Sets the output of a launched plugin.
    pub(crate) fn set_output(&self, output: KeptLines) {
        let _ = self.output.set(output);
    }

    /// Returns a copy of the status.
    pub(crate) fn get(&self) -> PluginStatus {
        let mut status = self.lock().clone();
        status.warnings = self.output.get().map(KeptLines::warnings).unwrap_or_default();
        status
    }

    /// Reads the status in place.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&PluginStatus) -> T) -> T {
        read(&self.lock())
    }

    /// Changes the status.
    pub(crate) fn set<T>(&self, change: impl FnOnce(&mut PluginStatus) -> T) -> T {
        change(&mut self.lock())
    }

    /// Records that the session was refused because another one is registered as this plugin.
    pub(crate) fn set_replacement_refused(&self, plugin: &PluginId) {
        self.set(|status| {
            status.id = Some(plugin.clone());
            status.replacement_refused = true;
        });
    }

    /// Marks the plugin as closed, and returns its status.
    pub(crate) fn close(&self, end: SessionEnd) -> PluginStatus {
        let SessionEnd { why, failed, last_output } = end;
        *self.closed_at.lock() = Some(Instant::now());
        self.set(|status| {
            status.state = PluginState::Closed;
            status.synchronization = None;
            status.limit = None;
            status.failed = failed;
            status.history.last_exit = Some(why.clone());
            status.history.last_output = last_output;
            status.last_error = Some(why);
            status.clone()
        })
    }

    /// Sets the serial number of the session whose place among the plugins of the same index this
    /// session takes.
    pub(crate) fn set_order(&self, serial: u64) {
        self.order.store(serial, Ordering::Relaxed);
    }

    /// Returns the number that orders the plugins of one index.
    pub(crate) fn order(&self) -> u64 {
        self.order.load(Ordering::Relaxed)
    }

    /// Records that a reload ends the plugin for good.
    pub(crate) fn set_removed(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Whether a reload ends the plugin for good.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Records whether the plugin, whose session has ended, is to be launched again.
    pub(crate) fn set_restarts(&self, restarts: bool) {
        self.restarts.store(restarts, Ordering::Release);
    }

    /// Whether the session has ended and the plugin is to be launched again; not set any more once
    /// the state is `Restarting`.
    pub(crate) fn restarts(&self) -> bool {
        self.restarts.load(Ordering::Acquire)
    }

    /// Time at which the plugin was closed.
    pub(crate) fn closed_at(&self) -> Option<Instant> {
        *self.closed_at.lock()
    }

    fn lock(&self) -> MutexGuard<'_, PluginStatus> {
        self.status.lock()
    }
}

/// Returns the events whose subscribers take part in the handling of `event`: a creation also
/// involves the validators.
pub(crate) fn involved_events(event: Event) -> EventMask {
    let mask = EventMask::NONE.with(event);
    match event {
        Event::CREATE_CONTAINER => mask.with(Event::VALIDATE_CONTAINER_ADJUSTMENT),
        _ => mask,
    }
}
