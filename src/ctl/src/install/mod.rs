//! Installation: puts the wrapper into the configuration of engines, and takes it out again. No
//! engine is restarted.
//!
//! `engines` has the files of each engine and the values that it needs in them; `plan` sets these
//! values, and `uninstall` removes them, with the text edits of `editing`; `write` writes the
//! files. Start from `command`.

mod command;
mod configured;
mod containers;
mod editing;
mod engines;
mod error;
mod existing;
mod install_root;
mod own_config;
mod plan;
mod record;
mod records;
mod report;
mod runtimes;
mod uninstall;
mod version;
mod write;

pub(crate) use command::{Install, Uninstall};
pub(crate) use configured::{
    ConfiguredEngine, WrapperUsers, calls_wrapper, configured, recorded_engines, wrapper_users,
};
pub(crate) use engines::kind::TargetEngine;
pub(crate) use error::InstallError;
pub(crate) use install_root::InstallRoot;
pub(crate) use records::records;
pub(crate) use runtimes::DEFAULT_NAME;
