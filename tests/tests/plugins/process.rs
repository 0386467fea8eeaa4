//! Plugins as processes: launched, or started with the path of a socket.

use crate::{
    pods::Case,
    replies::{Reply, replies},
    rows::{Row, Start},
    runtime::{PluginSession, TIMEOUT},
};
use command_fds::{CommandFdExt, FdMapping};
use nri_api::EventMask;
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tokio::net::{UnixListener, UnixStream};

/// A plugin that runs, with a session for each of its connections, in the order of their indices.
pub(crate) struct RunningPlugin {
    sessions: Vec<PluginSession>,
    process: Child,
    _socket: Option<tempfile::TempDir>,
}

/// Returns the path of a shipped plugin, which is built beside the tests.
pub(crate) fn ours(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join(format!("nri-{name}"));
    assert!(
        program.exists(),
        "{} is missing: build it with `cargo build --workspace --bins`",
        program.display()
    );
    program
}

/// Copies the files below `$1` over `/`, in a mount namespace in which their directories are empty
/// file systems, and becomes a program.
const WITH_FILES: &str = r#"root=$1; shift
for top in etc opt usr/share; do
  [ -e "$root/$top" ] || continue
  mount -t tmpfs none "/$top" && cp -a "$root/$top/." "/$top/" || exit
done
exec "$@""#;

/// Whether this process may mount file systems, which rows with files need.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Starts a plugin and opens its sessions. It sees the files of its row in `dir`.
pub(crate) async fn start(row: &Row, program: &Path, dir: &Path) -> RunningPlugin {
    let mut command = match row.files {
        None => Command::new(program),
        Some(write) => {
            let root = root(dir);
            write(&root);
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c", WITH_FILES, "sh"]);
            command.arg(root).arg(program);
            command
        }
    };
    command.args((row.arguments)(dir)).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    command.env("PATH", "/usr/bin:/bin");
    match row.start {
        Start::Launched => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let socket = theirs.into_std().unwrap();
            command.env("NRI_PLUGIN_NAME", row.name).env("NRI_PLUGIN_IDX", "10");
            command.env("NRI_PLUGIN_SOCKET", "3");
            let mapping = FdMapping { parent_fd: socket.into(), child_fd: 3 };
            let process = command.fd_mappings(vec![mapping]).unwrap().spawn().unwrap();
            drop(command); // closes the plugin's end of the socket in this process
            let session = PluginSession::open(ours, row.config).await;
            RunningPlugin { sessions: vec![session], process, _socket: None }
        }
        Start::External { connections } => {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("nri.sock");
            let listener = UnixListener::bind(&path).unwrap();
            let process = command.arg("-socket-path").arg(&path).spawn().unwrap();
            let mut sessions = Vec::new();
            for _ in 0..connections {
                let accepted = tokio::time::timeout(TIMEOUT, listener.accept()).await;
                let (stream, _) = accepted.expect("the plugin connects").unwrap();
                sessions.push(PluginSession::open(stream, row.config).await);
            }
            sessions.sort_by(|a, b| a.index.cmp(&b.index));
            RunningPlugin { sessions, process, _socket: Some(dir) }
        }
    }
}

/// Directory of the files that a plugin finds below `/`.
pub(crate) fn root(dir: &Path) -> PathBuf {
    dir.join("root")
}

impl RunningPlugin {
    /// Returns index and events of each session.
    pub(crate) fn subscriptions(&self) -> Vec<(String, EventMask)> {
        self.sessions.iter().map(|session| (session.index.clone(), session.events)).collect()
    }

    /// Sends the events of a pod's life to each session, and returns the replies.
    pub(crate) async fn replies(&self, case: &Case) -> Vec<Reply> {
        let mut found = Vec::new();
        for session in &self.sessions {
            found.extend(replies(session.plugin(), session.events, case).await);
        }
        found
    }
}

impl Drop for RunningPlugin {
    fn drop(&mut self) {
        // It has ended if its last session has.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
