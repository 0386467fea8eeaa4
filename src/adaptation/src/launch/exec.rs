//! Execution of a plugin's program by the kernel alone.
//!
//! execvp(3), with which `std` executes programs, hands a file that the kernel refuses to
//! `/bin/sh`. A text without an interpreter line, or a program for another processor, would run as
//! shell commands with the privileges of the plugin.

#![allow(unsafe_code)]

use nix::libc::{self, c_char};
use std::ffi::{CString, NulError, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Texts in the form of execve(2): an array of pointers that ends with a null pointer.
struct Texts {
    pointers: Vec<*const c_char>,
    _texts: Vec<CString>,
}

// SAFETY: the pointers lead to texts that the value owns, and that do not change.
unsafe impl Send for Texts {}
// SAFETY: as above.
unsafe impl Sync for Texts {}

impl Texts {
    fn new(texts: impl Iterator<Item = OsString>) -> Result<Self, NulError> {
        let texts: Vec<_> =
            texts.map(|text| CString::new(text.into_vec())).collect::<Result<_, _>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { pointers, _texts: texts })
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// Makes the command execute its program, or `executable` in place of that, with execve(2), after
/// all that it does before. The program gets the arguments that the command has now, and this
/// environment.
///
/// # Errors
/// The path, an argument or a variable has a zero byte.
pub(crate) fn without_shell<K: AsRef<OsStr>, V: AsRef<OsStr>>(
    command: &mut Command,
    executable: Option<&str>,
    environment: impl IntoIterator<Item = (K, V)>,
) -> io::Result<()> {
    let executed = executable.map_or(command.get_program(), OsStr::new);
    let program = CString::new(executed.as_bytes())?;
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let arguments = Texts::new(words.map(OsStr::to_owned))?;
    let variables = environment.into_iter().map(|(name, value)| {
        let mut variable = name.as_ref().to_owned();
        variable.push("=");
        variable.push(value);
        variable
    });
    let environment = Texts::new(variables)?;
    let execute = move || {
        // SAFETY: the path ends with a zero byte and the arrays with a null pointer, and the
        // closure owns them.
        unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    // SAFETY: the closure calls nothing but execve(2), and allocates nothing.
    unsafe { command.pre_exec(execute) };
    Ok(())
}
