//! The bundle: `config.json` and the hooks injected into it.

pub mod bounded;
pub mod config_json;
pub mod hook_injection;
