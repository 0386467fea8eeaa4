//! Installation: puts the wrapper into the configuration of engines, and takes it out again. No
//! engine is restarted.
//!
//! An engine's module says which values which file must have (`engines`). `planning` decides from
//! that and from the manifest what every file will be, with the text edits of `editing`, and
//! performs it. Start from `command`.

mod command;
mod editing;
mod engines;
mod error;
mod install_root;
mod own_config;
mod planning;
mod runtimes;
mod version;

pub(crate) use command::{Install, Uninstall};
pub(crate) use error::InstallError;
