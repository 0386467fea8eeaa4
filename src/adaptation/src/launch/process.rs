//! Process of a launched plugin: start with a socket as fd 3, stop, exit status.
//!
//! Privileges are dropped by the launcher ([`crate::launch::launcher`]), which this process starts
//! and which then executes the plugin's program. Sessions ([`crate::session`]) and restarts
//! ([`crate::launch::supervisor`]) are not handled here.

use crate::config::AdaptationConfig;
use crate::launch::cgroup::PluginCgroup;
use crate::launch::discovery::PluginFile;
use crate::launch::exec::without_shell;
use crate::launch::launcher;
use crate::launch::output::PluginOutput;
use crate::launch::pinned::COPY_FD;
use crate::plugin::kept_lines::KeptLines;
use command_fds::{CommandFdExt, FdMapping, FdMappingCollision};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::warn;

/// Descriptor of the socket in the plugin, as NRI defines it.
const PLUGIN_FD: i32 = 3;

/// Limit of the launcher's error message in bytes; a longer message is cut.
const MAX_LAUNCHER_ERROR: u64 = 4096;

/// Process of a launched plugin. Dropping it stops the process, as [`Process::stop`] does.
pub(crate) struct Process {
    pub(crate) pid: Option<u32>,
    stop: watch::Sender<bool>,
    exit: watch::Receiver<Option<String>>,
    kept: KeptLines,
    /// Tells the reader of the output that the plugin is configured; it answers when it has kept
    /// all lines written until then. See [`PluginOutput::read`].
    configured: mpsc::Sender<oneshot::Sender<()>>,
}

impl Process {
    /// Sends SIGTERM to the process. When the process has exited, at the latest after `stop_grace`,
    /// its process group gets SIGKILL.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns the last line that the program has written.
    pub(crate) fn last_output(&self) -> Option<String> {
        self.kept.last()
    }

    /// Returns what is kept of the lines that the program writes.
    pub(crate) fn kept(&self) -> KeptLines {
        self.kept.clone()
    }

    /// Called when the plugin is configured: ends the keeping of warnings, after all lines that
    /// the program has written so far.
    pub(crate) async fn end_kept_warnings(&self) {
        let (done, is_done) = oneshot::channel();
        // Errors mean that all lines are read: the program has closed its output or ended.
        let _ = self.configured.send(done).await;
        let _ = is_done.await;
    }

    /// Waits until the process is reaped, and returns how it ended, such as "exited with code 1".
    pub(crate) async fn exited(&self) -> String {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "ended with unknown status".to_owned(),
        }
    }
}

/// Starts the program of a plugin; `copy` is the verified copy of one that is pinned. The program's
/// environment has only the variables that NRI defines and those of the configuration; its output
/// is read line by line.
pub(crate) async fn launch(
    plugin: &PluginFile,
    copy: Option<OwnedFd>,
    config: &AdaptationConfig,
    output: PluginOutput,
) -> io::Result<(UnixStream, Process)> {
    let mut privileges = config.policy(&plugin.id).privileges;
    privileges.soft_nofile = config.soft_nofile;
    privileges.executable = plugin.executable();
    let cgroup = config.plugin_cgroups.as_deref().and_then(|parent| {
        let created = PluginCgroup::create(parent, &plugin.id);
        created
            .map_err(|error| warn!(plugin = %plugin.id, %error, "cannot create plugin cgroup"))
            .ok()
    });
    let procs = cgroup.as_ref().map(PluginCgroup::procs);
    privileges.cgroup_procs = procs.map(|file| file.to_string_lossy().into_owned());
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    let (output_reader, output_writer) = io::pipe()?;
    // The launcher writes its error to standard output. If standard output is closed without an
    // error, the launcher has executed the plugin's program.
    let mut words = plugin.command().into_iter();
    let program = words.next().unwrap_or_default();
    let (launcher_error, stdout, mut command) = if privileges.are_inherited() {
        (None, output_writer.try_clone()?, std::process::Command::new(program))
    } else {
        let (reader, writer) = io::pipe()?;
        let mut command = std::process::Command::new(&config.launcher);
        command.arg(launcher::ARGUMENT).args(privileges.arguments()).arg(program);
        (Some(reader), writer, command)
    };
    let of_nri = [
        ("NRI_PLUGIN_NAME", plugin.id.name.to_string()),
        ("NRI_PLUGIN_IDX", plugin.id.index.to_string()),
        ("NRI_PLUGIN_SOCKET", PLUGIN_FD.to_string()),
    ];
    let of_runtime = config.plugin_variables.iter().cloned();
    let environment: Vec<(String, String)> = of_nri
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .chain(of_runtime)
        .collect();
    command
        .args(words)
        .env_clear()
        .envs(environment.clone())
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(output_writer);
    let copy = copy.map(|copy| FdMapping { parent_fd: copy, child_fd: COPY_FD });
    let socket = FdMapping { parent_fd: theirs.into(), child_fd: PLUGIN_FD };
    command
        .fd_mappings([socket].into_iter().chain(copy).collect())
        .map_err(|FdMappingCollision| io::Error::from(io::ErrorKind::InvalidInput))?;
    without_shell(&mut command, None, environment)?;
    let mut command = Command::from(command);
    command.process_group(0).kill_on_drop(true);
    let child = command.spawn()?;
    // The command owns the child's ends of socket and pipes. If they stayed open in this process,
    // the child's exit would not close them.
    drop(command);
    let stream = UnixStream::from_std(ours)?;
    // The reader of the output waits for the reaping, and `exited` for the last line, too.
    let (reaped, is_reaped) = watch::channel(false);
    let (kept, output_reader) = (KeptLines::default(), OwnedFd::from(output_reader));
    let (configured, requests) = mpsc::channel(1);
    let reading = output.read(plugin.id.clone(), output_reader, requests, is_reaped, kept.clone());
    let reading = tokio::spawn(reading);
    let grace = config.stop_grace;

    let (stop, stopped) = watch::channel(false);
    let (exit_status, exit) = watch::channel(None);
    let (pid, id) = (child.id(), plugin.id.clone());
    tokio::spawn(async move {
        let how = supervise(child, stopped, grace).await;
        if let Some(cgroup) = &cgroup {
            cgroup.kill();
        }
        reaped.send_replace(true);
        if let Some(cgroup) = cgroup
            && let Err(error) = cgroup.end().await
        {
            warn!(plugin = %id, %error, "cannot remove the cgroup of the plugin");
        }
        // The last lines of output are handled before the exit is reported.
        let _ = reading.await;
        exit_status.send_replace(Some(how));
    });
    let process = Process { pid, stop, exit, kept, configured };
    if let Some(reader) = launcher_error {
        let reading = read_launcher_error(reader.into());
        let failure = tokio::time::timeout(config.registration_timeout, reading).await;
        let failure = failure.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        if !failure.is_empty() {
            process.exited().await;
            return Err(io::Error::other(failure));
        }
    }
    Ok((stream, process))
}

