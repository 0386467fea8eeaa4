//! A call of the real runtime, and `execve` of it.

use super::sys::Program;
use crate::{args::CommandLine, call::Call, error::Error};
use std::{
    ffi::{CStr, CString, OsString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
};

/// A call of the real runtime: path, arguments and descriptors.
#[derive(Debug)]
pub(crate) struct Target {
    /// Absolute path of the real runtime.
    pub(crate) runtime: PathBuf,
    /// argv without `argv[0]`, which is the path.
    pub(crate) arguments: Vec<OsString>,
    /// File that replaces stdin.
    pub(crate) stdin: Option<OwnedFd>,
    /// Descriptor, opened by the wrapper, that the real runtime inherits.
    pub(crate) inherited: Option<OwnedFd>,
}

impl Target {
    pub(crate) fn new(runtime: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { runtime, arguments, stdin: None, inherited: None }
    }

    /// Replaces the arguments after the verb.
    pub(crate) fn set_rest(&mut self, command_line: &CommandLine<'_>, rest: Vec<OsString>) {
        self.arguments.truncate(command_line.globals.len() + 1);
        self.arguments.extend(rest);
    }

    /// Replaces this process by the real runtime. Returns only if that fails.
    pub(crate) fn exec(self, call: &Call) -> Error {
        let error = match self.prepare(&call.entries) {
            Ok(program) => self.execve(&program),
            Err(e) => e,
        };
        Error::Exec { path: self.runtime, source: error }
    }

    /// Prepares the arguments of [`Target::execve`].
    ///
    /// # Errors
    /// A string has a NUL byte.
    pub(crate) fn prepare(&self, environment: &[&'static CStr]) -> io::Result<Program> {
        let mut argv = Vec::with_capacity(1 + self.arguments.len());
        argv.push(CString::new(self.runtime.as_os_str().as_bytes())?);
        for argument in &self.arguments {
            argv.push(CString::new(argument.as_bytes())?);
        }
        Ok(Program::new(argv, environment))
    }

    /// Calls execve(2), with stdin replaced and the descriptor inherited. Returns only if that
    /// fails. Allocates nothing, since a child that shares the memory of this process may be killed
    /// at any point.
    pub(crate) fn execve(&self, program: &Program) -> io::Error {
        if let Some(stdin) = &self.stdin
            && let Err(e) = nix::unistd::dup2_stdin(stdin)
        {
            return e.into();
        }
        if let Some(fd) = &self.inherited
            && let Err(e) = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())
        {
            return e.into();
        }
        program.execve().into()
    }
}
