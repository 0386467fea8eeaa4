//! Decides what becomes of one call, if it is a usual one.

use crate::{
    args::{
        globals,
        verb_args::{self, Subject},
        verbs::Verb,
    },
    bundle::open_bundle,
    connection::{self, MESSAGE_SIZE, Sent},
    environment::variable,
    exec_marker,
    json::FixedBuffer,
    names::{BYPASS_ENV, BYPASS_FILE, CONFIG_ENV, CONFIG_FILE, CONFIG_JSON, CONTROL_SOCKET},
    path_buffer::PathBuffer,
    published,
    request::BeginRequest,
    runtime::{self, RuntimeRequest},
    settings::CallSettings,
};
use core::{
    ffi::CStr,
    mem::{ManuallyDrop, MaybeUninit},
};
use rustix::{
    fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    fs::{CWD, lstat, readlinkat_raw},
    io::Errno,
};

/// Longest path of a working directory that is sent from here.
const LONGEST_PATH: usize = 512;

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
    /// The wrapper decides after the C library's start, and reads the reply if a request was sent.
    /// It may still pass the call through.
    Later(Option<Sent>),
}

/// What is left to do before the runtime runs.
enum Step {
    /// Nothing.
    BecomeRuntime,
    /// The verb waits for the reply to this request.
    Wait(Verb, Sent),
}

/// Decides on a call. The path of the runtime is put into `path`.
pub fn decide<'a, 'p, E>(call: BorrowedCall<'a, E>, path: &'p mut PathBuffer) -> Decision<'p>
where
    E: Iterator<Item = &'a [u8]> + Clone,
{
    let sent = match step(call, path) {
        None => return Decision::Later(None),
        Some(Step::BecomeRuntime) => None,
        Some(Step::Wait(verb, sent)) => {
            if !verb.is_followed() || !sent.is_reply_expected() {
                return Decision::Later(Some(sent));
            }
            Some(sent)
        }
    };
    match path.as_c_str() {
        Some(path) => Decision::Runtime(path, sent),
        None => Decision::Later(sent),
    }
}

/// Returns the file name in `argv[0]`.
pub fn base_name(name: &[u8]) -> Option<&[u8]> {
    let name = name.rsplit(|byte| *byte == b'/').next()?;
    (!matches!(name, b"" | b"." | b"..")).then_some(name)
}

