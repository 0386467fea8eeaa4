//! Calls of the low-level runtime by `nrid`, with the global options and the environment of the
//! engine's call that created the container.

use crate::host::{
    descriptors,
    file_access::{self, FileSystem, FileSystemHangs, LOOKUP_TIMEOUT},
    global_options,
    mount_namespace::{self, CallerNamespace, MountNamespace},
    near_files, sys,
};
use nri_files::OsText;
use nri_locate::{Environment, NridOwner, runtime_root};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, statat};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    process::Command,
    time::{Instant, timeout_at},
};

/// Environment variables that a runtime needs. Others are not stored, since they may hold secrets
/// of the engine.
const KEPT_VARIABLES: [&str; 5] =
    ["PATH", "XDG_RUNTIME_DIR", "HOME", "LD_LIBRARY_PATH", "DBUS_SESSION_BUS_ADDRESS"];
/// Time limit of a call of the runtime, which usually takes a few milliseconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How to call a container's runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LowLevelRuntime {
    path: OsText,
    globals: Vec<OsText>,
    /// Variables of the environment of the engine's call that are kept.
    pub environment: Vec<OsText>,
    cwd: OsText,
    root: Option<OsText>,
    /// Mount namespace of the engine's call; `None` if it is that of `nrid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<CallerNamespace>,
}

/// Output of the runtime's `state`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct State {
    /// Status: creating, created, running, stopped, or paused (an extension of runc and crun).
    pub status: String,
    /// Id of the first process in the pid namespace of `nrid`; 0 or absent when the container is
    /// stopped.
    #[serde(default)]
    pub pid: i32,
}

/// Error of a call of the runtime.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime could not be started.
    #[error("{path}: {source}")]
    Start {
        /// Path of the runtime.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The runtime did not end within `TIMEOUT`.
    #[error("{path} {verb} did not end within {TIMEOUT:?}")]
    Hangs {
        /// Path of the runtime.
        path: PathBuf,
        /// The verb that was called.
        verb: &'static str,
    },
    /// The runtime exited with an error.
    #[error("{path} {verb}: {message}")]
    Failed {
        /// Path of the runtime.
        path: PathBuf,
        /// The verb that was called.
        verb: &'static str,
        /// The last line that the runtime wrote to stderr.
        message: String,
    },
    /// The output of `state` cannot be parsed.
    #[error("{path} state: {source}")]
    State {
        /// Path of the runtime.
        path: PathBuf,
        /// Cause of the failure.
        source: serde_json::Error,
    },
}

/// Error of a look-up in the runtime's root directory, which shows neither that a container exists
/// nor that it does not.
#[derive(Debug, thiserror::Error)]
pub enum LookUpError {
    /// The file system did not reply in time.
    #[error(transparent)]
    Hangs(#[from] FileSystemHangs),
    /// The directory cannot be read.
    #[error(transparent)]
    Unreadable(io::Error),
    /// No process was found in the mount namespace of the engine's call.
    #[error("no process is left in its mount namespace")]
    NamespaceLost,
}

impl LowLevelRuntime {
    /// Stores how the engine calls the runtime, without the call's log options.
    pub fn new(
        path: &OsText,
        globals: &[OsText],
        root: Option<&OsText>,
        environment: &[OsText],
        cwd: &OsText,
    ) -> Self {
        let kept = |v: &&OsText| {
            let name = v.0.as_bytes().split(|b| *b == b'=').next().unwrap_or_default();
            KEPT_VARIABLES.iter().any(|k| k.as_bytes() == name)
        };
        Self {
            path: path.clone(),
            globals: global_options::without_log(globals),
            environment: environment.iter().filter(kept).cloned().collect(),
            cwd: cwd.clone(),
            root: root.cloned(),
            namespace: None,
        }
    }

    /// Sets the mount namespace of the engine's call, if it is not that of `nrid`.
    pub fn set_namespace(&mut self, namespace: Option<Arc<MountNamespace>>) {
        self.namespace =
            namespace.map(|open| CallerNamespace { inode: open.inode(), open: Some(open) });
    }

    /// Returns the inode of the mount namespace of the engine's call, if it is not that of `nrid`.
    pub fn namespace_inode(&self) -> Option<u64> {
        self.namespace.as_ref().map(|namespace| namespace.inode)
    }

    /// Returns the mount namespace of the engine's call, if it is open and not that of `nrid`.
    pub fn namespace(&self) -> Option<&Arc<MountNamespace>> {
        self.namespace.as_ref()?.open.as_ref()
    }

    /// Returns the state of the program's file as far as the kernel has it in its caches.
    pub fn cached_file(&self) -> Option<Statx> {
        self.namespace.is_none().then(|| near_files::cached(self.path())).flatten()
    }

    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        self.path.as_path()
    }

    /// Returns the options before the verb, as the engine gave them.
    pub fn global_options(&self) -> &[OsText] {
        &self.globals
    }

