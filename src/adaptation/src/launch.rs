//! Starts a plugin's program with one end of a socket pair as its fd 3, and sees to its end.
//!
//! Privileges are given up by the program that is started ([`crate::launcher`]), which then becomes
//! the plugin's. The session over the other end, and whether the plugin is started again, are
//! others' business.

use crate::AdaptationConfig;
use crate::discovery::Found;
use crate::launcher;
use crate::output::Output;
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
use tokio::sync::watch;

/// The descriptor that the plugin finds its socket at.
const PLUGIN_FD: i32 = 3;

/// Longest complaint of the launcher, in bytes.
const SAID: u64 = 4096;

/// A launched program. Dropping it stops the program, as [`Process::stop`] does.
pub(crate) struct Process {
    pub(crate) pid: Option<u32>,
    stop: watch::Sender<bool>,
    exit: watch::Receiver<Option<String>>,
}

impl Process {
    /// Asks the program to leave: SIGTERM, and after the grace SIGKILL to its process group.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the program is gone and reaped; tells how it ended.
    pub(crate) async fn exited(&self) -> String {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "its supervision ended".to_owned(),
        }
    }
}

/// Starts the program. Its environment is exactly what the protocol says; its output is read line
/// by line.
pub(crate) async fn launch(
    plugin: &Found,
    config: &AdaptationConfig,
    output: Output,
) -> io::Result<(UnixStream, Process)> {
    let privileges = config.policy(&plugin.id).privileges;
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    let (lines, written) = io::pipe()?;
    let (told, stdout) = if privileges.are_ours() {
        (None, written.try_clone()?)
    } else {
        let (told, tells) = io::pipe()?;
        (Some(told), tells)
    };
    let mut command = match told {
        None => std::process::Command::new(&plugin.path),
        Some(_) => {
            let mut command = std::process::Command::new(&config.launcher);
            command.arg(launcher::ARGUMENT).args(privileges.arguments()).arg(&plugin.path);
            command
        }
    };
    command
        .env_clear()
        .env("NRI_PLUGIN_NAME", plugin.id.name.as_str())
        .env("NRI_PLUGIN_IDX", plugin.id.index.to_string())
        .env("NRI_PLUGIN_SOCKET", PLUGIN_FD.to_string())
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(written);
    command
        .fd_mappings(vec![FdMapping { parent_fd: theirs.into(), child_fd: PLUGIN_FD }])
        .map_err(|FdMappingCollision| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::from(command);
    command.process_group(0).kill_on_drop(true);
    let child = command.spawn()?;
    // The command owns the plugin's ends: while it lives, the end of the plugin would not close the
    // socket.
    drop(command);
    let stream = UnixStream::from_std(ours)?;
    let (over, is_over) = watch::channel(false);
    let reading = tokio::spawn(output.read(plugin.id.clone(), lines.into(), is_over));
    let grace = config.stop_grace;

    let (stop, stopped) = watch::channel(false);
    let (ended, exit) = watch::channel(None);
    let pid = child.id();
    tokio::spawn(async move {
        let how = supervise(child, stopped, grace).await;
        over.send_replace(true);
        // Its last words come before the news of its end.
        let _ = reading.await;
        ended.send_replace(Some(how));
    });
    let process = Process { pid, stop, exit };
    if let Some(told) = told {
        let failure = tokio::time::timeout(config.registration_timeout, hear(told.into())).await;
        let failure = failure.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        if !failure.is_empty() {
            process.exited().await;
            return Err(io::Error::other(failure));
        }
    }
    Ok((stream, process))
}

/// What the launcher has to say: nothing, when the plugin's program took its place.
async fn hear(told: OwnedFd) -> io::Result<String> {
    let mut text = Vec::new();
    pipe::Receiver::from_owned_fd(told)?.take(SAID).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Waits for the end of the program, and brings it about when asked to; returns once it is reaped.
async fn supervise(
    mut child: Child,
    mut stopped: watch::Receiver<bool>,
    grace: Duration,
) -> String {
    let ended = tokio::select! {
        status = child.wait() => Some(status),
        // An error means that the handle was dropped, which asks for the same.
        _ = stopped.wait_for(|stop| *stop) => None,
    };
    let ended = match ended {
        Some(status) => status,
        None => terminate(&mut child, grace).await,
    };
    match ended {
        Ok(status) => describe(status),
        Err(e) => format!("could not be waited for: {e}"),
    }
}

async fn terminate(child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
    // The id is there as long as the child is not reaped, so no signal can reach a stranger. A
    // failure means that it is gone already.
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
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
