//! A restart: another program replaces this one in the same process, with its sockets and its lock,
//! so that no connection is refused meanwhile. The next program finds the containers in their
//! records, like an `nrid` in a new process.

use crate::{
    daemon::{
        activation::{Activation, FileId, PassedSocket},
        program::RestartError,
        sockets::Socket,
    },
    host::{descriptors, sys},
};
use serde::{Deserialize, Serialize};
use std::{
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

    fn try_exec(&self, program: &Path, state_dir: &Path) -> io::Result<std::convert::Infallible> {
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
        self.set_inherited(true)?;
        // The next program raises the limit itself.
        descriptors::restore_limit()?;
        let result = nix::unistd::execve(&path, &arguments, &variables);
        descriptors::raise_limit()?;
        self.set_inherited(false)?;
        Ok(result?)
    }

    /// Sets whether the next program inherits the descriptors.
    fn set_inherited(&self, inherited: bool) -> io::Result<()> {
        use rustix::io::{FdFlags, fcntl_setfd};
        let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
        for fd in self.sockets.iter().map(|s| &s.fd).chain([&self.lock]) {
            fcntl_setfd(fd, flags)?;
        }
        Ok(())
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
