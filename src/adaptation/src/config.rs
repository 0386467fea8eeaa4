//! What the adaptation is told at its start: paths, timeouts, and how plugins are to be treated.
//!
//! Values only; reading a configuration file is `nri-config`.

use crate::permissions::Permissions;
use crate::privileges::Privileges;
use nri_api::PluginId;
use nri_merge::validator::DefaultValidatorConfig;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of an [`Adaptation`](crate::Adaptation).
#[derive(Debug, Clone)]
pub struct AdaptationConfig {
    /// Directory of the plugins to launch. One that is missing, or an empty path: none are.
    pub plugin_path: PathBuf,
    /// Directory of the launched plugins' configuration files.
    pub plugin_config_path: PathBuf,
    /// Whether plugins that connect by themselves are refused.
    pub disable_connections: bool,
    /// From the connection to `RegisterPlugin`.
    pub registration_timeout: Duration,
    /// For each call to a plugin, where no policy says otherwise.
    pub request_timeout: Duration,
    /// How long a launched plugin has to leave after SIGTERM before it gets SIGKILL.
    pub stop_grace: Duration,
    /// How long a launched plugin that ended is away at first; each further failure doubles it,
    /// where no policy says otherwise.
    pub restart_backoff: Duration,
    /// How long it is away at most; who was active for as long begins anew.
    pub restart_backoff_limit: Duration,
    /// Who may connect.
    pub peers: PeerPolicy,
    /// The program that gives up privileges and becomes a plugin ([`launcher`](crate::launcher)):
    /// it is called with `--launch`.
    pub launcher: PathBuf,
    /// Told to plugins.
    pub runtime_name: String,
    /// Told to plugins.
    pub runtime_version: String,
    /// How plugins are treated; plugins without a policy get [`PluginPolicy::default`].
    pub policies: Vec<PluginPolicy>,
    /// Settings of the built-in validator; `None` leaves it out.
    pub default_validator: Option<DefaultValidatorConfig>,
    /// A required plugin that cannot be brought up does not fail the start: it is launched again,
    /// as others are.
    pub start_without_required: bool,
}

/// How one plugin, or all of one name, are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginPolicy {
    /// `NN-name`, `name` for any index, or `*` for all. The full form wins over the bare name, and
    /// that over `*`; then the first in the list.
    pub plugin: String,
    /// What a request does when the plugin cannot be asked.
    pub on_failure: OnFailure,
    /// Whether containers are created only while such a plugin is active. A launched plugin that is
    /// required and cannot be brought up also fails the start.
    pub required: bool,
    /// For each call; `None` takes [`AdaptationConfig::request_timeout`].
    pub timeout: Option<Duration>,
    /// After how many timeouts in a row the connection is closed; 0 never closes it.
    pub consecutive_timeouts: u32,
    /// Whether a launched plugin that ended, or failed to come up, is launched again.
    pub restart: bool,
    /// In place of [`AdaptationConfig::restart_backoff`].
    pub restart_backoff: Option<Duration>,
    /// What it may change.
    pub permissions: Permissions,
    /// What a launched plugin runs with.
    pub privileges: Privileges,
    /// Users, beside root and the one that we run as, who may connect as such a plugin. Not looked
    /// at in a policy for all.
    pub uids: Vec<u32>,
}

/// Who may connect, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Users, beside root and the one that we run as.
    pub uids: Vec<u32>,
    /// Programs; `None`: any. It guards against accidents: who may connect at all could let an
    /// allowed program inherit its connection.
    pub programs: Option<Vec<PathBuf>>,
    /// How many connections may wait for their registration.
    pub max_unregistered: usize,
    /// How many plugins there may be, launched ones included.
    pub max_plugins: usize,
}

/// What a request does when a plugin does not answer in time, breaks the protocol or goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Goes on without it, as upstream does.
    #[default]
    Ignore,
    /// Fails. Once the plugin is gone requests know nothing of it any more; it takes
    /// [`PluginPolicy::required`] to fail those too.
    Fail,
}

