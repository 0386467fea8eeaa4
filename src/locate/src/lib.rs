//! Finds the configuration file, the state directory, the programs of this project and the real
//! runtime, and checks whether break-glass is on.
//!
//! The wrapper, the hook, `nrid` and `nrictl` must find the same paths, so they all use this crate.
//! It starts no process and opens no socket. Start from [`LoadedConfig::read`].

#![forbid(unsafe_code)]

mod break_glass;
mod config_file;
mod environment;
mod missing;
mod own_programs;
mod paths;
mod plugin_dirs;
mod reach;
mod reference;
mod root;
mod runtime;
mod search;
mod state_dir;
mod user_dirs;

pub use break_glass::{BreakGlass, BreakGlassHint, NotByOperator, break_glass, break_glass_file};
/// For programs that do not depend on `nri-trust`.
pub use nri_trust::{MAX_CONFIG_FILE, Owners, read_regular, read_regular_text};

pub use config_file::{ConfigFileError, LoadedConfig, named_config_file, touch};
pub use environment::{Environment, absolute, working_dir};
pub use missing::{MissingPath, missing_paths};
pub use own_programs::{HOOK, NRID, WASM_HOST, find_installed, find_own_program, own_program_dirs};
pub use paths::{
    BYPASS_ENV, BYPASS_FILE, CONFIG_ENV, CONFIG_FILE, DEFAULT_RUNTIMES, LIBEXEC_DIR,
    PLUGIN_CONFIG_DIR, PLUGIN_DIR, PLUGIN_SOCKET, RUNTIME_ENV, SEARCH_PATH,
};
pub use plugin_dirs::PluginDirs;
pub use reach::{ANSWER_TIMEOUT, Answers, read_in_time};
pub use reference::configuration_reference;
pub use root::resolved_root;
pub use runtime::{RuntimeNotFound, find_runtime, runtime_candidates};
pub use search::{can_run, search_dirs, standard_dirs};
pub use state_dir::{NridOwner, runtime_root};
pub use user_dirs::UserDirs;
