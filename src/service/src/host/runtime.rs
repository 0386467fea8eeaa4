//! Calls of the real runtime that `nrid` makes by itself: with the globals and the environment that
//! the container was created with.

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

/// Variables that matter to a runtime; others (which may hold secrets of the engine) are not kept.
const KEPT: [&str; 5] =
    ["PATH", "XDG_RUNTIME_DIR", "HOME", "LD_LIBRARY_PATH", "DBUS_SESSION_BUS_ADDRESS"];
/// A runtime's call of a few milliseconds that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// How to call a container's runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LowLevelRuntime {
    path: OsText,
    globals: Vec<OsText>,
    environment: Vec<OsText>,
    cwd: OsText,
    root: Option<OsText>,
}

/// What `state` says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct State {
    /// creating, created, running, stopped (and paused, an extension of runc and crun).
    pub status: String,
    /// Process id as the runtime's caller sees it; 0 or absent when it is stopped.
    #[serde(default)]
    pub pid: i32,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// It could not be started.
    #[error("{0}: {1}")]
    Start(PathBuf, #[source] std::io::Error),
    /// It hangs.
    #[error("{0} {1} did not end within {PATIENCE:?}")]
    Hangs(PathBuf, &'static str),
    /// It says why.
    #[error("{path} {verb}: {said}")]
    Failed {
        /// The runtime.
        path: PathBuf,
        /// What it was asked.
        verb: &'static str,
        /// Last line of its stderr.
        said: String,
    },
    /// Its answer is not understood.
    #[error("{0} state: {1}")]
    State(PathBuf, #[source] serde_json::Error),
}

impl LowLevelRuntime {
    /// As the engine calls it, without what belongs to that one call (its log).
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

    /// The program.
    pub fn path(&self) -> &Path {
        self.path.as_path()
    }

    /// Directory that holds a directory for each container: `--root`, or what this runtime takes
    /// without it.
    pub fn root(&self) -> PathBuf {
        match &self.root {
            Some(root) => root.as_path().to_owned(),
            None => default_root(&self.name(), &self.environment),
        }
    }

    /// Whether systemd makes the control groups: `--systemd-cgroup`, or crun's `--cgroup-manager
    /// systemd`.
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

    /// Whether the runtime has a container of this id, without asking it.
    pub fn has(&self, id: &str) -> bool {
        self.root().join(id).symlink_metadata().is_ok()
    }

    /// Base name of the program.
    pub fn name(&self) -> String {
        self.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Asks for its version; what it prints.
    ///
    /// # Errors
    /// It cannot be called, or fails.
    pub async fn version(&self) -> Result<Vec<u8>, RuntimeError> {
        // Globals are for containers; some runtimes make their root directory as soon as they hear
        // of it.
        Self { globals: Vec::new(), ..self.clone() }.call("--version", &[], None).await
    }

    /// Asks for a container's state.
    ///
    /// # Errors
    /// The runtime fails; for an unknown id as well.
    pub async fn state(&self, id: &str) -> Result<State, RuntimeError> {
        let out = self.call("state", &[OsStr::new(id)], None).await?;
        serde_json::from_slice(&out).map_err(|e| RuntimeError::State(self.path().to_owned(), e))
    }

    /// Sets resources.
    ///
    /// # Errors
    /// The runtime refuses them.
    pub async fn update(&self, id: &str, resources: &Value) -> Result<(), RuntimeError> {
        let arguments = [OsStr::new("--resources"), OsStr::new("-"), OsStr::new(id)];
        self.call("update", &arguments, Some(resources.to_string())).await.map(drop)
    }

    /// Kills and removes a container.
    ///
    /// # Errors
    /// The runtime fails.
    pub async fn delete(&self, id: &str) -> Result<(), RuntimeError> {
        self.call("delete", &[OsStr::new("--force"), OsStr::new(id)], None).await.map(drop)
    }

    /// Sends a signal to the container's first process.
    ///
    /// # Errors
    /// The runtime refuses it.
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
        // The folder may be gone by now (Podman's exec folder, a shim's bundle).
        let cwd = self.cwd.as_path();
        command.current_dir(if cwd.is_dir() { cwd } else { Path::new("/") });
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(start)?;
        let stdin = child.stdin.take();
        let feed = async move {
            if let (Some(mut pipe), Some(text)) = (stdin, input) {
                // A runtime that ends without reading says why by itself.
                let _ = pipe.write_all(text.as_bytes()).await;
            }
        };
        let both = async { tokio::join!(feed, child.wait_with_output()).1 };
        let output = timeout(PATIENCE, both)
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

/// Where this runtime keeps its containers when it is not told.
fn default_root(name: &str, environment: &[OsText]) -> PathBuf {
    let environment = Environment::new(environment.iter().map(|v| v.0.clone()).collect());
    let runtime_dir = environment.var("XDG_RUNTIME_DIR").map(Path::new);
    runtime_root(name, &NridOwner::of_this_process(&environment), runtime_dir)
}

/// Global options without `--log` and `--log-format`: our own calls must not write into the
/// engine's log.
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
    fn the_engines_log_is_left_alone() {
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
    fn only_variables_that_matter_are_kept() {
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