impl Default for AdaptationConfig {
    fn default() -> Self {
        Self {
            plugin_path: "/opt/nri/plugins".into(),
            plugin_config_path: "/etc/nri/conf.d".into(),
            disable_connections: false,
            registration_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(2),
            stop_grace: Duration::from_secs(2),
            restart_backoff: Duration::from_secs(1),
            restart_backoff_limit: Duration::from_secs(60),
            peers: PeerPolicy::default(),
            // As it runs now, also when the file was replaced meanwhile.
            launcher: "/proc/self/exe".into(),
            runtime_name: "nri-container-runtime".into(),
            runtime_version: env!("CARGO_PKG_VERSION").into(),
            policies: Vec::new(),
            default_validator: None,
            start_without_required: false,
        }
    }
}

impl Default for PeerPolicy {
    fn default() -> Self {
        Self { uids: Vec::new(), programs: None, max_unregistered: 64, max_plugins: 256 }
    }
}

impl Default for PluginPolicy {
    fn default() -> Self {
        Self {
            plugin: String::new(),
            on_failure: OnFailure::Ignore,
            required: false,
            timeout: None,
            consecutive_timeouts: 1,
            restart: true,
            restart_backoff: None,
            permissions: Permissions::default(),
            privileges: Privileges::default(),
            uids: Vec::new(),
        }
    }
}

impl PluginPolicy {
    /// Whether the policy is about this plugin.
    pub fn matches(&self, id: &PluginId) -> bool {
        self.plugin == id.name.as_str() || self.is_exactly(id) || self.is_for_all()
    }

    fn is_for_all(&self) -> bool {
        self.plugin == "*"
    }

    fn is_exactly(&self, id: &PluginId) -> bool {
        self.plugin == id.to_string()
    }
}

impl AdaptationConfig {
    /// The policy for a plugin; the default one if none matches.
    pub fn policy(&self, id: &PluginId) -> PluginPolicy {
        let exact = self.policies.iter().find(|p| p.is_exactly(id));
        let named = || self.policies.iter().find(|p| p.matches(id) && !p.is_for_all());
        let for_all = || self.policies.iter().find(|p| p.is_for_all());
        exact.or_else(named).or_else(for_all).cloned().unwrap_or_default()
    }

    /// Whether another user's plugin may go by this name. What a policy gives to a name, it gives
    /// to no one who just says it; nor is a plugin there that is required because a stranger says
    /// to be it.
    pub(crate) fn may_register(&self, uid: u32, id: &PluginId) -> bool {
        let about = |policy: &&PluginPolicy| policy.matches(id) && !policy.is_for_all();
        let mut named = self.policies.iter().filter(about).peekable();
        if named.peek().is_some() {
            return self.policy(id).uids.contains(&uid);
        }
        let required = self.default_validator.iter().flat_map(|rules| &rules.required_plugins);
        !required.into_iter().any(|name| name == id.name.as_str() || *name == id.to_string())
    }

    /// How long a call to a plugin of this policy may take.
    pub fn timeout(&self, policy: &PluginPolicy) -> Duration {
        policy.timeout.unwrap_or(self.request_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_name_wins_over_the_bare_one() {
        let policy = |plugin: &str, consecutive_timeouts| PluginPolicy {
            plugin: plugin.into(),
            consecutive_timeouts,
            ..PluginPolicy::default()
        };
        let config = AdaptationConfig {
            policies: vec![
                policy("*", 6),
                policy("a", 2),
                policy("10-a", 3),
                policy("a", 4),
                policy("1-b", 5),
            ],
            ..AdaptationConfig::default()
        };
        for (index, name, expected) in
            [("10", "a", 3), ("11", "a", 2), ("10", "b", 6), ("10", "10-a", 3), ("01", "b", 6)]
        {
            let id = PluginId::new(index, name).unwrap();
            assert_eq!(config.policy(&id).consecutive_timeouts, expected, "{id}");
        }
        let id = PluginId::new("10", "a").unwrap();
        assert_eq!(AdaptationConfig::default().policy(&id), PluginPolicy::default());
    }
}
