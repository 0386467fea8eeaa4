//! The bundle: `config.json`, the hooks injected into it, and the marker that `exec` reads.

pub mod config_json;
pub mod exec_marker;
pub mod hook_injection;
