//! Parses the configuration file into typed values; all programs use the same defaults.
//!
//! The caller reads the file; this crate only parses. Start from [`Config::parse`]. A missing file
//! means [`Config::default`]. [`Config::parse_with_mistakes`] also accepts mistakes that earlier
//! releases accepted. [`key_reference`] describes every key.

#![forbid(unsafe_code)]

mod broken;
mod budget;
mod classes;
mod connections;
mod containers;
mod digest;
mod duration;
mod engines;
mod exec;
mod log_level;
mod logs;
mod metrics;
mod mistakes;
mod model;
mod names;
mod parse;
mod paths;
mod plugin;
mod plugin_scope;
mod pods;
mod reference;
mod runtime;
mod size;
mod unusable;
mod validator;

mod generated {
    pub(crate) mod field_groups;
}

pub use budget::Budget;
pub use classes::{BlockioSettings, CdiSettings, RdtSettings};
pub use connections::{ConnectionSettings, OptOutSettings};
pub use containers::{ContainerFact, ContainerSettings};
pub use digest::Digest;
pub use engines::{AdaptedBy, EngineSettings};
pub use exec::{ExecPolicy, ExecSettings};
pub use generated::field_groups::FIELD_GROUPS;
pub use log_level::{UnknownLogLevel, parse_log_level};
pub use logs::{AuditSettings, LogDestination, LogSettings};
pub use metrics::{InvalidMetricsAddress, MetricsAddress, MetricsSettings};
pub use model::{Config, Enforce, Mode, Unreachable};
pub use names::{CAPABILITIES, RLIMITS};
pub use parse::ConfigError;
pub use plugin::{
    Account, Capability, FieldGroup, Limit, OnFailure, PluginPolicy, Restart, Rlimit, User,
    ValidationFailure,
};
pub use plugin_scope::{OutsideScope, PluginMode, PluginScope};
pub use pods::PodSettings;
pub use reference::{
    DefaultValue, KeyDescription, KeyKind, SectionDescription, commented_configuration,
    key_reference, sections, wrapped,
};
pub use runtime::{NamedRuntime, RuntimeSettings};
pub use validator::ValidatorSettings;
