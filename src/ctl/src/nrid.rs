//! Requests to `nrid`: start, stop, restart, reload, status and verify.

use crate::{error::CtlError, nrid_location::NridLocation, output::output};
use nri_control::{Client, ClientError, FrameError, Reloaded, Reply, Request, Status, Verified};
use nri_files::{LIFE_LOCK, OsText, START_FAILURE};
use nri_locate::{ConfigFileError, MAX_CONFIG_FILE, NRID, read_regular_text};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Access,
    io::{Errno, retry_on_intr},
    process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal},
};
use std::{
    io::{
        ErrorKind::{ConnectionRefused, NotFound, PermissionDenied},
        Write,
    },
    path::PathBuf,
    time::{Duration, Instant},
};

/// Time limit of a stop: nrid waits for requests in progress, and gives plugins a grace period.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a reload: requests in progress are finished, plugins are stopped and launched.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of each half of a restart: the end of the previous nrid, the start of the next.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of any other reply: an nrid that is stopped (SIGSTOP) sends none.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time within which an nrid creates its control socket again after it was removed: longer than the
/// interval of nrid's checks, which is a second.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two attempts to connect to an nrid whose socket was removed.
const SOCKET_PAUSE: Duration = Duration::from_millis(50);
/// Limit of attempts to start nrid while the previous one exits, or to read why its start failed.
/// With [`START_PAUSE`] they take a second, which is longer than nrid needs to exit once its socket
/// is closed.
const START_ATTEMPTS: u32 = 50;
/// Pause between attempts to start nrid.
const START_PAUSE: Duration = Duration::from_millis(20);

/// Connects to the running `nrid`; `None` if none runs. Waits for an `nrid` whose socket was
/// removed, since it creates the socket again.
///
/// # Errors
/// The connection fails; or, without root, only root can know whether `nrid` runs.
pub(crate) fn connect(nrid: &NridLocation) -> Result<Option<Client>, CtlError> {
    let deadline = Instant::now() + SOCKET_TIMEOUT;
    loop {
        match nrid.launcher.connect() {
            Ok(client) => {
                client.set_timeout(Some(REPLY_TIMEOUT))?;
                return Ok(Some(client));
            }
            Err(ClientError::Connect(e)) if matches!(e.kind(), NotFound | ConnectionRefused) => {}
            Err(e) => return Err(unreadable(nrid).unwrap_or_else(|| e.into())),
        }
        let Some(pid) = lock_holder(nrid) else { return not_running(nrid).map(|()| None) };
        if Instant::now() >= deadline {
            return Err(if nri_host::is_own(pid, NRID) {
                CtlError::NotListening { pid, socket: nrid.launcher.socket() }
            } else {
                let (holder, lock) = (nri_host::describe(pid), life_lock(nrid));
                CtlError::LockedByOther { holder, lock }
            });
        }
        std::thread::sleep(SOCKET_PAUSE);
    }
}

/// Returns the error if only root can connect to the socket of `nrid`.
fn unreadable(nrid: &NridLocation) -> Option<CtlError> {
    let socket = nrid.launcher.socket();
    let is_denied = rustix::fs::access(&socket, Access::WRITE_OK) == Err(Errno::ACCESS);
    (is_denied && !geteuid().is_root())
        .then(|| CtlError::NeedsRoot(format!("cannot connect to {}", socket.display())))
}

/// Checks that no `nrid` runs that only root can see.
fn not_running(nrid: &NridLocation) -> Result<(), CtlError> {
    if let Some(ConfigFileError::Read(file, error)) = &nrid.problem
        && error.kind() == PermissionDenied
    {
        let file = file.display();
        let why = format!("{file}, which names the state directory, cannot be read");
        return Err(CtlError::NeedsRoot(why));
    }
    match nrid.state_dir_of_root.as_deref().filter(|dir| dir.exists()) {
        None => Ok(()),
        Some(dir) => {
            let (dir, socket) = (dir.display(), nrid.launcher.socket());
            let socket = socket.display();
            Err(CtlError::NeedsRoot(format!(
                "no nrid of this user is running ({socket}), and only root can reach that of root \
                 ({dir})"
            )))
        }
    }
}

