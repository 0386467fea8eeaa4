//! Bundles: the engine's, which is only read, and ours, with the adjusted `config.json`.

pub mod bounded;
pub mod config_json;
pub mod hook_injection;
pub mod own;
pub mod record;
