//! Default paths, and the environment variables that override them.

pub use nri_passthrough::names::{
    BYPASS_ENV, BYPASS_FILE, CONFIG_ENV, CONFIG_FILE, RUNTIME_ENV, SEARCH_PATH,
};

/// Real runtimes to try, in order, if the configuration names none.
pub const DEFAULT_RUNTIMES: [&str; 3] = ["runc", "crun", "youki"];
/// Directory of `nrid` and the hook, if they are not in the directory of the wrapper.
pub const LIBEXEC_DIR: &str = "/usr/libexec/nri-container-runtime";
/// Default plugin directory of all NRI implementations, engines included.
pub const PLUGIN_DIR: &str = "/opt/nri/plugins";
/// Directory of the plugins that only `nrid` launches, links that `nrictl plugin enable` makes.
pub(crate) const ENABLED_PLUGIN_DIR: &str = "/etc/nri-container-runtime/plugins";
/// Default directory of the configuration of launched plugins.
pub const PLUGIN_CONFIG_DIR: &str = "/etc/nri/conf.d";
/// Socket that external NRI plugins connect to by default.
pub const PLUGIN_SOCKET: &str = "/var/run/nri/nri.sock";
