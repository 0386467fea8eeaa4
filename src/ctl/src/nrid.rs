//! Requests to `nrid`: start, stop, restart, reload, status and verify.

use crate::{error::CtlError, nrid_location::NridLocation, output::output};
use nri_control::{Client, ClientError, OsText, Reloaded, Reply, Request, Status, Verified};
use std::{
    io::{
        ErrorKind::{ConnectionRefused, NotFound},
        Write,
    },
    time::Duration,
};

/// Time limit of a stop: nrid waits for verbs in progress, plugins have a grace period.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a reload: requests in progress are finished, plugins are stopped and launched.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of each half of a restart: the end of the previous nrid, the start of the next.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of any other reply: an nrid that is stopped (SIGSTOP) sends none.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of attempts to start nrid while the previous one exits. With [`START_PAUSE`] they take a
/// second, which is longer than nrid needs to exit once its socket is closed.
const START_ATTEMPTS: u32 = 50;
/// Pause between attempts to start nrid.
const START_PAUSE: Duration = Duration::from_millis(20);

/// Connects to the running `nrid`; `None` if none runs.
pub(crate) fn connect(nrid: &NridLocation) -> Result<Option<Client>, CtlError> {
    match nrid.launcher.connect() {
        Ok(client) => {
            client.set_timeout(Some(REPLY_TIMEOUT))?;
            Ok(Some(client))
        }
        Err(ClientError::Connect(e)) if matches!(e.kind(), NotFound | ConnectionRefused) => {
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// Requests the status.
pub(crate) fn status(client: &Client) -> Result<Box<Status>, CtlError> {
    match client.call(&Request::Status, &[])? {
        Reply::Status(status) => Ok(status),
        other => Err(unexpected(other)),
    }
}

/// Requests a comparison of resources with cgroups.
pub(crate) fn verify(nrid: &NridLocation, ids: &[String]) -> Result<Vec<Verified>, CtlError> {
    let client = connect(nrid)?.ok_or_else(|| CtlError::NotRunning(nrid.launcher.socket()))?;
    match client.call(&Request::Verify { ids: ids.to_vec() }, &[])? {
        Reply::Verified(containers) => Ok(containers),
        other => Err(unexpected(other)),
    }
}

/// Starts `nrid` and waits for its reply. Retries if the connection was accepted by a previous
/// nrid that is exiting.
pub(crate) fn start(nrid: &NridLocation) -> Result<(), CtlError> {
    let mut left = START_ATTEMPTS;
    loop {
        left -= 1;
        match status(&nrid.launcher.connect_or_start()?) {
            Ok(_) => return Ok(()),
            Err(CtlError::Client(ClientError::Frame(_))) if left > 0 => {
                std::thread::sleep(START_PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Stops `nrid`, if it runs.
pub(crate) fn stop(nrid: &NridLocation) -> Result<(), CtlError> {
    let Some(client) = connect(nrid)? else { return Ok(()) };
    match client.call(&Request::Stop, &[])? {
        Reply::Done => {}
        other => return Err(unexpected(other)),
    }
    client.set_timeout(Some(STOP_TIMEOUT))?;
    if client.wait_closed() { Ok(()) } else { Err(CtlError::NotStopped) }
}

/// Replaces the running `nrid` by the installed one, and prints the version of the new one.
pub(crate) fn restart(nrid: &NridLocation) -> Result<(), CtlError> {
    let Some(client) = connect(nrid)? else { return start(nrid) };
    let running = status(&client)?.program;
    // If the file of nrid's program no longer exists, the request names the program found here.
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
    let client = nrid.launcher.connect()?;
    client.set_timeout(Some(RESTART_TIMEOUT))?;
    let status = status(&client)?;
    match status.restart_error {
        Some(error) => Err(CtlError::NotRestarted(error)),
        None => Ok(writeln!(output(), "nrid {} (pid {})", status.version, status.pid)?),
    }
}

/// Has `nrid` read its configuration again; `None` if none runs.
pub(crate) fn reload(nrid: NridLocation) -> Result<Option<Box<Reloaded>>, CtlError> {
    let client = match connect(&nrid) {
        Ok(Some(client)) => client,
        other => {
            nrid.warned();
            return other.map(|_| None);
        }
    };
    client.set_timeout(Some(RELOAD_TIMEOUT))?;
    let reply = client.call(&Request::Reload, &[]);
    let problem = nrid.problem.as_ref().map(ToString::to_string).unwrap_or_default();
    // Print a problem once: nrid's reply has it too if nrid reads the same file.
    if !matches!(&reply, Ok(Reply::Refused { message }) if message.contains(&problem)) {
        nrid.warned();
    }
    match reply? {
        Reply::Reloaded(reloaded) => Ok(Some(reloaded)),
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: Reply) -> CtlError {
    match reply {
        Reply::Refused { message } => CtlError::Refused(message),
        other => CtlError::UnexpectedReply(Box::new(other)),
    }
}
