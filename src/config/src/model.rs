//! The keys of the configuration file before its first table, and the list of its tables.

use crate::{
    classes::{BlockioSettings, CdiSettings, RdtSettings},
    connections::{ConnectionSettings, OptOutSettings},
    containers::ContainerSettings,
    duration,
    engines::EngineSettings,
    exec::ExecSettings,
    logs::{AuditSettings, LogSettings},
    metrics::MetricsSettings,
    paths,
    plugin::PluginPolicy,
    pods::PodSettings,
    reference::{choices, section},
    runtime::RuntimeSettings,
    validator::ValidatorSettings,
};
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};

section! {
    /// Keys before the first `[section]` of the file. Paths are absolute in all sections, except
    /// for names of runtimes.
    #[section("", "General keys")]
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Config {
        /// The wrapper passes every verb to the real runtime, without NRI. Setting it takes effect
        /// with a reload, removing it at once.
        #[key(Boolean, Value("false"), "true")]
        pub disable: bool = false,
        /// Whether the changes that plugins request take effect.
        #[key(Choice(Mode::CHOICES), Value("\"apply\""), "\"shadow\"")]
        pub mode: Mode = Mode::default(),
        /// What `create`, `run`, `restore` and `start` do when `nrid` cannot be reached or hangs.
        /// All other verbs proceed in any case, but an `update` about which an `nrid` that works
        /// has not decided in time.
        #[key(Choice(Unreachable::CHOICES), Value("\"fail\""), "\"pass\"")]
        pub unreachable: Unreachable = Unreachable::default(),
        /// What happens when the cgroup of a container does not have the resources that plugins
        /// set, and they cannot be written, or when the cgroup cannot be found.
        #[key(Choice(Enforce::CHOICES), Value("\"strict\""), "\"report\"")]
        pub enforce: Enforce = Enforce::default(),
        /// Directory of the plugins that `nrid` launches, the only one if it is set. By default
        /// `nrid` launches the plugins that `nrictl plugin enable` has enabled, and those of
        /// `/opt/nri/plugins`, which an engine with NRI of its own launches for its containers as
        /// well; where one does, `nrid` waits with them until it adjusts its first container.
        #[key(
            Path,
            Derived(
                "`/opt/nri/plugins` and `/etc/nri-container-runtime/plugins`; for users \
                 `$XDG_DATA_HOME/nri/plugins`."
            ),
            "\"/opt/nri/plugins\""
        )]
        #[serde(alias = "plugin-path", deserialize_with = "paths::absolute_or_empty")]
        pub plugin_path: Option<PathBuf> = None,
        /// Directory of the configuration of launched plugins: `NN-name.conf`, else `name.conf`.
        #[key(
            Path,
            Derived("`/etc/nri/conf.d`; for users `$XDG_CONFIG_HOME/nri/conf.d`."),
            "\"/etc/nri/conf.d\""
        )]
        #[serde(alias = "plugin-config-path", deserialize_with = "paths::absolute_option")]
        pub plugin_config_path: Option<PathBuf> = None,
        /// Time in which a plugin has to register after it was launched or has connected. After a
        /// start of `nrid`, creations wait at most this long for external plugins that were
        /// connected to the previous `nrid`.
        #[key(Duration, Value("\"5s\""), "\"10s\"")]
        #[serde(alias = "plugin-registration-timeout", deserialize_with = "duration::deserialize")]
        pub plugin_registration_timeout: Duration = Duration::from_secs(5),
        /// Time in which a plugin has to reply to a request. `on_failure` of the plugin's policy
        /// decides what happens otherwise.
        #[key(Duration, Value("\"2s\""), "\"500ms\"")]
        #[serde(alias = "plugin-request-timeout", deserialize_with = "duration::deserialize")]
        pub plugin_request_timeout: Duration = Duration::from_secs(2),
        /// Time in which a plugin that has connected has to reply to each message with the existing
        /// containers, if it is longer than the time for a request. Creations wait for the reply no
        /// longer than for one to a request, and then proceed as after a timeout: `on_failure` and
        /// `required` apply.
        #[key(Duration, Value("\"10s\""), "\"1m\"")]
        #[serde(
            alias = "plugin-synchronization-timeout",
            deserialize_with = "duration::deserialize"
        )]
        pub plugin_synchronization_timeout: Duration = Duration::from_secs(10),
        /// First pause before a launched plugin that exited is launched again. Each further failure
        /// doubles the pause.
        #[key(Duration, Value("\"1s\""), "\"5s\"")]
        #[serde(alias = "plugin-restart-backoff", deserialize_with = "duration::deserialize")]
        pub plugin_restart_backoff: Duration = Duration::from_secs(1),
        /// Longest pause before a launched plugin is launched again. After a plugin has run for
        /// this long, its next pause is the first one again.
        #[key(Duration, Value("\"60s\""), "\"5m\"")]
        #[serde(alias = "plugin-restart-backoff-limit", deserialize_with = "duration::deserialize")]
        pub plugin_restart_backoff_limit: Duration = Duration::from_secs(60),
        /// No external plugin may connect; only launched plugins are called.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "disable-connections")]
        pub disable_connections: bool = false,
        /// One more socket for external plugins, in addition to `plugins/nri.sock` in the state
        /// directory; `""` means none. Only a socket without a listener is replaced, in a directory
        /// that other users cannot change.
        #[key(
            Path,
            Derived(
                "`/var/run/nri/nri.sock` where none of containerd, CRI-O and iSulad is installed, \
                 else none."
            ),
            "\"/var/run/nri/nri.sock\""
        )]
        #[serde(alias = "socket-path", deserialize_with = "paths::absolute_or_empty")]
        pub socket_path: Option<PathBuf> = None,
        /// Directory of sockets, locks, records and the log.
        #[key(
            Path,
            Derived(
                "`/run/nri-container-runtime` for root of the host; for users and in user \
                 namespaces `$XDG_RUNTIME_DIR/nri-container-runtime`, else a directory of the \
                 user in `/tmp`."
            ),
            "\"/run/nri-container-runtime\""
        )]
        #[serde(alias = "state-dir", deserialize_with = "paths::absolute_option")]
        pub state_dir: Option<PathBuf> = None,
        /// Time that a wrapper waits for an `nrid` that it starts, and for a sign of life of a
        /// running one. `delete` and `update` wait at most 10 seconds for a sign of life; an
        /// `update` that has to start `nrid` waits as long as a creation.
        #[key(Duration, Value("\"20s\""), "\"1m\"")]
        #[serde(alias = "start-timeout", deserialize_with = "duration::deserialize")]
        pub start_timeout: Duration = Duration::from_secs(20),
        /// Time after which an `nrid` without containers, pods and external plugins exits. The
        /// plugins that it launched end with it, and the next container starts it again. External
        /// plugins can only connect while `nrid` runs: for them, leave this key unset, or use the
        /// socket unit.
        #[key(Duration, Derived("`nrid` runs until it is stopped."), "\"10m\"")]
        #[serde(alias = "idle-timeout", deserialize_with = "duration::deserialize_option")]
        pub idle_timeout: Option<Duration> = None,
        tables {
            runtime: RuntimeSettings,
            engines: EngineSettings,
            #[serde(alias = "opt-out")]
            opt_out: OptOutSettings,
            connections: ConnectionSettings,
            #[serde(alias = "default-validator")]
            default_validator: ValidatorSettings,
            blockio: BlockioSettings,
            rdt: RdtSettings,
            cdi: CdiSettings,
            log: LogSettings,
            metrics: MetricsSettings,
            audit: AuditSettings,
            pods: PodSettings,
            containers: ContainerSettings,
            exec: ExecSettings,
            plugin: Vec<PluginPolicy>,
        }
    }
}

impl Config {
    /// Returns the longest time limit of a request to a plugin.
    pub fn longest_request_timeout(&self) -> Duration {
        let of_plugins = self.plugin.iter().filter_map(|policy| policy.timeout);
        of_plugins.fold(self.plugin_request_timeout, Duration::max)
    }
}

choices! {
    /// Whether the changes that plugins request take effect.
    pub enum Mode {
        /// The changes of plugins are applied.
        Apply = "apply",
        /// Plugins are called, their changes are logged, and nothing changes.
        Shadow = "shadow",
    }
}

choices! {
    /// Reaction of a creation or start to an `nrid` that cannot be reached or does not reply in
    /// time.
    pub enum Unreachable {
        /// The creation or start fails.
        Fail = "fail",
        /// The container is created and started without changes by plugins.
        Pass = "pass",
    }
}

choices! {
    /// Reaction to a cgroup that does not have the resources that plugins set.
    pub enum Enforce {
        /// The creation or update fails.
        Strict = "strict",
        /// The difference is logged.
        Report = "report",
        /// Cgroups are neither read nor written.
        Off = "off",
    }
}
