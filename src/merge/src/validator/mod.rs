//! The built-in validator: an operator's rules on adjustments, the same as in upstream's default
//! validator.
//!
//! The rules check owners, not values: fields without an owner (rules of the device cgroup,
//! removals of values that no plugin set) are accepted. Start from [`validate`].

mod annotation;
mod config;
mod rejection;
mod required;
mod restricted;
mod validate;

pub use config::{DefaultValidatorConfig, REQUIRED_PLUGINS_ANNOTATION};
pub use rejection::Rejection;
pub use required::tolerates_missing_plugins;
pub use validate::validate;
