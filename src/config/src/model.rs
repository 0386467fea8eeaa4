//! The keys of the configuration file, with their defaults. `reference/` has their user
//! documentation.

use crate::{
    containers::ContainerSettings, duration, log_level, metrics::MetricsSettings, paths,
    plugin::PluginPolicy, pods::PodSettings, size,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// The configuration file. Keys may be written with dashes in place of underscores.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether the wrapper passes every verb to the real runtime unchanged.
    pub disable: bool,
    /// Whether no external plugin may connect.
    #[serde(alias = "disable-connections")]
    pub disable_connections: bool,
    /// Directory of the plugins that are launched. Default: `/opt/nri/plugins`, unless the NRI of
    /// an engine is on and launches the plugins of that directory; for users a directory of theirs.
    #[serde(alias = "plugin-path", deserialize_with = "paths::absolute_or_empty")]
    pub plugin_path: Option<PathBuf>,
    /// Directory of the configuration of launched plugins. Default: `/etc/nri/conf.d`, for users a
    /// directory of theirs.
    #[serde(alias = "plugin-config-path", deserialize_with = "paths::absolute_option")]
    pub plugin_config_path: Option<PathBuf>,
    /// Time in which a plugin has to register.
    #[serde(alias = "plugin-registration-timeout", deserialize_with = "duration::deserialize")]
    pub plugin_registration_timeout: Duration,
    /// Time in which a plugin has to reply to a request.
    #[serde(alias = "plugin-request-timeout", deserialize_with = "duration::deserialize")]
    pub plugin_request_timeout: Duration,
    /// Time in which a plugin has to reply to each message of its synchronization.
    #[serde(alias = "plugin-synchronization-timeout", deserialize_with = "duration::deserialize")]
    pub plugin_synchronization_timeout: Duration,
    /// First pause before a launched plugin is restarted; each failure doubles the pause.
    #[serde(alias = "plugin-restart-backoff", deserialize_with = "duration::deserialize")]
    pub plugin_restart_backoff: Duration,
    /// Longest pause before a restart. A plugin that ran for this long starts again with the first
    /// pause.
    #[serde(alias = "plugin-restart-backoff-limit", deserialize_with = "duration::deserialize")]
    pub plugin_restart_backoff_limit: Duration,
    /// Socket for external plugins, in addition to the sockets in the state directory; empty: none.
    /// Default: `/var/run/nri/nri.sock`, if no engine with built-in NRI is installed.
    #[serde(alias = "socket-path", deserialize_with = "paths::absolute_or_empty")]
    pub socket_path: Option<PathBuf>,
    /// Directory of sockets, locks and records. Default: `/run/nri-container-runtime` for root of
    /// the host, a directory of the user otherwise.
    #[serde(alias = "state-dir", deserialize_with = "paths::absolute_option")]
    pub state_dir: Option<PathBuf>,
    /// Time that a wrapper waits for an `nrid` that it starts, and for a sign of life of an `nrid`
    /// that runs.
    #[serde(alias = "start-timeout", deserialize_with = "duration::deserialize")]
    pub start_timeout: Duration,
    /// Time after which an idle `nrid` exits. Default: never.
    #[serde(alias = "idle-timeout", deserialize_with = "duration::deserialize_option")]
    pub idle_timeout: Option<Duration>,
    /// Reaction of a creation or start to an `nrid` that cannot be reached.
    pub unreachable: Unreachable,
    /// Reaction to a cgroup that does not have the resources that plugins set.
    pub enforce: Enforce,
    /// Whether requested changes are applied.
    pub mode: Mode,
    /// Containers that opt out.
    #[serde(alias = "opt-out")]
    pub opt_out: OptOutSettings,
    /// Pods of engines without Kubernetes.
    pub pods: PodSettings,
    /// Facts about containers.
    pub containers: ContainerSettings,
    /// External plugins.
    pub connections: ConnectionSettings,
    /// The real runtime.
    pub runtime: RuntimeSettings,
    /// Engines with built-in NRI.
    pub engines: EngineSettings,
    /// Policies of plugins.
    pub plugin: Vec<PluginPolicy>,
    /// Rules that refuse adjustments.
    #[serde(alias = "default-validator")]
    pub default_validator: ValidatorSettings,
    /// The log of `nrid`.
    pub log: LogSettings,
    /// Metrics for Prometheus.
    pub metrics: MetricsSettings,
    /// The audit log.
    pub audit: AuditSettings,
    /// Block I/O classes.
    pub blockio: ClassSettings,
    /// RDT classes.
    pub rdt: ClassSettings,
    /// Devices of the Container Device Interface.
    pub cdi: CdiSettings,
}

