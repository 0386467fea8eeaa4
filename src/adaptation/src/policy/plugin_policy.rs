//! Policy of one plugin: failures, timeouts, restarts, permissions, privileges.
//!
//! This file holds values only; the caller reads them from where it has its configuration.

use crate::policy::budget::Budget;
use crate::policy::permissions::Permissions;
use crate::policy::privileges::Privileges;
use crate::policy::scope::{OutsideScope, Scope, Subject};
use nri_api::PluginId;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;

/// Plugins that assign the CPUs and the memory of the node: ours, and those of
/// [nri-plugins](https://github.com/containers/nri-plugins), by their names and by the names of
/// their programs.
const NODE_PLUGINS: [&str; 6] = [
    "topology",
    "nri-topology",
    "balloons",
    "nri-resource-policy-balloons",
    "topology-aware",
    "nri-resource-policy-topology-aware",
];

/// Policy of one plugin, or of all plugins that `plugin` matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginPolicy {
    /// `NN-name`, `name` for any index, or `*` for all plugins. `NN-name` takes precedence over
    /// `name`, and `name` over `*`; of policies with the same text, the first in the list applies.
    pub plugin: String,
    /// Handling of a request that the plugin does not reply to. The plugin may request
    /// [`OnFailure::Fail`] for itself, see [`PluginPolicy::failure_handling`].
    pub on_failure: OnFailure,
    /// Handling of a creation that the plugin, as a validator, does not reply to.
    pub validation_failure: OnFailure,
    /// Whether containers are created only while a plugin that this policy matches is active. A
    /// required plugin that cannot be launched also fails the start.
    pub required: bool,
    /// Time limit of each call; `None` takes
    /// [`AdaptationConfig::request_timeout`](crate::AdaptationConfig::request_timeout).
    pub timeout: Option<Duration>,
    /// Number of consecutive timeouts after which the connection is closed; 0 never closes it.
    /// `None` closes it after the first, unless the plugin requests to stay connected.
    pub consecutive_timeouts: Option<u32>,
    /// Budget of the plugin's replies. It limits no plugin that must not be absent, see
    /// [`AdaptationConfig::budget`](crate::AdaptationConfig::budget).
    pub budget: Option<Budget>,
    /// Whether a launched plugin that exits, or fails to become active, is launched again.
    pub restart: bool,
    /// Pause before the first restart; `None` takes
    /// [`AdaptationConfig::restart_backoff`](crate::AdaptationConfig::restart_backoff).
    pub restart_backoff: Option<Duration>,
    /// Groups of fields that the plugin may change.
    pub permissions: Permissions,
    /// Privileges that a launched plugin runs with.
    pub privileges: Privileges,
    /// Digest of the file of a launched plugin, `sha256:` and lower-case hexadecimal; `None`
    /// launches any file.
    pub digest: Option<String>,
    /// Limit of the memory of a plugin that is a WebAssembly module, in bytes.
    pub wasm_memory: u64,
    /// Whether the plugin manages resources of the whole node, so that only one instance of it may
    /// run; `None` decides by its name.
    pub single_instance: Option<bool>,
    /// Whether a dry run may launch an instance of the plugin of its own.
    pub dry_run: bool,
    /// Users, in addition to root and the user of this process, that may register this name.
    /// Ignored in a policy for all plugins.
    pub uids: Vec<u32>,
    /// Whether what the plugin requests, and refuses, is only recorded, as if the plugin were in
    /// the scope of no container.
    pub observe: bool,
    /// The containers that the plugin is for; `None`: all.
    pub scope: Option<Scope>,
}

/// Why what a plugin requests, and refuses, has no effect on a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldBy {
    /// The policy observes the plugin.
    Observe,
    /// The container is outside the scope of the policy.
    Scope,
}

/// Handling of a request when the plugin does not reply in time, breaks the protocol or
/// disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The request continues without the plugin, as in upstream NRI.
    #[default]
    Ignore,
    /// The request fails. Later requests skip a plugin that has disconnected, and succeed;
    /// [`PluginPolicy::required`] makes later creations fail too.
    Fail,
}

impl Default for PluginPolicy {
    fn default() -> Self {
        Self {
            plugin: String::new(),
            on_failure: OnFailure::Ignore,
            validation_failure: OnFailure::Fail,
            required: false,
            timeout: None,
            consecutive_timeouts: None,
            budget: None,
            restart: true,
            restart_backoff: None,
            permissions: Permissions::default(),
            privileges: Privileges::default(),
            digest: None,
            wasm_memory: 128 << 20,
            single_instance: None,
            dry_run: false,
            uids: Vec::new(),
            observe: false,
            scope: None,
        }
    }
}

impl PluginPolicy {
    /// Whether the policy applies to this plugin.
    pub fn matches(&self, id: &PluginId) -> bool {
        self.plugin == id.name.as_str() || self.matches_exactly(id) || self.is_for_all()
    }

    /// Whether only one instance of this plugin may run on the node.
    pub(crate) fn is_single_instance(&self, id: &PluginId) -> bool {
        self.single_instance.unwrap_or_else(|| NODE_PLUGINS.contains(&id.name.as_str()))
    }

    /// Whether the plugin receives events of a pod or container, and may know that it exists.
    /// `None`, here and below, stands for what no policy is limited to.
    pub(crate) fn shows(&self, subject: Option<&Subject>) -> bool {
        let is_hidden = self.scope.as_ref().is_some_and(|s| s.outside == OutsideScope::Hidden);
        !is_hidden || self.has_in_scope(subject)
    }

    /// Whether a container is in the scope.
    pub(crate) fn has_in_scope(&self, subject: Option<&Subject>) -> bool {
        let compared = self.scope.as_ref().zip(subject);
        compared.is_none_or(|(scope, subject)| scope.contains(subject))
    }

    /// Returns why the plugin neither changes nor refuses a pod or container; `None` if it may.
    pub(crate) fn withholds(&self, subject: Option<&Subject>) -> Option<WithheldBy> {
        match self.observe {
            true => Some(WithheldBy::Observe),
            false => (!self.has_in_scope(subject)).then_some(WithheldBy::Scope),
        }
    }

    /// Whether containers in general are refused while no plugin matches the policy.
    pub(crate) fn requires_of_all(&self) -> bool {
        self.required && !self.observe && self.scope.is_none()
    }

    /// Whether the policy is the one for all plugins, `*`.
    pub(crate) fn is_for_all(&self) -> bool {
        self.plugin == "*"
    }

    /// Whether the policy names this plugin in full, as `NN-name`.
    pub(crate) fn matches_exactly(&self, id: &PluginId) -> bool {
        self.plugin == id.to_string()
    }
}

/// Current policy of a connected plugin, shared by all that read it; a reload replaces it.
#[derive(Clone)]
pub(crate) struct SharedPolicy(Arc<RwLock<Arc<PluginPolicy>>>);

impl SharedPolicy {
    pub(crate) fn new(policy: PluginPolicy) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(policy))))
    }

    pub(crate) fn get(&self) -> Arc<PluginPolicy> {
        self.0.read().clone()
    }

    pub(crate) fn set(&self, policy: PluginPolicy) {
        *self.0.write() = Arc::new(policy);
    }
}