/// Returns the pid of the process that holds the lock of the state directory.
fn lock_holder(nrid: &NridLocation) -> Option<i32> {
    nri_host::lock_holder(&life_lock(nrid), NRID)
}

fn life_lock(nrid: &NridLocation) -> PathBuf {
    nrid.launcher.state_dir.join(LIFE_LOCK)
}

/// Ends an `nrid` of this host that does not listen, by SIGTERM.
fn terminate(nrid: &NridLocation, pid: i32) -> Result<(), CtlError> {
    let signal_error = |e: Errno| CtlError::Signal { pid, source: e.into() };
    let process = Pid::from_raw(pid).ok_or(Errno::SRCH);
    let process = match process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(e) => return Err(signal_error(e)),
    };
    // Checked again: the pid may have been reused before the pidfd was opened.
    if lock_holder(nrid) != Some(pid) || !nri_host::is_own(pid, NRID) {
        return Ok(());
    }
    // A failed write to standard error cannot be reported anywhere.
    let _ = writeln!(
        std::io::stderr(),
        "nrictl: nrid (pid {pid}) does not listen on {}; sending SIGTERM",
        nrid.launcher.socket().display()
    );
    match pidfd_send_signal(&process, Signal::TERM) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(e) => return Err(signal_error(e)),
    }
    let limit = Timespec { tv_sec: STOP_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
    let exited = retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)));
    if exited.map_err(signal_error)? > 0 { Ok(()) } else { Err(CtlError::NotStopped) }
}

/// Requests the status of the `nrid` that runs; `None` if none runs.
///
/// # Errors
/// See [`connect`]; or a running `nrid` does not reply.
pub(crate) fn status_if_running(nrid: &NridLocation) -> Result<Option<Box<Status>>, CtlError> {
    connect(nrid)?.as_ref().map(status).transpose()
}

/// Returns the status of the `nrid` that runs; `None` if none runs, or if it does not reply.
pub(crate) fn running_status(nrid: &NridLocation) -> Option<Box<Status>> {
    status_if_running(nrid).ok().flatten()
}

/// Requests the status.
pub(crate) fn status(client: &Client) -> Result<Box<Status>, CtlError> {
    match client.call(&Request::Status, &[])? {
        Reply::Status(status) => Ok(status),
        other => Err(unexpected(other)),
    }
}

/// Sends a request whose reply is `done`.
pub(crate) fn done(client: &Client, request: &Request) -> Result<(), CtlError> {
    match client.call(request, &[])? {
        Reply::Done => Ok(()),
        other => Err(unexpected(other)),
    }
}

/// Requests a comparison of the resources of containers with the values in their cgroups.
pub(crate) fn verify(nrid: &NridLocation, ids: &[String]) -> Result<Vec<Verified>, CtlError> {
    verify_within(nrid, ids, REPLY_TIMEOUT)
}

/// Requests a comparison as [`verify`] does, within a time limit.
pub(crate) fn verify_within(
    nrid: &NridLocation,
    ids: &[String],
    limit: Duration,
) -> Result<Vec<Verified>, CtlError> {
    let client = connect(nrid)?.ok_or_else(|| CtlError::NotRunning(nrid.launcher.socket()))?;
    client.set_timeout(Some(limit))?;
    match client.call(&Request::Verify { ids: ids.to_vec() }, &[])? {
        Reply::Verified(containers) => Ok(containers),
        other => Err(unexpected(other)),
    }
}

