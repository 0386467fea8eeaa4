//! `[log]` and `[audit]`: what `nrid` writes about its work.

use crate::{
    log_level, paths,
    reference::{choices, section},
    size,
};
use serde::Deserialize;
use std::path::PathBuf;

section! {
    /// Log of `nrid` alone: the wrapper logs to stderr and to the file of the engine's `--log`.
    #[section("[log]", "The log of nrid")]
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct LogSettings {
        /// Minimum level of what is logged. A list such as `info,nri_wire=debug` sets other levels
        /// for parts of the program. Libraries log warnings and errors, unless the list names them:
        /// `debug,h2=debug`. `warning` means `warn`.
        #[key(
            Text("`\"off\"`, `\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"` or `\"trace\"`"),
            Value("\"info\""),
            "\"debug\""
        )]
        #[serde(deserialize_with = "log_level::deserialize")]
        pub level: String = "info".to_owned(),
        /// The file that `nrid` appends to.
        #[key(
            Path,
            Derived(
                "`nrid.log` in the state directory; stderr where `nrid` runs in the foreground."
            ),
            "\"/var/log/nrid.log\""
        )]
        #[serde(deserialize_with = "paths::absolute_option")]
        pub file: Option<PathBuf> = None,
        /// Where `nrid` logs. In journald, each field of a line is a field of the entry:
        /// `journalctl -t nrid CONTAINER=ID` or `PLUGIN=10-pin` finds lines.
        #[key(Choice(LogDestination::CHOICES), Value("\"auto\""), "\"journal\"")]
        pub destination: LogDestination = LogDestination::default(),
    }
}

choices! {
    /// Where `nrid` logs.
    pub enum LogDestination {
        /// `file`; without that key, journald in a unit of systemd.
        Auto = "auto",
        /// journald; `file` while there is none, or it does not receive.
        Journal = "journal",
    }
}

section! {
    /// One JSON line for each adjustment, update, eviction and refusal, and for the life of
    /// containers and plugins. `nrictl events` and `nrictl explain` read it.
    #[section("[audit]", "The audit log")]
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct AuditSettings {
        /// Whether there is an audit log. A file that exists already stays.
        #[key(Boolean, Value("true"), "false")]
        pub enable: bool = true,
        /// The file that `nrid` appends to. Not a pipe: `nrictl events` and `explain` read it.
        #[key(
            Path,
            Derived("`audit.log` in the state directory, which a reboot empties."),
            "\"/var/log/nri-audit.log\""
        )]
        #[serde(deserialize_with = "paths::absolute_option")]
        pub file: Option<PathBuf> = None,
        /// Maximum size of the file; a bare number means bytes. A file of this size is renamed to
        /// `FILE.1`, so that both together take twice as much.
        #[key(Size, Value("\"8MiB\""), "\"64MiB\"")]
        #[serde(alias = "max-size", deserialize_with = "size::bytes")]
        pub max_size: u64 = 8 << 20,
        /// Write the values of environment variables, which often are secrets. By default only
        /// their names are written, and `***` for each value.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "environment-values")]
        pub environment_values: bool = false,
    }
}
