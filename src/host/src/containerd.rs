//! State of the NRI of a running containerd.
//!
//! The API lists the NRI plugin as loaded in either case (seen with 1.7 and 2.1). So NRI is on if
//! the process listens on the NRI socket, or if its configuration enables NRI without a socket.

use glob::glob;
use nri_locate::{PLUGIN_DIR, PLUGIN_SOCKET};
use procfs::process::Process;
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

const DEFAULT_FILE: &str = "/etc/containerd/config.toml";
/// Name of NRI among containerd's plugins.
const PLUGIN: &str = "io.containerd.nri.v1.nri";
/// Largest number of files: files that import one another must not cause a loop.
const MAX_FILES: usize = 64;

/// State of containerd's own NRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnNri {
    /// NRI is on.
    On,
    /// NRI is off.
    Off,
    /// The configuration has no setting: on since 2.0, off before. See [`on_by_default`].
    ByVersion,
}

/// Returns the state of the NRI of the containerd of this process.
pub fn own_nri(pid: i32) -> OwnNri {
    NriConfig::of(pid).is_on(pid)
}

impl NriConfig {
    /// Whether NRI is on in the process of this configuration.
    pub fn is_on(&self, pid: i32) -> OwnNri {
        if crate::socket::listening(pid).is_ok_and(|paths| paths.contains(&self.socket_path)) {
            return OwnNri::On;
        }
        // NRI is off: with NRI on, the process would listen on the socket.
        if self.not_loaded || !self.disable_connections {
            return OwnNri::Off;
        }
        match self.disable {
            Some(true) => OwnNri::Off,
            Some(false) => OwnNri::On,
            None => OwnNri::ByVersion,
        }
    }

    /// Reads the configuration; files that cannot be read or parsed count as empty.
    pub fn of(pid: i32) -> Self {
        let mut config = Self::default();
        let Ok(arguments) = Process::new(pid).and_then(|p| p.cmdline()) else { return config };
        let named = config_file(&arguments).unwrap_or_else(|| DEFAULT_FILE.into());
        // The path in the mount namespace of the process, relative to its working directory.
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_else(|_| "/".into());
        let (file, root) = (cwd.join(named), PathBuf::from(format!("/proc/{pid}/root")));
        take_file(&mut config, &root, &file, &mut 0);
        config
    }
}

/// Whether NRI is on in this version, such as `v2.1.9` or `1.7.24~ds1`, unless the configuration
/// says otherwise.
pub fn on_by_default(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next().unwrap_or_default();
    major.parse::<u32>().is_ok_and(|major| major >= 2)
}

/// Configuration of the NRI plugin. Keys of version 2 and 3 of the file (`containerd:
/// internal/nri/config.go`); version 1 had no NRI of this kind.
#[derive(Debug, PartialEq, Eq)]
pub struct NriConfig {
    /// `None` if not configured: the default of the version.
    pub disable: Option<bool>,
    /// The plugin is disabled.
    pub not_loaded: bool,
    /// NRI is on without a socket.
    pub disable_connections: bool,
    /// Path of the socket.
    pub socket_path: PathBuf,
    /// Directory of the plugins that it launches.
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

/// `--config FILE`, as containerd's command line takes it.
fn config_file(arguments: &[String]) -> Option<PathBuf> {
    let mut arguments = arguments.iter().skip(1);
    while let Some(argument) = arguments.next() {
        let name = argument.trim_start_matches('-');
        if name == argument {
            continue;
        }
        match name.split_once('=') {
            Some(("config" | "c", file)) => return Some(file.into()),
            None if name == "config" || name == "c" => return arguments.next().map(PathBuf::from),
            _ => {}
        }
    }
    None
}

fn take_file(config: &mut NriConfig, root: &Path, file: &Path, read: &mut usize) {
    *read += 1;
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let Ok(text) = fs::read_to_string(below(file)) else { return };
    let Ok(table) = text.parse::<Table>() else { return };
    take_table(config, &table);
    // Imported files override.
    for import in table
        .get("imports")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let pattern = file.parent().unwrap_or(Path::new("/")).join(import);
        let Ok(found) = glob(&below(&pattern).to_string_lossy()) else { continue };
        for import in found.flatten() {
            if *read < MAX_FILES
                && let Ok(import) = import.strip_prefix(root)
            {
                take_file(config, root, &Path::new("/").join(import), read);
            }
        }
    }
}

fn take_table(config: &mut NriConfig, table: &Table) {
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
    fn the_config_option_is_found_in_every_form() {
        for (line, expected) in [
            ("containerd -c /a.toml", Some("/a.toml")),
            ("containerd --log-level debug --config=/a.toml", Some("/a.toml")),
            ("containerd --config /a.toml", Some("/a.toml")),
            ("containerd -config /a.toml", Some("/a.toml")),
            ("containerd", None),
            ("containerd config", None),
            ("containerd -c", None),
        ] {
            let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(config_file(&arguments), expected.map(PathBuf::from), "{line}");
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
        write("conf.d/b.toml", "this is no TOML");
        let mut config = NriConfig::default();
        take_file(&mut config, dir.path(), Path::new("/main.toml"), &mut 0);
        assert_eq!(
            config,
            NriConfig {
                disable: Some(false),
                socket_path: "/main.sock".into(),
                ..NriConfig::default()
            }
        );
        let mut untouched = NriConfig::default();
        take_file(&mut untouched, dir.path(), Path::new("/missing.toml"), &mut 0);
        assert_eq!(untouched, NriConfig::default());
    }
}
