//! The status of a plugin, which is part of that of `nrid`.

use nri_files::OsText;
use serde::{Deserialize, Serialize};

/// Status of a plugin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PluginStatus {
    /// `NN-name`
    pub name: String,
    /// Whether `nrid` launched the plugin.
    pub launched: bool,
    /// Process id, if known.
    pub pid: Option<u32>,
    /// State of the plugin, one word.
    pub state: String,
    /// Last error of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Names of the events that the plugin has subscribed to.
    pub events: Vec<String>,
    /// Whether the plugin's session ended by a failure, and not because a reload or `nrid` ended
    /// it, or because an external plugin disconnected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whether the session was refused because another session has its name, and may not be
    /// replaced by it. `last_error` names both processes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replacement_refused: bool,
    /// Number of times that the plugin was launched again, or connected again, after its end.
    #[serde(default)]
    pub restarts: u32,
    /// Why the plugin's last session ended: exit status or signal of a launched plugin. Kept while
    /// the next session lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
    /// Last line that the program of that session wrote to standard output or error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output: Option<String>,
    /// File with the configuration of a launched plugin; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<OsText>,
    /// Warnings that a launched plugin wrote until it was configured, such as of its configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Time of the next launch in seconds since the epoch, if the plugin is to be launched again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_launch: Option<u64>,
    /// NRI version that the plugin registered with; empty if it named none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nri_version: String,
    /// Handling of the plugin's failures; `None` before the plugin is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<PluginFailurePolicy>,
    /// Budget of the plugin's replies; `None` without one, and before the plugin is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<PluginBudget>,
    /// How far the synchronization is, while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronization: Option<PluginSynchronization>,
    /// Resident memory of the plugin's process in bytes, if the process is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Whether what the plugin changes and refuses has no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// The containers that the plugin is for; empty: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// Calls of the plugin since `nrid` started, by all plugins of this name; `None` for a
    /// plugin without a name, and from an `nrid` that does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Box<PluginCalls>>,
}

impl PluginStatus {
    /// Whether the session has ended, or no session came about.
    pub fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "closed" | "restarting")
    }

    /// Returns the limit of a plugin that exceeds its budget.
    pub fn limit(&self) -> Option<PluginLimit> {
        self.budget.as_ref().and_then(|budget| budget.limit)
    }
}

/// Progress of a plugin's synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PluginSynchronization {
    /// Start in seconds since the epoch.
    pub since: u64,
    /// Number of containers that were sent to the plugin.
    pub sent: usize,
    /// Number of containers to send.
    pub containers: usize,
}

/// Handling of a plugin's failures: the configuration, together with what the plugin requested.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PluginFailurePolicy {
    /// `fail` or `ignore`: handling of a request without a reply.
    pub on_failure: String,
    /// `fail` or `ignore`: handling of a creation without a verdict.
    pub validation_failure: String,
    /// Number of timeouts in a row after which the connection is closed; 0 never closes it.
    pub consecutive_timeouts: u32,
    /// What the plugin requested; `None` if it requested nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<RequestedByPlugin>,
}

/// Failure policy that a plugin requested, as named by the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestedByPlugin {
    /// Whether requests without a reply fail.
    pub fail_request: bool,
    /// Whether timeouts do not close the connection.
    pub keep_connected: bool,
}

/// Budget of a plugin's replies to creations and updates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PluginBudget {
    /// Time in milliseconds above which a reply is slow.
    pub time_ms: u64,
    /// Percentage of containers with slow replies above which the plugin is limited.
    pub share: u8,
    /// Why the budget does not limit the plugin; `None` if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exemption: Option<String>,
    /// The limit, while the plugin exceeds the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PluginLimit>,
}

/// Limit of a plugin that exceeds its budget: requests skip it. Times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PluginLimit {
    /// Start of the limit.
    pub since: u64,
    /// Number of requests that have skipped the plugin.
    pub skipped: u64,
    /// Time from which on a request reaches the plugin again, as a try.
    pub next_try: u64,
}

/// Calls of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PluginCalls {
    /// The calls for all events.
    pub total: CallCounts,
    /// The calls per event, for the events for which the plugin was called.
    #[serde(default)]
    pub events: Vec<EventCalls>,
    /// Median of the times that requests waited because the plugin was busy, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_p50_us: Option<u64>,
    /// 99th percentile of these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_p99_us: Option<u64>,
    /// Number of updates of containers that the plugin requested.
    #[serde(default)]
    pub updates: u64,
    /// Number of evictions that the plugin requested.
    #[serde(default)]
    pub evictions: u64,
    /// Number of replies that were refused because another plugin had set the same field.
    #[serde(default)]
    pub conflicts: u64,
    /// Number of replies and requests that the plugin's policy did not permit.
    #[serde(default)]
    pub denials: u64,
}

/// Calls of a plugin for one event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventCalls {
    /// Name of the event, as in [`PluginStatus::events`].
    pub event: String,
    /// The calls.
    pub counts: CallCounts,
}

/// Numbers and times of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallCounts {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls without a usable reply, timeouts included.
    pub failures: u64,
    /// Number of requests that the plugin refused in its reply.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refusals: u64,
    /// Number of calls without a reply in time.
    pub timeouts: u64,
    /// Median of the times from the request to the reply, in microseconds: an estimate from a
    /// histogram. `None` without calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<u64>,
    /// 99th percentile of these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