/// Finds the runtime, and sends a request if the verb has an event. Returns `None` if the wrapper
/// must do so.
fn step<'a, E>(call: BorrowedCall<'a, E>, path: &mut PathBuffer) -> Option<Step>
where
    E: Iterator<Item = &'a [u8]> + Clone,
{
    let BorrowedCall { name, arguments, environment, close } = call;
    let globals = globals::scan(arguments, |_| {});
    if globals.has_own {
        return None;
    }
    let of = |name| variable(environment.clone(), name);
    let mut buffer = [MaybeUninit::uninit(); _];
    let config = of(CONFIG_ENV).unwrap_or(CONFIG_FILE.as_bytes());
    let settings = published::read(config, &mut buffer, close)?;
    let request = RuntimeRequest {
        option: None,
        variable: of(crate::names::RUNTIME_ENV),
        called_as: base_name(name),
        path: of("PATH"),
    };
    runtime::find(&request, &settings, path).ok()?;
    let at = globals.verb.filter(|_| !globals.is_help && !settings.is_disabled());
    let Some((at, word)) = at.and_then(|at| Some((at, *arguments.get(at)?))) else {
        return Some(Step::BecomeRuntime);
    };
    let rest = arguments.get(at + 1..)?;
    let Some(verb) = Verb::of(word) else {
        let is_unchanged = word != b"exec" || exec_marker::is_absent(rest, settings.state_dir());
        return is_unchanged.then_some(Step::BecomeRuntime);
    };
    let args = verb_args::read(verb, rest);
    let id = match args.subject(verb) {
        Subject::Container(id) => id,
        Subject::None => return Some(Step::BecomeRuntime),
        Subject::Unacceptable(..) => return None,
    };
    // Usual are absolute paths, and the OCI config of the bundle. An empty value counts as unset.
    let root = globals.root.filter(|root| !root.is_empty());
    let bundle = args.bundle.filter(|_| verb.has_bundle());
    let is_absolute = |path: &[u8]| path.starts_with(b"/");
    let is_usual = matches!(verb, Verb::Create | Verb::Start | Verb::Delete)
        && root.is_none_or(is_absolute)
        && (bundle.is_some_and(is_absolute) || !verb.has_bundle())
        && args.config.is_none();
    if !is_usual || may_be_bypassed(environment.clone()) {
        return None;
    }
    let mut cwd = [0; LONGEST_PATH];
    let request = BeginRequest {
        verb,
        id,
        runtime: path.as_c_str()?.to_bytes(),
        root,
        globals: arguments.get(..at)?.iter().copied(),
        arguments: rest.iter().copied(),
        bundle,
        config: bundle.map(|_| CONFIG_JSON.as_bytes()),
        cwd: working_dir(&mut cwd)?,
        environment,
        resources: None,
        flag: args.flag,
        hook: None,
    };
    let mut buffer = [0; MESSAGE_SIZE];
    let (header, message) = buffer.split_first_chunk_mut()?;
    let mut message = FixedBuffer::new(message);
    request.write(&mut message)?;
    let length = message.length;
    *header = u32::try_from(length).ok()?.to_be_bytes();
    let message = buffer.get(..size_of::<u32>() + length)?;
    let bundle = match bundle {
        None => None,
        Some(directory) => match open_bundle(directory, CONFIG_JSON.as_bytes()).ok()? {
            None => return Some(Step::BecomeRuntime),
            opened => opened,
        },
    };
    send(message, bundle, &settings, close).map(|sent| Step::Wait(verb, sent))
}

/// Sends a request. Returns `None` if it was not sent; then nothing is left open.
fn send(
    message: &[u8],
    bundle: Option<ManuallyDrop<OwnedFd>>,
    settings: &CallSettings<'_>,
    close: fn(RawFd),
) -> Option<Sent> {
    let mut socket: PathBuffer = PathBuffer::default();
    let socket = socket.set(&[settings.state_dir(), b"/", CONTROL_SOCKET.as_bytes()])?;
    // Stdio that the caller has closed must not become the directory.
    let is_above_stdio = bundle.as_ref().is_none_or(|bundle| bundle.as_raw_fd() > 2);
    let fd = bundle.as_ref().map(|bundle| bundle.as_fd());
    let connection =
        is_above_stdio.then(|| connection::send(socket, message, fd.as_slice(), close)).flatten();
    if connection.is_none() {
        bundle.iter().for_each(|bundle| close(bundle.as_raw_fd()));
    }
    Some(Sent { connection: connection?, bundle })
}

/// Whether break-glass may be on; the wrapper decides after the C library's start.
fn may_be_bypassed<'a>(environment: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut file: PathBuffer = PathBuffer::default();
    let is_absent = file
        .set(&[BYPASS_FILE.as_bytes()])
        .is_some_and(|file| matches!(lstat(file), Err(Errno::NOENT | Errno::NOTDIR)));
    !is_absent || variable(environment, BYPASS_ENV).is_some()
}

/// Returns the path of the working directory, unless it is long or was removed.
fn working_dir(buffer: &mut [u8; LONGEST_PATH]) -> Option<&[u8]> {
    let length = readlinkat_raw(CWD, c"/proc/self/cwd", &mut buffer[..]).ok()?;
    let path = buffer.get(..length).filter(|path| path.len() < LONGEST_PATH)?;
    (path.starts_with(b"/") && !path.ends_with(b" (deleted)")).then_some(path)
}
