//! Configuration of the adaptation: paths, timeouts, policies.
//!
//! This file holds values only; the caller reads them from where it has its configuration.

use crate::policy::budget::{Budget, BudgetExemption};
use crate::policy::failure_policy::RequestedFailurePolicy;
use crate::policy::peers::PeerPolicy;
use crate::policy::plugin_policy::PluginPolicy;
use crate::policy::scope::Subject;
use nri_api::PluginId;
use nri_merge::validator::DefaultValidatorConfig;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Configuration of an [`Adaptation`](crate::Adaptation).
#[derive(Debug, Clone)]
pub struct AdaptationConfig {
    /// Directory of the plugins to launch. A missing directory, or an empty path, launches none.
    pub plugin_path: PathBuf,
    /// Another directory of plugins to launch, which no other NRI runtime launches. Of two files
    /// with one name, the one in this directory is launched.
    pub own_plugin_path: PathBuf,
    /// Another NRI runtime that launches the plugins of `plugin_path` for its own containers. While
    /// it does, plugins of a single instance ([`PluginPolicy::single_instance`]) are not launched
    /// from there.
    pub other_runtime: Option<OtherRuntime>,
    /// The plugins of the plugin directory to launch; `None` launches all.
    pub selected: Option<Vec<PluginId>>,
    /// Plugins that count as consulted although no one asks them: rules that require them to be
    /// consulted are satisfied.
    pub assumed: Vec<PluginId>,
    /// Directory of the launched plugins' configuration files.
    pub plugin_config_path: PathBuf,
    /// Whether external plugins are refused.
    pub disable_connections: bool,
    /// Time limit from the connection to `RegisterPlugin`.
    pub registration_timeout: Duration,
    /// Time limit of each call to a plugin whose policy sets no timeout.
    pub request_timeout: Duration,
    /// Time limit of each message of a synchronization, if it is longer than that of a call.
    /// Requests wait for the plugin no longer than for the reply to a call.
    pub synchronization_timeout: Duration,
    /// Time for which callers wait for the outcome of a request. Plugins that may be absent have
    /// half of it together, all plugins three quarters, with the time that the request waits for
    /// earlier ones; the rest is left for the commit. It should be many times `request_timeout`.
    pub reply_limit: Duration,
    /// Time that a launched plugin has to exit after SIGTERM before it gets SIGKILL.
    pub stop_grace: Duration,
    /// Pause before the first restart of a launched plugin whose policy sets no pause. Each further
    /// failure doubles the pause.
    pub restart_backoff: Duration,
    /// Longest pause before a restart. A plugin that was active for this long restarts after the
    /// first pause again.
    pub restart_backoff_limit: Duration,
    /// Users and programs that may connect, and limits of connections.
    pub peers: PeerPolicy,
    /// Program that drops privileges and becomes a plugin ([`launcher`](crate::launcher)), called
    /// with `--launch`.
    pub launcher: PathBuf,
    /// Program that runs plugins that are WebAssembly modules, with an absolute path; `None`: such
    /// plugins are skipped.
    pub wasm_host: Option<PathBuf>,
    /// Cgroup in which each launched plugin gets a cgroup of its own; `None`: the plugins run in
    /// the cgroup of this process.
    pub plugin_cgroups: Option<PathBuf>,
    /// Soft limit of open files of launched plugins; `None` keeps the limit of this process.
    pub soft_nofile: Option<u64>,
    /// Variables of launched plugins, beside those that NRI defines.
    pub plugin_variables: Vec<(String, String)>,
    /// Name of the runtime, sent to plugins.
    pub runtime_name: String,
    /// Version of the runtime, sent to plugins.
    pub runtime_version: String,
    /// Policies of plugins; a plugin that no policy matches gets [`PluginPolicy::default`].
    pub policies: Vec<PluginPolicy>,
    /// Configuration of the built-in validator; `None` disables it.
    pub default_validator: Option<DefaultValidatorConfig>,
    /// Whether the start succeeds when a required plugin cannot be launched. The plugin is then
    /// restarted like any other plugin.
    pub start_without_required: bool,
}

/// Another NRI runtime of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherRuntime {
    /// The runtime, as messages name it, such as `containerd 2.1.9 (process 812)`.
    pub name: String,
    /// Command that switches its NRI off.
    pub remedy: String,
}

