//! Installation: puts the wrapper into the configuration of engines, and takes it out again. No
//! engine is restarted. For each engine, these files are written:
//!
//! | engine | file | values |
//! |---|---|---|
//! | Docker, iSulad | `daemon.json` | `runtimes`, `default-runtime`, switch of NRI |
//! | containerd | `config.toml`, or an imported file | handlers, default, switch of NRI |
//! | CRI-O | a drop-in of `crio.conf` | handlers, `default_runtime`, `enable_nri` |
//! | Podman | a drop-in of `containers.conf` | `runtimes`, `runtime`, `runtime_supports_…` |
//! | nerdctl | none | |
//! | each | `config.toml` of our own (`own_config`) | the rows below |
//! | each | links to the wrapper | one for each `--runtime` |
//! | each | `installed.json` | what was set, and what it replaced (`record`) |
//!
//! The default is set by `--default` only, and the switch by `--nri ours`. Our own configuration
//! gets `runtime.names.NAME.path` for each `--runtime`, and `engines.ENGINE` for `--nri`. The first
//! installation on a host creates it, with a policy by which plugins have no capabilities
//! (`[[plugin]]`), but not that of a user.
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