    /// Returns the directory that holds a directory for each container: `--root`, or the default of
    /// this runtime.
    pub fn root(&self) -> PathBuf {
        match &self.root {
            Some(root) => root.as_path().to_owned(),
            None => default_root(&self.name(), &self.environment),
        }
    }

    /// Whether systemd creates the control groups: `--systemd-cgroup`, or crun's
    /// `--cgroup-manager systemd`.
    pub fn uses_systemd(&self) -> bool {
        global_options::uses_systemd(&self.globals)
    }

    /// Whether containers get control groups: not with crun's `--cgroup-manager disabled`, which
    /// leaves them in those of the caller.
    pub fn makes_cgroups(&self) -> bool {
        global_options::makes_cgroups(&self.globals)
    }

    /// Opens a path that the engine's call named, such as the bundle.
    ///
    /// # Errors
    /// The path does not exist, or cannot be opened.
    pub fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        match self.namespace() {
            Some(namespace) => namespace.open(path, flags),
            None => Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?),
        }
    }

    /// Whether the runtime's root directory has an entry for this container id, or may have one:
    /// a directory that cannot be read does not show the end of a container.
    pub async fn has(&self, id: &str) -> bool {
        !matches!(self.look_up(id).await, Ok(false))
    }

    /// Whether the runtime's root directory has an entry for this container id.
    ///
    /// # Errors
    /// The directory cannot be read, or hangs.
    pub async fn look_up(&self, id: &str) -> Result<bool, LookUpError> {
        if self.namespace.is_none()
            && let Some(root) = near_files::open_directory(&self.root())
        {
            let found = statat(&root, id, AtFlags::SYMLINK_NOFOLLOW);
            return Self::found(found.map_err(io::Error::from));
        }
        let (runtime, id) = (self.clone(), id.to_owned());
        let file_system = FileSystem::directory(&self.root());
        let look_up = move || runtime.look_up_now(&id);
        file_access::run(file_system, LOOKUP_TIMEOUT, look_up).await?
    }

    /// The same as [`LowLevelRuntime::look_up`], on a thread that may hang.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn look_up_now(&self, id: &str) -> Result<bool, LookUpError> {
        let entry = self.root().join(id);
        let found = match self.namespace() {
            Some(namespace) => namespace.open(&entry, OFlags::PATH | OFlags::NOFOLLOW).map(drop),
            None => entry.symlink_metadata().map(drop),
        };
        let found = Self::found(found)?;
        if !found && self.is_lost() { Err(LookUpError::NamespaceLost) } else { Ok(found) }
    }

    /// Returns what a look-up of an entry shows.
    fn found<T>(entry: io::Result<T>) -> Result<bool, LookUpError> {
        match entry {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(LookUpError::Unreadable(error)),
        }
    }

    /// Whether the mount namespace of the engine's call is neither that of `nrid` nor open.
    fn is_lost(&self) -> bool {
        self.namespace.as_ref().is_some_and(|namespace| namespace.open.is_none())
    }

    /// Returns the base name of the program.
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
    /// The call fails, for example because the id is unknown.
    pub async fn state(&self, id: &str) -> Result<State, RuntimeError> {
        let out = self.call("state", &[OsStr::new(id)], None).await?;
        serde_json::from_slice(&out)
            .map_err(|source| RuntimeError::State { path: self.path().to_owned(), source })
    }

    /// Returns the pid of the first process from `state`; `None` if the call fails or the container
    /// has none.
    pub async fn pid(&self, id: &str) -> Option<i32> {
        let state = self.state(id).await;
        state.ok().map(|state| state.pid).filter(|pid| *pid > 0)
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

    /// Calls a verb with this stdin, and returns stdout.
    async fn call(
        &self,
        verb: &'static str,
        arguments: &[&OsStr],
        input: Option<String>,
    ) -> Result<Vec<u8>, RuntimeError> {
        let deadline = Instant::now() + TIMEOUT;
        let hangs = || RuntimeError::Hangs { path: self.path().to_owned(), verb };
        let start_error = |source| RuntimeError::Start { path: self.path().to_owned(), source };
        let runtime = self.clone();
        let arguments: Vec<OsString> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let has_input = input.is_some();
        let start = move || runtime.command(verb, &arguments, has_input)?.spawn();
        // Waits for the file systems of the program and of the working directory.
        let file_system = FileSystem::directory(containers_directory(self.cwd.as_path()));
        let started = file_access::run(file_system, TIMEOUT, start).await;
        let mut child = started.map_err(|FileSystemHangs| hangs())?.map_err(start_error)?;
        let stdin = child.stdin.take();
        let write_input = async move {
            if let (Some(mut pipe), Some(text)) = (stdin, input) {
                // Ignore EPIPE: a runtime that exits without reading reports the cause itself.
                let _ = pipe.write_all(text.as_bytes()).await;
            }
        };
        let exchange = async { tokio::join!(write_input, child.wait_with_output()).1 };
        let output =
            timeout_at(deadline, exchange).await.map_err(|_| hangs())?.map_err(start_error)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let message = match stderr.lines().rev().find(|l| !l.trim().is_empty()) {
            Some(line) => line.trim().to_owned(),
            None => format!("{}, without a message", output.status),
        };
        Err(RuntimeError::Failed { path: self.path().to_owned(), verb, message })
    }

    /// Returns the command that calls a verb.
    fn command(&self, verb: &str, arguments: &[OsString], has_input: bool) -> io::Result<Command> {
        let mut command = Command::new(self.path());
        command.args(self.globals.iter().map(|g| &g.0)).arg(verb).args(arguments).env_clear();
        for variable in &self.environment {
            let bytes = variable.0.as_bytes();
            if let Some(equals) = bytes.iter().position(|b| *b == b'=') {
                let (name, value) = (&bytes[..equals], &bytes[equals + 1..]);
                command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
            }
        }
        // The directory may have been removed (Podman's exec directory, a shim's bundle).
        let cwd = self.cwd.as_path();
        match self.namespace() {
            Some(namespace) => {
                let directory = CString::new(cwd.as_os_str().as_bytes())?;
                let namespace = namespace.clone();
                sys::before_exec(&mut command, move || {
                    mount_namespace::enter(namespace.descriptors())?;
                    // A directory that does not exist any more leaves the program in `/`.
                    let _ = rustix::process::chdir(directory.as_c_str());
                    Ok(())
                });
            }
            // Also if the namespace is lost: in the namespace of `nrid`, the runtime may still find
            // the container.
            None => {
                command.current_dir(if cwd.is_dir() { cwd } else { Path::new("/") });
            }
        }
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        descriptors::restore_limit_in(&mut command);
        Ok(command)
    }
}