/// Reads the error of the launcher; empty when the launcher executed the plugin's program.
async fn read_launcher_error(reader: OwnedFd) -> io::Result<String> {
    let mut text = Vec::new();
    pipe::Receiver::from_owned_fd(reader)?.take(MAX_LAUNCHER_ERROR).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Waits until the process exits, or stops it on request. Then kills the other processes of its
/// group. Processes that have created a group of their own (`setsid`) survive, unless the plugin
/// has a cgroup. Returns once the process is reaped.
async fn supervise(
    mut child: Child,
    mut stopped: watch::Receiver<bool>,
    grace: Duration,
) -> String {
    let process = pid(&child);
    let ended = tokio::select! {
        status = child.wait() => Some(status),
        // An error means that the handle was dropped, which requests a stop too.
        _ = stopped.wait_for(|stop| *stop) => None,
    };
    let ended = match ended {
        Some(status) => status,
        None => terminate(&mut child, grace).await,
    };
    // The kernel does not reuse the number of a group while the group has a member. If the group
    // has none, the signal reaches another process only if the kernel has reused the number in the
    // moment after the process was reaped.
    if let Some(group) = process {
        let _ = killpg(group, Signal::SIGKILL);
    }
    match ended {
        Ok(status) => describe(status),
        Err(e) => format!("ended with unknown status: {e}"),
    }
}

async fn terminate(child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
    // The pid stays reserved until the child is reaped, so no other process can get the signal. An
    // error means that the child has exited.
    if let Some(pid) = pid(child) {
        let _ = kill(pid, Signal::SIGTERM);
    }
    if let Ok(status) = tokio::time::timeout(grace, child.wait()).await {
        return status;
    }
    if let Some(pid) = pid(child) {
        let _ = killpg(pid, Signal::SIGKILL);
    }
    child.wait().await
}

fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw)
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => {
            let name = Signal::try_from(signal).map_or(String::new(), |s| format!(" ({s})"));
            let core = if status.core_dumped() { ", core dumped" } else { "" };
            format!("was killed by signal {signal}{name}{core}")
        }
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncBufReadExt;

    /// Supervises a shell that starts a child; `stop` requests a stop. Waits until the child is
    /// dead, and returns how the shell ended.
    async fn supervised(script: &str, stop: bool) -> String {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut shell = command.spawn().unwrap();
        // The child shares the shell's standard output, which ends when both have exited.
        let mut output = tokio::io::BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).await.unwrap();
        assert_eq!(line, "started\n");
        let (_stop, stopped) = watch::channel(stop);
        let how = supervise(shell, stopped, Duration::from_secs(60)).await;
        let mut rest = String::new();
        let ended = output.read_to_string(&mut rest);
        tokio::time::timeout(Duration::from_secs(60), ended)
            .await
            .expect("the child still runs")
            .unwrap();
        how
    }

    #[tokio::test]
    async fn the_children_of_a_plugin_end_with_it() {
        let how = supervised("sleep 600 & echo started; exit 3", false).await;
        assert_eq!(how, "exited with code 3");
        let how = supervised("sleep 600 & echo started; kill -9 $$", false).await;
        assert_eq!(how, "was killed by signal 9 (SIGKILL)");
        // The shell ends at SIGTERM; its child ignores the signal.
        let how = supervised("(trap '' TERM; exec sleep 600) & echo started; wait", true).await;
        assert_eq!(how, "was killed by signal 15 (SIGTERM)");
    }
}
