//! Parses the configuration file into typed values; all programs use the same defaults.
//!
//! The caller reads the file; this crate only parses. Start from [`Config::parse`]. A missing file
//! means [`Config::default`]. [`Config::parse_with_mistakes`] also accepts mistakes that earlier
//! releases accepted. [`key_reference`] describes every key.

#![forbid(unsafe_code)]

mod broken;
mod containers;
mod duration;
mod log_level;
mod metrics;
mod mistakes;
mod model;
mod names;
mod parse;
mod paths;
mod plugin;
mod pods;
mod reference;
mod size;
mod unusable;

mod generated {
    pub(crate) mod field_groups;
}

pub use containers::{ContainerFact, ContainerSettings};
pub use generated::field_groups::FIELD_GROUPS;
pub use log_level::{UnknownLogLevel, parse_log_level};
pub use metrics::{InvalidMetricsAddress, MetricsAddress, MetricsSettings};
pub use model::{
    AdaptedBy, AuditSettings, CdiSettings, ClassSettings, Config, ConnectionSettings, Enforce,
    EngineSettings, LogDestination, LogSettings, Mode, NamedRuntime, OptOutSettings,
    RuntimeSettings, Unreachable, ValidatorSettings,
};
pub use names::{CAPABILITIES, RLIMITS};
pub use parse::ConfigError;
pub use plugin::{
    Account, Capability, FieldGroup, Limit, OnFailure, PluginPolicy, Restart, Rlimit, User,
    ValidationFailure,
};
pub use pods::PodSettings;
pub use reference::{
    DefaultValue, KeyDescription, KeyKind, SectionDescription, commented_configuration,
    key_reference, sections, wrapped,
};