impl Default for AdaptationConfig {
    fn default() -> Self {
        Self {
            plugin_path: "/opt/nri/plugins".into(),
            own_plugin_path: PathBuf::new(),
            other_runtime: None,
            selected: None,
            assumed: Vec::new(),
            plugin_config_path: "/etc/nri/conf.d".into(),
            disable_connections: false,
            registration_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(2),
            synchronization_timeout: Duration::from_secs(10),
            reply_limit: Duration::from_secs(120),
            stop_grace: Duration::from_secs(2),
            restart_backoff: Duration::from_secs(1),
            restart_backoff_limit: Duration::from_secs(60),
            peers: PeerPolicy::default(),
            // The running program, even if its file was replaced after its start.
            launcher: "/proc/self/exe".into(),
            wasm_host: None,
            plugin_cgroups: None,
            soft_nofile: None,
            plugin_variables: Vec::new(),
            runtime_name: String::new(),
            runtime_version: String::new(),
            policies: Vec::new(),
            default_validator: None,
            start_without_required: false,
        }
    }
}

impl AdaptationConfig {
    /// Returns the policy for a plugin, or the default policy if none matches. A plugin that is
    /// required, also by another policy, has no budget.
    pub fn policy(&self, id: &PluginId) -> PluginPolicy {
        let mut policy = self.written_policy(id).cloned().unwrap_or_default();
        policy.budget = policy.budget.filter(|_| !self.is_required(id));
        policy
    }

    /// Returns the policy that matches a plugin.
    fn written_policy(&self, id: &PluginId) -> Option<&PluginPolicy> {
        let exact = self.policies.iter().find(|p| p.matches_exactly(id));
        let named = || self.policies.iter().find(|p| p.matches(id) && !p.is_for_all());
        let for_all = || self.policies.iter().find(|p| p.is_for_all());
        exact.or_else(named).or_else(for_all)
    }

    /// Returns the budget of a plugin that requests this failure policy, and why it does not limit
    /// the plugin; `None` if its policy has none.
    pub fn budget(
        &self,
        id: &PluginId,
        requested: Option<RequestedFailurePolicy>,
    ) -> Option<(Budget, Option<BudgetExemption>)> {
        let policy = self.written_policy(id)?;
        let required = self.is_required(id).then_some(BudgetExemption::Required);
        Some((policy.budget?, required.or_else(|| policy.budget_exemption(requested))))
    }

    /// Whether a policy requires the plugin, or the built-in validator does.
    pub(crate) fn is_required(&self, id: &PluginId) -> bool {
        self.is_required_by_rules(id) || self.policies.iter().any(|p| p.required && p.matches(id))
    }