/// Reaction of a creation or start to an `nrid` that cannot be reached or does not reply in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unreachable {
    /// The creation or start fails.
    #[default]
    Fail,
    /// The container is created and started with the OCI config of the engine.
    Pass,
}

/// Reaction to a cgroup that does not have the resources that plugins set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforce {
    /// The creation or update fails.
    #[default]
    Strict,
    /// The difference is logged.
    Report,
    /// Cgroups are neither read nor written.
    Off,
}

/// `[engines]`: which NRI adjusts the containers of an engine with built-in NRI.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Containers of containerd's CRI.
    pub containerd: AdaptedBy,
    /// Containers of CRI-O.
    pub crio: AdaptedBy,
    /// Containers of Docker.
    pub docker: AdaptedBy,
    /// Containers of iSulad's CRI.
    pub isulad: AdaptedBy,
}

/// The NRI that adjusts the containers of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdaptedBy {
    /// The engine's NRI while it is enabled, else `nrid`. For Docker always `nrid`.
    #[default]
    Auto,
    /// The engine's NRI: `nrid` passes the engine's containers through unchanged.
    Engine,
    /// `nrid`, even if the engine's NRI is enabled.
    #[serde(rename = "ours")]
    Nrid,
}

/// `[runtime]`: the real runtime.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimeSettings {
    /// The real runtime. A bare name is looked up in PATH and the standard directories.
    #[serde(deserialize_with = "paths::program_option")]
    pub path: Option<PathBuf>,
    /// Names to try, in order, when `path` is not set. Default: runc, crun, youki.
    #[serde(deserialize_with = "paths::program_list")]
    pub candidates: Vec<PathBuf>,
    /// `[runtime.names.NAME]`: for the wrapper called as NAME.
    pub names: BTreeMap<String, NamedRuntime>,
}

/// `[runtime.names.NAME]`: the real runtime of a wrapper that is called as NAME.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedRuntime {
    /// The real runtime for this name.
    #[serde(deserialize_with = "paths::program")]
    pub path: PathBuf,
}

/// Whether requested changes are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Changes are applied.
    #[default]
    Apply,
    /// Plugins receive events; their changes are logged, but not applied.
    Shadow,
}

/// `[connections]`: external plugins.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionSettings {
    /// Users that may connect, besides root and the user of `nrid`.
    #[serde(alias = "allow-uids")]
    pub allow_uids: Vec<u32>,
    /// Programs that may connect. Default: any.
    #[serde(alias = "allow-programs", deserialize_with = "paths::absolute_list_option")]
    pub allow_programs: Option<Vec<PathBuf>>,
    /// Number of connections that may wait for their registration.
    #[serde(alias = "max-unregistered")]
    pub max_unregistered: usize,
    /// Number of plugins, launched ones included.
    #[serde(alias = "max-plugins")]
    pub max_plugins: usize,
}

/// `[opt_out]`: containers for which no plugin is called.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptOutSettings {
    /// Annotation by which a container or its pod opts out. Default: none, so that no
    /// container can opt out.
    pub annotation: Option<String>,
}

/// `[default_validator]`, with upstream's keys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidatorSettings {
    /// Whether the other keys and the annotation `required-plugins.noderesource.dev` of pods take
    /// effect.
    pub enable: bool,
    /// Refuse OCI hooks.
    #[serde(alias = "reject-oci-hook-adjustment")]
    pub reject_oci_hook_adjustment: bool,
    /// Refuse a seccomp policy in place of the runtime's default profile.
    #[serde(alias = "reject-runtime-default-seccomp-adjustment")]
    pub reject_runtime_default_seccomp_adjustment: bool,
    /// Refuse a seccomp policy for unconfined containers.
    #[serde(alias = "reject-unconfined-seccomp-adjustment")]
    pub reject_unconfined_seccomp_adjustment: bool,
    /// Refuse a seccomp policy in place of a custom profile of the container.
    #[serde(alias = "reject-custom-seccomp-adjustment")]
    pub reject_custom_seccomp_adjustment: bool,
    /// Refuse changes of namespaces.
    #[serde(alias = "reject-namespace-adjustment")]
    pub reject_namespace_adjustment: bool,
    /// Refuse sysctls.
    #[serde(alias = "reject-sysctl-adjustment")]
    pub reject_sysctl_adjustment: bool,
    /// Plugins that must have processed every container: `NN-name` or `name`.
    #[serde(alias = "required-plugins")]
    pub required_plugins: Vec<String>,
    /// Annotation of a pod that allows required plugins to be missing.
    #[serde(alias = "tolerate-missing-plugins-annotation")]
    pub tolerate_missing_plugins_annotation: Option<String>,
}

