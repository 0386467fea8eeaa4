//! Default paths, and the environment variables that override them.

/// Default configuration file.
pub const CONFIG_FILE: &str = "/etc/nri-container-runtime/config.toml";
/// Variable that names another configuration file.
pub const CONFIG_ENV: &str = "NRI_CONTAINER_RUNTIME_CONFIG";
/// Variable that names the real runtime.
pub const RUNTIME_ENV: &str = "NRI_CONTAINER_RUNTIME_PATH";
/// Variable that disables NRI: every verb is a plain call of the real runtime, unless the value of
/// the variable says no.
pub const BYPASS_ENV: &str = "NRI_CONTAINER_RUNTIME_BYPASS";
/// File that disables NRI if it exists: every verb is a plain call of the real runtime.
pub const BYPASS_FILE: &str = "/etc/nri-container-runtime/bypass";
/// Default state directory of root of the host.
pub(crate) const STATE_DIR: &str = "/run/nri-container-runtime";
/// Directories that are searched after those of PATH, which engines may leave unset.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
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
