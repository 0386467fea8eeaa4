//! Default paths, and the environment variables that override them.

pub use nri_passthrough::names::{
    CONFIG_ENV, CONFIG_FILE, DEFAULT_RUNTIMES, RUNTIME_ENV, SEARCH_PATH,
};

/// Variable that disables NRI: every verb is a plain call of the real runtime, unless the variable
/// is empty or 0.
pub const BYPASS_ENV: &str = "NRI_CONTAINER_RUNTIME_BYPASS";
/// File that disables NRI if it exists: every verb is a plain call of the real runtime.
pub const BYPASS_FILE: &str = "/etc/nri-container-runtime/bypass";
/// Directory of `nrid` and the hook, if they are not in the directory of the wrapper.
pub const LIBEXEC_DIR: &str = "/usr/libexec/nri-container-runtime";
/// Default plugin directory of all NRI implementations, engines included.
pub const PLUGIN_DIR: &str = "/opt/nri/plugins";
/// Socket that external NRI plugins connect to by default.
pub const PLUGIN_SOCKET: &str = "/var/run/nri/nri.sock";
