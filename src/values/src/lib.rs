//! Text from and for people: sizes and times in configurations, rules and annotations, messages
//! about values that are wrong, and untrusted text made safe for a terminal.
//!
//! All programs use these functions, so that the same text means the same everywhere. Start from
//! [`parse_size`], [`parse_duration`] and [`reworded`].

#![forbid(unsafe_code)]

mod duration;
mod nearest;
mod printable;
mod size;
#[cfg(feature = "toml")]
mod toml_mistake;
mod wording;

pub use duration::{InvalidDuration, parse_duration};
pub use nearest::nearest;
pub use printable::printable;
pub use size::{InvalidSize, Letters, parse_size};
#[cfg(feature = "toml")]
pub use toml_mistake::{TomlMistake, UnknownKey, line_and_column, toml_value};
pub use wording::{Words, reworded};
