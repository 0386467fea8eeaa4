//! Names by which the wrapper finds its configuration, `nrid` and the real runtime.

/// Default configuration file.
pub const CONFIG_FILE: &str = "/etc/nri-container-runtime/config.toml";
/// Variable that names another configuration file.
pub const CONFIG_ENV: &str = "NRI_CONTAINER_RUNTIME_CONFIG";
/// Variable that names the real runtime.
pub const RUNTIME_ENV: &str = "NRI_CONTAINER_RUNTIME_PATH";
/// Directories that are searched after those of PATH, which engines may leave unset.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Prefix of links to the wrapper: `nri-crun` runs crun.
pub const NAME_PREFIX: &str = "nri-";
/// Rest of the wrapper's own name (`nri-container-runtime`) after the prefix. No runtime has this
/// name.
pub const OWN_NAME: &str = "container-runtime";
/// Default state directory of root of the host.
pub const STATE_DIR: &str = "/run/nri-container-runtime";
/// Directory of the exec markers in the state directory.
pub const EXEC_DIR: &str = "exec";
/// Control socket of `nrid`, in the state directory.
pub const CONTROL_SOCKET: &str = "control.sock";
/// Name of the OCI config in a bundle.
pub const CONFIG_JSON: &str = "config.json";
/// Variable that disables NRI: every verb is a plain call of the real runtime, unless the value of
/// the variable says no. This crate leaves every call with the variable to the wrapper.
pub const BYPASS_ENV: &str = "NRI_CONTAINER_RUNTIME_BYPASS";
/// File that disables NRI if it exists: every verb is a plain call of the real runtime.
pub const BYPASS_FILE: &str = "/etc/nri-container-runtime/bypass";
