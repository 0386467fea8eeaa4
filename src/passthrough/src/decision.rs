//! Decides whether one call is passed through, and to which runtime.

use crate::{
    args::{globals, verbs},
    configuration, exec_marker,
    path_buffer::PathBuffer,
    runtime,
    variables::Variables,
};
use core::{ffi::CStr, mem::MaybeUninit};
use rustix::fd::RawFd;

/// A call of the wrapper.
#[derive(Debug)]
pub struct BorrowedCall<'a, E> {
    /// `argv[0]`
    pub name: &'a [u8],
    /// argv without `argv[0]`.
    pub arguments: &'a [&'a [u8]],
    /// The entries of the environment.
    pub environment: E,
    /// Closes a descriptor without a C library.
    pub close: fn(RawFd),
}

/// Returns the path of the real runtime if the call is passed through with its arguments and
/// environment unchanged. Returns `None` if the wrapper must decide after the C library's start; it
/// may still pass the call through.
pub fn runtime_of<'a, 'p, E>(
    call: BorrowedCall<'a, E>,
    path: &'p mut PathBuffer,
) -> Option<&'p CStr>
where
    E: Iterator<Item = &'a [u8]>,
{
    let BorrowedCall { name, arguments, environment, close } = call;
    let globals = globals::scan(arguments, |_| {});
    let verb = globals.verb.and_then(|at| arguments.get(at)).filter(|_| !globals.is_help);
    if globals.has_own || verb.is_some_and(|verb| verbs::carries_event(verb)) {
        return None;
    }
    let called_as = file_name(name)?;
    let variables = Variables::read(environment);
    let mut buffer = [MaybeUninit::uninit(); _];
    let settings = configuration::read(&variables, called_as, &mut buffer, close)?;
    if verb.is_some_and(|verb| *verb == b"exec") {
        let rest = globals.verb.and_then(|at| arguments.get(at + 1..))?;
        if !exec_marker::is_absent(rest, &settings) {
            return None;
        }
    }
    runtime::find(called_as, &settings, &variables, path)?;
    path.as_c_str()
}

/// Returns the file name in `argv[0]`.
fn file_name(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let is_name = !matches!(name, b"" | b"." | b"..") && core::str::from_utf8(name).is_ok();
    is_name.then_some(name)
}
