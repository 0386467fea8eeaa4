//! State of the NRI of a running containerd: on or off.
//!
//! containerd's API does not tell: it lists the NRI plugin as loaded whether NRI is on or off (seen
//! with 1.7 and 2.1). So NRI counts as on if containerd listens on the NRI socket, or if
//! containerd's configuration enables NRI without a socket.

use crate::command_line::{absolute, in_root, option_values, root_of};
use glob::glob;
use nri_locate::{PLUGIN_DIR, PLUGIN_SOCKET};
use nri_trust::{MAX_CONFIG_FILE, read_regular_text};
use procfs::process::Process;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

const DEFAULT_FILE: &str = "/etc/containerd/config.toml";
/// Name of the NRI plugin in containerd's configuration.
const PLUGIN: &str = "io.containerd.nri.v1.nri";
/// Largest number of configuration files that are read, since files may import one another without
/// end. Nodes have a few.
const MAX_FILES: usize = 64;

/// State of containerd's own NRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnNri {
    /// NRI is on.
    On,
    /// NRI is off.
    Off,
    /// The configuration does not say: NRI is on since version 2.0, off before; see
    /// [`on_by_default`].
    ByVersion,
}

/// Returns the state of NRI in the containerd with this process id.
pub fn own_nri(pid: i32) -> OwnNri {
    NriConfig::of(pid).state(pid)
}

impl NriConfig {
    /// Returns the state of NRI in the process `pid`, which runs with this configuration.
    pub fn state(&self, pid: i32) -> OwnNri {
        if crate::socket::listening(pid).is_ok_and(|paths| paths.contains(&self.socket_path)) {
            return OwnNri::On;
        }
        // Unless the configuration disables connections, NRI that is on listens on the socket.
        if self.not_loaded || !self.disable_connections {
            return OwnNri::Off;
        }
        match self.disable {
            Some(true) => OwnNri::Off,
            Some(false) => OwnNri::On,
            None => OwnNri::ByVersion,
        }
    }

    /// Reads the configuration of a process; files that cannot be read or parsed count as empty.
    pub fn of(pid: i32) -> Self {
        let mut config = Self::default();
        let Ok(arguments) = Process::new(pid).and_then(|p| p.cmdline()) else { return config };
        let named = option_values(&arguments, &["config", "c"]).first().copied();
        let file = absolute(pid, named.unwrap_or(DEFAULT_FILE).as_ref());
        read_file(&mut config, &root_of(pid), &file, &mut 0);
        config
    }
}

/// Whether NRI is on by default in a version, such as `v2.1.9` or `1.7.24~ds1`.
pub fn on_by_default(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next().unwrap_or_default();
    major.parse::<u32>().is_ok_and(|major| major >= 2)
}

/// Configuration of containerd's NRI plugin, from files of version 2 and 3 (`containerd:
/// internal/nri/config.go`). Files of version 1 cannot configure NRI.
#[derive(Debug, PartialEq, Eq)]
pub struct NriConfig {
    /// Key `disable`; `None` if it is not set, so that the default of the version applies.
    pub disable: Option<bool>,
    /// Whether `disabled_plugins` lists the NRI plugin.
    pub not_loaded: bool,
    /// Whether NRI opens no socket even if it is on.
    pub disable_connections: bool,
    /// Path of the socket.
    pub socket_path: PathBuf,
    /// Directory of the NRI plugins that containerd launches.
    pub plugin_path: PathBuf,
}

impl Default for NriConfig {
    fn default() -> Self {
        Self {
            disable: None,
            not_loaded: false,
            disable_connections: false,
            socket_path: PLUGIN_SOCKET.into(),
            plugin_path: PLUGIN_DIR.into(),
        }
    }
}

/// Adds the settings of a file in `root` and of its imports. `read` counts the files.
fn read_file(config: &mut NriConfig, root: &Path, file: &Path, read: &mut usize) {
    *read += 1;
    let Ok(text) = read_regular_text(&in_root(root, file), MAX_CONFIG_FILE) else { return };
    let Ok(table) = text.parse::<Table>() else { return };
    read_table(config, &table);
    // Settings of imported files override those of the importing file.
    for import in table
        .get("imports")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let pattern = file.parent().unwrap_or(Path::new("/")).join(import);
        let Ok(found) = glob(&in_root(root, &pattern).to_string_lossy()) else { continue };
        for import in found.flatten() {
            if *read < MAX_FILES
                && let Ok(import) = import.strip_prefix(root)
            {
                read_file(config, root, &Path::new("/").join(import), read);
            }
        }
    }
}

/// Adds the settings of one file.
fn read_table(config: &mut NriConfig, table: &Table) {
    let disabled = table.get("disabled_plugins").and_then(Value::as_array).into_iter().flatten();
    if disabled.filter_map(Value::as_str).any(|plugin| plugin == PLUGIN) {
        config.not_loaded = true;
    }
    let Some(nri) = table.get("plugins").and_then(|p| p.get(PLUGIN)) else { return };
    if let Some(disable) = nri.get("disable").and_then(Value::as_bool) {
        config.disable = Some(disable);
    }
    if let Some(disable) = nri.get("disable_connections").and_then(Value::as_bool) {
        config.disable_connections = disable;
    }
    if let Some(path) = nri.get("socket_path").and_then(Value::as_str) {
        config.socket_path = path.into();
    }
    if let Some(path) = nri.get("plugin_path").and_then(Value::as_str) {
        config.plugin_path = path.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nri_is_on_by_default_since_2_0() {
        for (version, on) in [
            ("v2.1.9", true),
            ("2.0.0-rc.1", true),
            ("1.7.24~ds1", false),
            ("v1.6.20", false),
            ("", false),
        ] {
            assert_eq!(on_by_default(version), on, "{version}");
        }
    }

    #[test]
    fn imports_override_the_file_and_import_cycles_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("conf.d")).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let section = "[plugins.'io.containerd.nri.v1.nri']\n";
        write(
            "main.toml",
            &format!(
                "imports = ['conf.d/*.toml']\n{section}disable = true\nsocket_path = '/main.sock'\n"
            ),
        );
        write("conf.d/a.toml", &format!("imports = ['/main.toml']\n{section}disable = false\n"));
        write("conf.d/b.toml", "this is not TOML");
        let mut config = NriConfig::default();
        read_file(&mut config, dir.path(), Path::new("/main.toml"), &mut 0);
        assert_eq!(
            config,
            NriConfig {
                disable: Some(false),
                socket_path: "/main.sock".into(),
                ..NriConfig::default()
            }
        );
        let mut unchanged = NriConfig::default();
        read_file(&mut unchanged, dir.path(), Path::new("/missing.toml"), &mut 0);
        assert_eq!(unchanged, NriConfig::default());
    }
}