/// `[log]`: the log of `nrid`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// Minimum level of what is logged: error, warn, info, debug, trace, or off.
    #[serde(deserialize_with = "log_level::deserialize")]
    pub level: String,
    /// File that `nrid` appends to. Default: `nrid.log` in the state directory, or stderr if `nrid`
    /// runs in the foreground.
    #[serde(deserialize_with = "paths::absolute_option")]
    pub file: Option<PathBuf>,
    /// Where `nrid` logs.
    pub destination: LogDestination,
}

/// Where `nrid` logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogDestination {
    /// The file, or stderr if `nrid` runs in the foreground and no file is configured; journald if
    /// this stderr is the journal.
    #[default]
    Auto,
    /// journald, or the file while journald does not receive.
    Journal,
}

/// `[audit]`: the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSettings {
    /// Whether there is an audit log.
    pub enable: bool,
    /// File of the audit log. Default: `audit.log` in the state directory.
    #[serde(deserialize_with = "paths::absolute_option")]
    pub file: Option<PathBuf>,
    /// Maximum size of the file in bytes, not 0. A file of this size is renamed to `FILE.1`.
    #[serde(alias = "max-size", deserialize_with = "size::bytes")]
    pub max_size: u64,
    /// Whether the log has the values of environment variables.
    #[serde(alias = "environment-values")]
    pub environment_values: bool,
}

/// `[blockio]` and `[rdt]`: classes that plugins assign.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassSettings {
    /// File with the classes, in the format of goresctrl, YAML or JSON.
    #[serde(alias = "config-file", deserialize_with = "paths::absolute_option")]
    pub config_file: Option<PathBuf>,
}

/// `[cdi]`: devices of the Container Device Interface.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CdiSettings {
    /// Directories of specification files. If two directories define the same device, the later
    /// directory takes precedence.
    #[serde(alias = "spec-dirs", deserialize_with = "paths::absolute_list")]
    pub spec_dirs: Vec<PathBuf>,
}

impl Config {
    /// Returns the longest time limit of a request to a plugin.
    pub fn longest_request_timeout(&self) -> Duration {
        let of_plugins = self.plugin.iter().filter_map(|policy| policy.timeout);
        of_plugins.fold(self.plugin_request_timeout, Duration::max)
    }
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            allow_uids: Vec::new(),
            allow_programs: None,
            max_unregistered: 64,
            max_plugins: 256,
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { level: "info".to_owned(), file: None, destination: LogDestination::default() }
    }
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { enable: true, file: None, max_size: 8 << 20, environment_values: false }
    }
}

impl Default for CdiSettings {
    fn default() -> Self {
        Self { spec_dirs: vec!["/etc/cdi".into(), "/var/run/cdi".into()] }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            disable: false,
            disable_connections: false,
            plugin_path: None,
            plugin_config_path: None,
            plugin_registration_timeout: Duration::from_secs(5),
            plugin_request_timeout: Duration::from_secs(2),
            plugin_synchronization_timeout: Duration::from_secs(10),
            plugin_restart_backoff: Duration::from_secs(1),
            plugin_restart_backoff_limit: Duration::from_secs(60),
            socket_path: None,
            state_dir: None,
            start_timeout: Duration::from_secs(20),
            idle_timeout: None,
            unreachable: Unreachable::default(),
            enforce: Enforce::default(),
            mode: Mode::default(),
            opt_out: OptOutSettings::default(),
            pods: PodSettings::default(),
            containers: ContainerSettings::default(),
            connections: ConnectionSettings::default(),
            runtime: RuntimeSettings::default(),
            engines: EngineSettings::default(),
            plugin: Vec::new(),
            default_validator: ValidatorSettings::default(),
            log: LogSettings::default(),
            metrics: MetricsSettings::default(),
            audit: AuditSettings::default(),
            blockio: ClassSettings::default(),
            rdt: ClassSettings::default(),
            cdi: CdiSettings::default(),
        }
    }
}