/// Starts `nrid` and waits for its reply. Retries if the connection was accepted by a previous
/// nrid that is exiting.
pub(crate) fn start(nrid: &NridLocation) -> Result<(), CtlError> {
    let mut attempts_left = START_ATTEMPTS;
    loop {
        attempts_left -= 1;
        let connected = nrid.launcher.connect_or_start();
        let mut client = connected.map_err(|e| unreadable(nrid).unwrap_or_else(|| e.into()))?;
        client.set_timeout(Some(REPLY_TIMEOUT))?;
        match client.ping() {
            Ok(()) => return Ok(()),
            Err(ClientError::Frame(FrameError::Closed)) if attempts_left > 0 => {
                std::thread::sleep(START_PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Stops `nrid`, if it runs.
pub(crate) fn stop(nrid: &NridLocation) -> Result<(), CtlError> {
    let client = match connect(nrid) {
        Ok(Some(client)) => client,
        Ok(None) => return Ok(()),
        Err(CtlError::NotListening { pid, .. }) => return terminate(nrid, pid),
        Err(error) => return Err(error),
    };
    match client.call(&Request::Stop, &[])? {
        Reply::Done => {}
        other => return Err(unexpected(other)),
    }
    client.set_timeout(Some(STOP_TIMEOUT))?;
    if client.wait_closed() { Ok(()) } else { Err(CtlError::NotStopped) }
}

/// Replaces the running `nrid` by the installed one, and prints the version and pid that it then
/// reports.
pub(crate) fn restart(nrid: &NridLocation) -> Result<(), CtlError> {
    let client = match connect(nrid) {
        Ok(Some(client)) => client,
        Ok(None) => return start(nrid),
        Err(CtlError::NotListening { pid, .. }) => {
            terminate(nrid, pid)?;
            return start(nrid);
        }
        Err(error) => return Err(error),
    };
    let running = status(&client)?.program;
    // If the program of the running nrid no longer exists, request the program that nrictl found.
    let is_missing = running.is_none_or(|program| !program.as_path().exists());
    let program = nrid.launcher.program.as_deref().filter(|_| is_missing).map(OsText::from);
    client.set_timeout(Some(RESTART_TIMEOUT))?;
    match client.call(&Request::Restart { program }, &[])? {
        Reply::Done => {}
        other => return Err(unexpected(other)),
    }
    if !client.wait_closed() {
        return Err(CtlError::NotStopped);
    }
    let status = status_of_next(nrid).map_err(|error| {
        start_failure(nrid).map_or(error, |why| CtlError::EndedAtRestart { why })
    })?;
    match status.restart_error {
        Some(error) => Err(CtlError::NotRestarted(error)),
        None => Ok(writeln!(output(), "nrid {} (pid {})", status.version, status.pid)?),
    }
}

/// Requests the status of the `nrid` that has replaced the previous one.
fn status_of_next(nrid: &NridLocation) -> Result<Box<Status>, CtlError> {
    let client = nrid.launcher.connect()?;
    client.set_timeout(Some(RESTART_TIMEOUT))?;
    status(&client)
}

/// Returns why the last start of `nrid` has failed. Waits for the file, which `nrid` writes after
/// its sockets are closed, and which an `nrid` that serves has removed.
fn start_failure(nrid: &NridLocation) -> Option<String> {
    let file = nrid.launcher.state_dir.join(START_FAILURE);
    (0..START_ATTEMPTS).find_map(|_| match read_regular_text(&file, MAX_CONFIG_FILE) {
        Ok(why) if why.ends_with('\n') => Some(why.trim_end().to_owned()),
        _ => {
            std::thread::sleep(START_PAUSE);
            None
        }
    })
}

/// Makes `nrid` read its configuration again; `None` if none runs.
pub(crate) fn reload(nrid: NridLocation) -> Result<Option<Box<Reloaded>>, CtlError> {
    let client = match connect(&nrid) {
        Ok(Some(client)) => client,
        other => {
            // What the last nrid has published is followed until the next one: no longer, if the
            // file can be used.
            if nrid.problem.is_none() && other.is_ok() {
                let _ = std::fs::remove_file(nri_files::published_file(&nrid.named_file()));
            }
            nrid.print_warning();
            return other.map(|_| None);
        }
    };
    client.set_timeout(Some(RELOAD_TIMEOUT))?;
    let reply = client.call(&Request::Reload, &[]);
    let problem = nrid.problem.as_ref().map(ToString::to_string).unwrap_or_default();
    // Print the problem once: if nrid reads the same file, its reply contains the problem too.
    if !matches!(&reply, Ok(Reply::Refused { message }) if message.contains(&problem)) {
        nrid.print_warning();
    }
    match reply? {
        Reply::Reloaded(reloaded) => Ok(Some(reloaded)),
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: Reply) -> CtlError {
    match reply {
        Reply::Refused { message } => CtlError::Refused(message),
        _ => CtlError::UnexpectedReply,
    }
}