/// Returns the directory in which an engine keeps the working directories of its containers, which
/// are `ID`, or `ID/userdata` under Podman and CRI-O.
fn containers_directory(cwd: &Path) -> &Path {
    cwd.ancestors().nth(2).unwrap_or(cwd)
}

/// Returns the root directory that this runtime uses without `--root`.
fn default_root(name: &str, environment: &[OsText]) -> PathBuf {
    let environment = Environment::new(environment.iter().map(|v| v.0.clone()));
    let runtime_dir = environment.var("XDG_RUNTIME_DIR").map(Path::new);
    runtime_root(name, &NridOwner::of_this_process(&environment), runtime_dir)
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

    #[tokio::test]
    async fn a_root_directory_that_cannot_be_read_does_not_show_the_end_of_a_container() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        std::fs::create_dir_all(dir.path().join("root/c1")).unwrap();
        let runtime = |root: &str| {
            let root = OsText::from(dir.path().join(root).as_os_str());
            LowLevelRuntime::new(&"/usr/bin/runc".into(), &[], Some(&root), &[], &"/".into())
        };
        for (root, id, found) in
            [("root", "c1", Some(true)), ("root", "c2", Some(false)), ("loop", "c1", None)]
        {
            let runtime = runtime(root);
            assert_eq!(
                (runtime.look_up(id).await.ok(), runtime.has(id).await),
                (found, found != Some(false))
            );
        }
        // A record whose mount namespace is not found after a restart.
        let mut value = serde_json::to_value(runtime("root")).unwrap();
        assert_eq!(value.get("namespace"), None, "the field is in records of most engines");
        value["namespace"] = serde_json::json!({"inode": 1});
        let lost: LowLevelRuntime = serde_json::from_value(value.clone()).unwrap();
        assert!(matches!(lost.look_up("c1").await, Ok(true)));
        assert!(matches!(lost.look_up("c2").await, Err(LookUpError::NamespaceLost)));
        assert_eq!(serde_json::to_value(lost).unwrap(), value);
    }

    #[test]
    fn working_directories_of_an_engine_have_one_limit_of_threads() {
        for (cwd, directory) in [
            ("/run/containerd/task/k8s.io/c1", "/run/containerd/task"),
            (
                "/var/lib/storage/overlay-containers/c1/userdata",
                "/var/lib/storage/overlay-containers",
            ),
            ("/", "/"),
        ] {
            assert_eq!(containers_directory(Path::new(cwd)), Path::new(directory));
        }
    }

    #[tokio::test]
    async fn a_root_directory_that_hangs_shows_neither_a_container_nor_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let root = OsText::from(dir.path().as_os_str());
        let runtime =
            LowLevelRuntime::new(&"/usr/bin/runc".into(), &[], Some(&root), &[], &"/".into());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        for _ in 0..file_access::MAX_THREADS {
            let ended = ended.clone();
            let hang = move || drop(ended.lock().map(|ended| ended.recv()));
            let file_system = FileSystem::directory(dir.path());
            file_access::run(file_system, Duration::ZERO, hang).await.unwrap_err();
        }
        assert!(matches!(runtime.look_up("c1").await, Err(LookUpError::Hangs(_))));
        assert!(runtime.has("c1").await);
        drop(end);
        while runtime.look_up("c1").await.is_err() {
            tokio::task::yield_now().await;
        }
        assert!(!runtime.has("c1").await);
    }
}
