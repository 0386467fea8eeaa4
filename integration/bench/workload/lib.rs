//! What several programs of this crate share: work of the product's crates that `cargo bench`
//! measures and whose instructions are counted (the merge of replies, a change of `config.json`,
//! and messages on the wire), and what measurements need: statistics, C programs, the description
//! of the machine.

#![forbid(unsafe_code)]

mod config_json;
#[cfg(feature = "measure")]
pub mod machine;
mod merge;
pub mod programs;
pub mod stats;
#[cfg(feature = "measure")]
mod wire;

pub use config_json::ConfigJson;
pub use merge::Merge;
#[cfg(feature = "measure")]
pub use wire::{Session, frames};
