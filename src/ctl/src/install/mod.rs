//! Installation: puts the wrapper into the configuration of engines, and takes it out again. No
//! engine is restarted.
//!
//! `engines` lists the values that each file of an engine must have. From these values and the
//! manifest `planning` computes the new contents of every file, with the text edits of `editing`,
//! and then writes the files. Start from `command`.

mod command;
mod configured;
mod containers;
mod editing;
mod engines;
mod error;
mod existing;
mod install_root;
mod own_config;
mod planning;
mod records;
mod runtimes;
mod version;

pub(crate) use command::{Install, Uninstall};
pub(crate) use configured::{
    ConfiguredEngine, WrapperUsers, calls_wrapper, configured, recorded_engines, wrapper_users,
};
pub(crate) use engines::kind::TargetEngine;
pub(crate) use error::InstallError;
pub(crate) use install_root::InstallRoot;
pub(crate) use records::records;
pub(crate) use runtimes::DEFAULT_NAME;
