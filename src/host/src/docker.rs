//! The configuration of a running dockerd: where its API is, and NRI. NRI is off unless `nri-opts`
//! in `daemon.json` or on the command line enables it, and has no socket by default (`moby:
//! daemon/pkg/opts/nri_opts.go`).

use crate::{
    command_line::{absolute, in_root, option_values, root_of},
    daemon_json::read,
    process::has_our_mounts,
};
use procfs::process::Process;
use serde::Deserialize;
use std::path::{Path, PathBuf};

const DEFAULT_FILE: &str = "/etc/docker/daemon.json";
/// Sockets of the API, if no other is named: that of systemd, and that of dockerd.
const DEFAULT_SOCKETS: [&str; 2] = ["/run/docker.sock", "/var/run/docker.sock"];

/// The part of `daemon.json` about the API.
#[derive(Default, Deserialize)]
struct ApiJson {
    #[serde(default)]
    hosts: Vec<String>,
}

/// The API of a dockerd.
#[derive(Debug, PartialEq, Eq)]
pub struct DockerApi {
    /// Its unix socket, for this process.
    pub socket: PathBuf,
    /// The default runtime on the command line, if it is there.
    pub default_runtime: Option<String>,
}

impl DockerApi {
    /// Reads the configuration of a process.
    pub fn of(pid: i32) -> Self {
        let arguments = Process::new(pid).and_then(|p| p.cmdline()).unwrap_or_default();
        let named = read::<ApiJson>(&daemon_json(pid, &arguments)).hosts;
        let named = named.iter().map(String::as_str);
        let named = named.chain(option_values(&arguments, &["host", "H"]));
        let named = named.filter_map(|host| host.strip_prefix("unix://"));
        let mut named = named.filter(|path| path.starts_with('/')).map(Path::new);
        let here = |path: &Path| {
            if has_our_mounts(pid) { path.to_owned() } else { in_root(&root_of(pid), path) }
        };
        let [first, second] = DEFAULT_SOCKETS.map(|path| here(path.as_ref()));
        let usual = if first.exists() { first } else { second };
        let default_runtime = option_values(&arguments, &["default-runtime"]);
        Self {
            socket: named.next().map_or(usual, here),
            default_runtime: default_runtime.last().map(|name| (*name).to_owned()),
        }
    }
}

/// Returns the path of the `daemon.json` of a process, for this process.
fn daemon_json(pid: i32, arguments: &[String]) -> PathBuf {
    let named = option_values(arguments, &["config-file"]).first().copied();
    in_root(&root_of(pid), &absolute(pid, named.unwrap_or(DEFAULT_FILE).as_ref()))
}

/// The part of `daemon.json` about NRI.
#[derive(Default, Deserialize)]
struct DaemonJson {
    #[serde(default, rename = "nri-opts")]
    nri: NriOptions,
}

/// Configuration of dockerd's NRI.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct NriOptions {
    /// Whether NRI is on.
    pub(crate) enable: bool,
    /// Directory of the NRI plugins that dockerd launches.
    pub(crate) plugin_path: PathBuf,
    /// Path of the socket for plugins; empty if there is none.
    pub(crate) socket_path: PathBuf,
}

impl Default for NriOptions {
    fn default() -> Self {
        Self {
            enable: false,
            plugin_path: "/usr/libexec/docker/nri-plugins".into(),
            socket_path: PathBuf::new(),
        }
    }
}

impl NriOptions {
    /// Applies the value of a flag `--nri-opts`, such as `enable=true,socket-path=/run/x.sock`.
    fn apply(&mut self, flag: &str) {
        for field in flag.split(',') {
            match field.split_once('=').unwrap_or((field, "")) {
                // The values that Go's `strconv.ParseBool` reads as true.
                ("enable", value) => {
                    self.enable = ["", "1", "t", "T", "true", "TRUE", "True"].contains(&value);
                }
                ("plugin-path", path) => self.plugin_path = path.into(),
                ("socket-path", path) => self.socket_path = path.into(),
                _ => {}
            }
        }
    }

    /// Reads the configuration of a process; a file that cannot be read or parsed counts as empty.
    pub(crate) fn of(pid: i32) -> Self {
        let arguments = Process::new(pid).and_then(|p| p.cmdline()).unwrap_or_default();
        let mut options = read::<DaemonJson>(&daemon_json(pid, &arguments)).nri;
        option_values(&arguments, &["nri-opts"]).into_iter().for_each(|flag| options.apply(flag));
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nri_is_on_if_the_file_or_a_flag_enables_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("daemon.json");
        let on = |socket: &str, plugin_path: Option<&str>| NriOptions {
            enable: true,
            socket_path: socket.into(),
            plugin_path: plugin_path.unwrap_or("/usr/libexec/docker/nri-plugins").into(),
        };
        let off = NriOptions::default;
        let both = r#"{"nri-opts": {"enable": true, "socket-path": "/s", "plugin-path": "/p"}}"#;
        for (text, flag, expected) in [
            ("", "", off()),
            (r#"{"debug": true}"#, "", off()),
            (r#"{"nri-opts": 3}"#, "", off()),
            ("\u{feff}{\"nri-opts\": {\"enable\": true}}", "", on("", None)),
            (both, "", on("/s", Some("/p"))),
            ("{}", "enable,socket-path=/s", on("/s", None)),
            ("{}", "enable=true,plugin-path=/p,plugin-config-path=/c", on("", Some("/p"))),
            (both, "enable=false", NriOptions { enable: false, ..on("/s", Some("/p")) }),
        ] {
            std::fs::write(&file, text).unwrap();
            let mut options = read::<DaemonJson>(&file).nri;
            if !flag.is_empty() {
                options.apply(flag);
            }
            assert_eq!(options, expected, "{text} {flag}");
        }
        assert_eq!(read::<DaemonJson>(&dir.path().join("missing")).nri, off());
    }
}
