//! Calls of the low-level runtime by `nrid`, with the global options and the environment with which
//! the engine created the container.

use nri_control::OsText;
use nri_locate::{Environment, NridOwner, runtime_root};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

/// Variables that a runtime needs; others may hold secrets of the engine and are not stored.
const KEPT: [&str; 5] =
    ["PATH", "XDG_RUNTIME_DIR", "HOME", "LD_LIBRARY_PATH", "DBUS_SESSION_BUS_ADDRESS"];
/// Time limit of a call of the runtime, which usually takes a few milliseconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How to call a container's runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LowLevelRuntime {
    path: OsText,
    globals: Vec<OsText>,
    environment: Vec<OsText>,
    cwd: OsText,
    root: Option<OsText>,
}

/// Output of the runtime's `state`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct State {
    /// Status: creating, created, running, stopped, or paused (an extension of runc and crun).
    pub status: String,
    /// Process id as the runtime's caller sees it; 0 or absent when it is stopped.
    #[serde(default)]
    pub pid: i32,
}

/// Error of a call of the runtime.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime could not be started.
    #[error("{0}: {1}")]
    Start(PathBuf, #[source] std::io::Error),
    /// The runtime did not end within `TIMEOUT`.
    #[error("{0} {1} did not end within {TIMEOUT:?}")]
    Hangs(PathBuf, &'static str),
    /// The runtime exited with an error.
    #[error("{path} {verb}: {said}")]
    Failed {
        /// Path of the runtime.
        path: PathBuf,
        /// The verb that was called.
        verb: &'static str,
        /// Last line of its stderr.
        said: String,
    },
    /// The output of `state` cannot be parsed.
    #[error("{0} state: {1}")]
    State(PathBuf, #[source] serde_json::Error),
}

impl LowLevelRuntime {
    /// Stores how the engine calls the runtime, without the log options of that one call.
    pub fn new(
        path: &OsText,
        globals: &[OsText],
        root: Option<&OsText>,
        environment: &[OsText],
        cwd: &OsText,
    ) -> Self {
        let kept = |v: &&OsText| {
            let name = v.0.as_bytes().split(|b| *b == b'=').next().unwrap_or_default();
            KEPT.iter().any(|k| k.as_bytes() == name)
        };
        Self {
            path: path.clone(),
            globals: without_log(globals),
            environment: environment.iter().filter(kept).cloned().collect(),
            cwd: cwd.clone(),
            root: root.cloned(),
        }
    }

    /// Path of the program.
    pub fn path(&self) -> &Path {
        self.path.as_path()
    }

    /// Directory that holds a directory for each container: `--root`, or the default of this
    /// runtime.
    pub fn root(&self) -> PathBuf {
        match &self.root {
            Some(root) => root.as_path().to_owned(),
            None => default_root(&self.name(), &self.environment),
        }
    }

    /// Whether systemd creates the control groups: `--systemd-cgroup`, or crun's
    /// `--cgroup-manager systemd`.
    pub fn uses_systemd(&self) -> bool {
        let mut before: &[u8] = b"";
        self.globals.iter().any(|global| {
            let text = global.0.as_bytes();
            let manager = std::mem::replace(&mut before, text);
            let is_manager = |name: &[u8]| matches!(name, b"--cgroup-manager" | b"-cgroup-manager");
            matches!(
                text,
                b"--systemd-cgroup" | b"-systemd-cgroup" | b"--systemd-cgroup=true" | b"-s"
            ) || matches!(text, b"--cgroup-manager=systemd" | b"-cgroup-manager=systemd")
                || (text == b"systemd" && is_manager(manager))
        })
    }

    /// Whether the runtime's root directory has an entry for this container id.
    pub fn has(&self, id: &str) -> bool {
        self.root().join(id).symlink_metadata().is_ok()
    }

    /// Base name of the program.
    pub fn name(&self) -> String {
        self.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the output of `--version`.
    ///
    /// # Errors
    /// The call fails.
    pub async fn version(&self) -> Result<Vec<u8>, RuntimeError> {
        // Without global options: some runtimes create their root directory if they get `--root`.
        Self { globals: Vec::new(), ..self.clone() }.call("--version", &[], None).await
    }

    /// Calls `state`.
    ///
    /// # Errors
    /// The call fails; also for an unknown id.
    pub async fn state(&self, id: &str) -> Result<State, RuntimeError> {
        let out = self.call("state", &[OsStr::new(id)], None).await?;
        serde_json::from_slice(&out).map_err(|e| RuntimeError::State(self.path().to_owned(), e))
    }

    /// Calls `update` with these resources.
    ///
    /// # Errors
    /// The call fails, or the runtime refuses the resources.
    pub async fn update(&self, id: &str, resources: &Value) -> Result<(), RuntimeError> {
        let arguments = [OsStr::new("--resources"), OsStr::new("-"), OsStr::new(id)];
        self.call("update", &arguments, Some(resources.to_string())).await.map(drop)
    }

    /// Kills and removes a container with `delete --force`.
    ///
    /// # Errors
    /// The call fails.
    pub async fn delete(&self, id: &str) -> Result<(), RuntimeError> {
        self.call("delete", &[OsStr::new("--force"), OsStr::new(id)], None).await.map(drop)
    }

    /// Sends a signal to the container's init process with `kill`.
    ///
    /// # Errors
    /// The call fails.
    pub async fn kill(&self, id: &str, signal: &str) -> Result<(), RuntimeError> {
        self.call("kill", &[OsStr::new(id), OsStr::new(signal)], None).await.map(drop)
    }

    async fn call(
        &self,
        verb: &'static str,
        arguments: &[&OsStr],
        input: Option<String>,
    ) -> Result<Vec<u8>, RuntimeError> {
        let start = |e| RuntimeError::Start(self.path().to_owned(), e);
        let mut command = Command::new(self.path());
        command.args(self.globals.iter().map(|g| &g.0)).arg(verb).args(arguments).env_clear();
        for variable in &self.environment {
            let bytes = variable.0.as_bytes();
            if let Some(at) = bytes.iter().position(|b| *b == b'=') {
                command.env(OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]));
            }
        }
        // The directory may have been removed (Podman's exec directory, a shim's bundle).
        let cwd = self.cwd.as_path();
        command.current_dir(if cwd.is_dir() { cwd } else { Path::new("/") });
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(start)?;
        let stdin = child.stdin.take();
        let feed = async move {
            if let (Some(mut pipe), Some(text)) = (stdin, input) {
                // Ignore EPIPE: a runtime that exits without reading reports the cause itself.
                let _ = pipe.write_all(text.as_bytes()).await;
            }
        };
        let both = async { tokio::join!(feed, child.wait_with_output()).1 };
        let output = timeout(TIMEOUT, both)
            .await
            .map_err(|_| RuntimeError::Hangs(self.path().to_owned(), verb))?
            .map_err(start)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let said = stderr
            .lines()
            .rev()
            .find(|l| !l.trim().is_empty())
            .unwrap_or("no message")
            .trim()
            .to_owned();
        Err(RuntimeError::Failed { path: self.path().to_owned(), verb, said })
    }
}

/// Root directory that this runtime uses without `--root`.
fn default_root(name: &str, environment: &[OsText]) -> PathBuf {
    let environment = Environment::new(environment.iter().map(|v| v.0.clone()).collect());
    let runtime_dir = environment.var("XDG_RUNTIME_DIR").map(Path::new);
    runtime_root(name, &NridOwner::of_this_process(&environment), runtime_dir)
}

/// Returns the global options without `--log` and `--log-format`: calls of `nrid` must not write
/// into the engine's log.
fn without_log(globals: &[OsText]) -> Vec<OsText> {
    let mut kept = Vec::new();
    let mut rest = globals.iter();
    while let Some(option) = rest.next() {
        let bytes = option.0.as_bytes();
        let name =
            bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-")).unwrap_or_default();
        match name {
            b"log" | b"log-format" => drop(rest.next()),
            _ if name.starts_with(b"log=") || name.starts_with(b"log-format=") => {}
            _ => kept.push(option.clone()),
        }
    }
    kept
}

impl From<&LowLevelRuntime> for OsString {
    fn from(runtime: &LowLevelRuntime) -> Self {
        runtime.path.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<OsText> {
        list.iter().map(|t| OsText::from(*t)).collect()
    }

    #[test]
    fn log_options_of_the_engine_are_removed() {
        let given = texts(&[
            "--root",
            "/r",
            "--log",
            "/l",
            "--log-format=json",
            "-log=/x",
            "--systemd-cgroup",
            "--log-level",
            "debug",
        ]);
        assert_eq!(
            without_log(&given),
            texts(&["--root", "/r", "--systemd-cgroup", "--log-level", "debug"])
        );
    }

    #[test]
    fn only_variables_that_a_runtime_needs_are_stored() {
        let runtime = LowLevelRuntime::new(
            &"/usr/bin/crun".into(),
            &[],
            None,
            &texts(&["PATH=/bin", "SECRET=1", "PATHS=2", "HOME=/root"]),
            &"/".into(),
        );
        assert_eq!(runtime.environment, texts(&["PATH=/bin", "HOME=/root"]));
        assert_eq!(runtime.root(), Path::new("/run/crun"));
    }
}
