//! Work of the product's crates that `cargo bench` measures and whose instructions are counted: the
//! merge of replies, a change of `config.json`, and messages on the wire.

#![forbid(unsafe_code)]

mod config_json;
mod merge;
#[cfg(feature = "measure")]
mod wire;

pub use config_json::ConfigJson;
pub use merge::Merge;
#[cfg(feature = "measure")]
pub use wire::{Session, frames};