    /// Returns the rules of the built-in validator for a container: without the requirement of
    /// plugins whose policies do not have the container in their scopes.
    pub(crate) fn validator_rules<'a>(
        &self,
        rules: &'a DefaultValidatorConfig,
        subject: Option<&Subject>,
    ) -> Cow<'a, DefaultValidatorConfig> {
        // A name without an index is that of several plugins, whose own policies do not count.
        let excludes = |name: &String| {
            let id = PluginId::from_file_name(name).ok();
            let named = self.policies.iter().find(|policy| policy.plugin == *name);
            let policy = id.map(|id| self.policy(&id)).or_else(|| named.cloned());
            policy.is_some_and(|policy| !policy.has_in_scope(subject))
        };
        if subject.is_none() || !rules.required_plugins.iter().any(excludes) {
            return Cow::Borrowed(rules);
        }
        let mut rules = rules.clone();
        rules.required_plugins.retain(|name| !excludes(name));
        Cow::Owned(rules)
    }

    /// Returns the directories of the plugins to launch, in the order of their precedence.
    pub(crate) fn plugin_dirs(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.own_plugin_path, &self.plugin_path].into_iter().filter(|dir| !is_empty(dir))
    }

    /// Returns the other runtime if it launches the plugin of this file, and only one instance of
    /// the plugin may run.
    pub(crate) fn launched_by_other(&self, file: &Path, id: &PluginId) -> Option<&OtherRuntime> {
        let is_shared = file.parent() == Some(&self.plugin_path);
        let other = self.other_runtime.as_ref().filter(|_| is_shared)?;
        self.policy(id).is_single_instance(id).then_some(other)
    }

    /// Whether the plugin of a file is to be launched.
    pub(crate) fn selects(&self, file: &Path) -> bool {
        let Some(selected) = &self.selected else { return true };
        let name = file.file_name().and_then(|name| name.to_str());
        let id = name.and_then(|name| PluginId::from_file_name(name).ok());
        id.is_some_and(|id| selected.contains(&id))
    }

    /// Whether user `uid`, who is neither root nor the user of this process, may register a plugin
    /// under this name.
    ///
    /// A name that a policy other than `*` matches is reserved for the users that the policy lists,
    /// since the policy's permissions are meant for them. Any other name is refused if the built-in
    /// validator requires it: otherwise a plugin of any user would satisfy the requirement.
    pub(crate) fn may_register(&self, uid: u32, id: &PluginId) -> bool {
        if self.has_own_policy(id) {
            return self.policy(id).uids.contains(&uid);
        }
        !self.is_required_by_rules(id)
    }

    /// Whether the administrator has named the plugin: in a policy other than `*`, or as one that
    /// the built-in validator requires.
    pub(crate) fn has_policy(&self, id: &PluginId) -> bool {
        self.has_own_policy(id) || self.is_required_by_rules(id)
    }

    fn has_own_policy(&self, id: &PluginId) -> bool {
        self.policies.iter().any(|policy| policy.matches(id) && !policy.is_for_all())
    }

    fn is_required_by_rules(&self, id: &PluginId) -> bool {
        let required = self.default_validator.iter().flat_map(|rules| &rules.required_plugins);
        required.into_iter().any(|name| name == id.name.as_str() || *name == id.to_string())
    }

    /// Returns the time limit of a call to a plugin with this policy.
    pub fn timeout(&self, policy: &PluginPolicy) -> Duration {
        policy.timeout.unwrap_or(self.request_timeout)
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_name_takes_precedence_over_the_bare_name() {
        let policy = |plugin: &str, consecutive_timeouts| PluginPolicy {
            plugin: plugin.into(),
            consecutive_timeouts: Some(consecutive_timeouts),
            ..PluginPolicy::default()
        };
        // The numbers tell the policies apart. "1-b" matches no plugin: an index has two digits.
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
            assert_eq!(config.policy(&id).consecutive_timeouts, Some(expected), "{id}");
        }
        let id = PluginId::new("10", "a").unwrap();
        assert_eq!(AdaptationConfig::default().policy(&id), PluginPolicy::default());
    }

    #[test]
    fn a_budget_does_not_limit_a_plugin_that_must_not_be_absent() {
        use crate::policy::plugin_policy::OnFailure;
        let budget =
            Budget { time: Duration::from_millis(1), share: 50, pause: Duration::from_secs(1) };
        let own =
            PluginPolicy { plugin: "10-a".into(), budget: Some(budget), ..PluginPolicy::default() };
        let other = |plugin: &str| PluginPolicy {
            plugin: plugin.into(),
            required: true,
            ..PluginPolicy::default()
        };
        let required = Some(BudgetExemption::Required);
        let fail = PluginPolicy { on_failure: OnFailure::Fail, ..own.clone() };
        for (policies, rules, expected) in [
            (vec![own.clone()], "", None),
            (vec![own.clone(), other("b")], "b", None),
            (vec![PluginPolicy { required: true, ..own.clone() }], "", required),
            // Another policy requires it, or the built-in validator.
            (vec![own.clone(), other("a")], "", required),
            (vec![own.clone(), other("*")], "", required),
            (vec![own.clone()], "a", required),
            (vec![fail], "", Some(BudgetExemption::OnFailure)),
        ] {
            let rules = DefaultValidatorConfig {
                required_plugins: vec![rules.into()],
                ..DefaultValidatorConfig::default()
            };
            let default_validator = Some(rules);
            let config =
                AdaptationConfig { policies, default_validator, ..AdaptationConfig::default() };
            let id = PluginId::new("10", "a").unwrap();
            assert_eq!(config.budget(&id, None), Some((budget, expected)), "{config:?}");
            let has_budget = config.policy(&id).budget.is_some();
            assert_eq!(has_budget, expected != required, "{config:?}");
            let requested =
                RequestedFailurePolicy { fail_request: true, ..RequestedFailurePolicy::default() };
            let expected = expected.or(Some(BudgetExemption::FailRequest));
            assert_eq!(config.budget(&id, Some(requested)), Some((budget, expected)));
        }
        let id = PluginId::new("11", "a").unwrap();
        assert_eq!(AdaptationConfig::default().budget(&id, None), None);
    }
}
