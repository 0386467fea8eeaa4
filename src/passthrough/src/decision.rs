//! Decides whether one call becomes the runtime, and which one.

use crate::{
    args::{globals, verbs},
    configuration,
    connection::{EarlyReply, Sent},
    event::Event,
    exec_marker,
    path_buffer::PathBuffer,
    runtime,
    variables::Variables,
};
use core::{ffi::CStr, mem::MaybeUninit};
use rustix::{fd::RawFd, process::geteuid};

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

/// What becomes of a call.
#[derive(Debug)]
pub enum Decision<'p> {
    /// The real runtime at this path replaces the process, with arguments and environment
    /// unchanged. If a request was sent, its reply is still in the connection.
    Runtime(&'p CStr, Option<Sent>),
    /// The wrapper decides after the C library's start, and reads the reply from this connection if
    /// a request was sent. It may still pass the call through.
    Later(Option<Sent>),
}

/// Decides on a call. The path of the runtime is put into `path`.
pub fn decide<'a, 'p, E>(call: BorrowedCall<'a, E>, path: &'p mut PathBuffer) -> Decision<'p>
where
    E: Iterator<Item = &'a [u8]> + Clone,
{
    let connection = match outcome(call, path) {
        None => return Decision::Later(None),
        Some(Some(EarlyReply::Unknown(connection))) => return Decision::Later(Some(connection)),
        Some(Some(EarlyReply::Expected(connection))) => Some(connection),
        Some(None) => None,
    };
    match path.as_c_str() {
        Some(path) => Decision::Runtime(path, connection),
        None => Decision::Later(connection),
    }
}

/// Finds the runtime, and sends a request if the verb has an event. Returns `None` if the wrapper
/// must do so.
fn outcome<'a, E>(call: BorrowedCall<'a, E>, path: &mut PathBuffer) -> Option<Option<EarlyReply>>
where
    E: Iterator<Item = &'a [u8]> + Clone,
{
    let BorrowedCall { name, arguments, environment, close } = call;
    let globals = globals::scan(arguments, |_| {});
    let verb = globals.verb.and_then(|at| arguments.get(at)).filter(|_| !globals.is_help);
    // A user's configuration is found by the wrapper. Root of a user namespace comes to the same
    // end where root of the host, whom such a namespace does not map, owns `/` (`files`).
    if globals.has_own || !geteuid().is_root() {
        return None;
    }
    let event = match globals.verb.filter(|_| verb.is_some_and(|verb| verbs::carries_event(verb))) {
        Some(at) => Some(Event::read(arguments, at, globals.root)?),
        None => None,
    };
    let called_as = file_name(name)?;
    let variables = Variables::read(environment.clone());
    let mut buffer = [MaybeUninit::uninit(); _];
    let settings = configuration::read(&variables, called_as, &mut buffer, close)?;
    if verb.is_some_and(|verb| *verb == b"exec") {
        let rest = globals.verb.and_then(|at| arguments.get(at + 1..))?;
        if !exec_marker::is_absent(rest, &settings) {
            return None;
        }
    }
    runtime::find(called_as, &settings, &variables, path)?;
    let Some(event) = event else { return Some(None) };
    event.ask(&settings, environment, path.as_c_str()?, close).map(Some)
}

/// Returns the file name in `argv[0]`.
fn file_name(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let is_name = !matches!(name, b"" | b"." | b"..") && core::str::from_utf8(name).is_ok();
    is_name.then_some(name)
}
