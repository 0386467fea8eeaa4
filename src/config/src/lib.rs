//! Parses the configuration file to typed values; all programs use the same defaults.
//!
//! The caller reads the file; this crate only parses. Start from [`Config::parse`]. A missing file
//! means [`Config::default`]. [`key_reference`] describes every key.

#![forbid(unsafe_code)]

mod broken;
mod duration;
mod model;
mod names;
mod parse;
mod plugin;
mod reference;

pub use duration::{InvalidDuration, parse_duration};
pub use model::{
    CdiSettings, ClassSettings, Config, ConnectionSettings, Enforce, EngineSettings, InCharge,
    LogSettings, Mode, NamedRuntime, OptOutSettings, RuntimeSettings, Unreachable,
    ValidatorSettings,
};
pub use names::{CAPABILITIES, FIELD_GROUPS, RLIMITS};
pub use parse::ConfigError;
pub use plugin::{
    Account, Capability, FieldGroup, Limit, OnFailure, PluginPolicy, Restart, Rlimit, User,
};
pub use reference::{
    DefaultValue, KeyDescription, KeyKind, SectionDescription, key_reference, sections, wrapped,
};
