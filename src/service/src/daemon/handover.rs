//! A restart: another program replaces this one in the same process, with its sockets and its lock,
//! so that no connection is refused meanwhile. The next program finds the containers in their
//! records, like an `nrid` in a new process.

use crate::{
    host::{descriptors, sys},
    process::{
        activation::{Activation, FileId, PassedSocket},
        program::RestartError,
        sockets::Socket,
    },
};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};
use std::{
    convert::Infallible,
    ffi::{CString, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStringExt, net::UnixListener},
    },
    path::Path,
};

/// Environment variable that passes the numbers of the descriptors to the next program.
pub const HANDOVER: &str = "NRI_CONTAINER_RUNTIME_HANDOVER";

/// The descriptors that the next program gets.
#[derive(Debug)]
pub struct Handover {
    sockets: Vec<Socket>,
    lock: OwnedFd,
}

/// Value of the variable [`HANDOVER`].
#[derive(Debug, Serialize, Deserialize)]
struct Numbers {
    /// Process id, so that a child process ignores an inherited variable.
    pid: u32,
    /// Descriptors of sockets, with the file that was created for each.
    sockets: Vec<(u32, Option<FileId>)>,
    lock: u32,
}

impl Handover {
    /// Prepares sockets for the next program, except sockets whose path now is another file.
    pub fn new(sockets: Vec<Socket>, lock: OwnedFd) -> Self {
        Self { sockets: sockets.into_iter().filter(Socket::is_at_path).collect(), lock }
    }

    /// Replaces this program, with the same arguments. Returns only if the replacement fails.
    pub fn exec(&self, program: &Path, state_dir: &Path) -> io::Error {
        match self.try_exec(program, state_dir) {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    fn try_exec(&self, program: &Path, state_dir: &Path) -> io::Result<Infallible> {
        let number = |fd: &OwnedFd| u32::try_from(fd.as_raw_fd()).map_err(io::Error::other);
        let sockets: io::Result<_> =
            self.sockets.iter().map(|s| Ok((number(&s.fd)?, s.created))).collect();
        let numbers =
            Numbers { pid: std::process::id(), sockets: sockets?, lock: number(&self.lock)? };
        let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        arguments.insert(0, program.into());
        let is_state_dir = |a: &OsString| a.as_encoded_bytes().starts_with(b"--state-dir");
        if !arguments.iter().any(is_state_dir) {
            arguments.extend(["--state-dir".into(), state_dir.into()]);
        }
        let mut variables: Vec<OsString> = std::env::vars_os()
            .map(|(mut name, value)| {
                name.push("=");
                name.push(value);
                name
            })
            .collect();
        variables.push(format!("{HANDOVER}={}", serde_json::to_string(&numbers)?).into());
        let strings = |all: Vec<OsString>| -> io::Result<Vec<CString>> {
            all.into_iter().map(|s| CString::new(s.into_vec()).map_err(io::Error::other)).collect()
        };
        let path = strings(vec![program.into()])?.remove(0);
        let (arguments, variables) = (strings(arguments)?, strings(variables)?);
        let inherited = Inherited::new(self)?;
        // The next program raises the limit itself.
        descriptors::restore_limit()?;
        let result = nix::unistd::execve(&path, &arguments, &variables);
        drop(inherited);
        // The reason why the program was not executed is worth more than this one.
        if let Err(error) = descriptors::raise_limit() {
            tracing::warn!(%error, "cannot raise the limit of open files again");
        }
        Ok(result?)
    }

    fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter().map(|socket| &socket.fd).chain([&self.lock])
    }

    /// Returns the descriptors for continued use by this program, because the next program could
    /// not be run. `error` is the reason.
    pub fn into_activation(self, error: RestartError) -> Activation {
        let pass = |socket: Socket| PassedSocket {
            path: socket.path,
            listener: UnixListener::from(socket.fd),
            created: socket.created,
        };
        let sockets = self.sockets.into_iter().map(pass).collect();
        Activation {
            sockets,
            lock: Some(self.lock),
            restart_error: Some(error),
            ..Activation::default()
        }
    }
}

/// The descriptors are inherited by the next program until this is dropped: other programs, which
/// this one starts after a failure, must not get them.
struct Inherited<'a>(&'a Handover);

impl<'a> Inherited<'a> {
    fn new(handover: &'a Handover) -> io::Result<Self> {
        let inherited = Self(handover);
        for fd in handover.descriptors() {
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        Ok(inherited)
    }
}

impl Drop for Inherited<'_> {
    fn drop(&mut self) {
        for fd in self.0.descriptors() {
            // Fails for no open descriptor.
            let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
        }
    }
}

/// Takes the descriptors that [`Handover::exec`] handed over, at the start of the process.
///
/// # Errors
/// The descriptors are not those of a handover.
pub(super) fn take(value: &str) -> io::Result<Activation> {
    let numbers: Numbers = serde_json::from_str(value)?;
    if numbers.pid != std::process::id() {
        return Ok(Activation::default());
    }
    let mut sockets = Vec::new();
    for (fd, created) in numbers.sockets {
        let listener = UnixListener::from(sys::take_descriptor(fd)?);
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        sockets.push(PassedSocket { path, listener, created });
    }
    let lock = sys::take_descriptor(numbers.lock)?;
    rustix::io::fcntl_getfd(lock.as_fd())?;
    Ok(Activation { sockets, lock: Some(lock), ..Activation::default() })
}
