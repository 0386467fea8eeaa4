//! The request of a usual `create`, `start` or `delete` to `nrid`, without a C library.
//!
//! If `nrid` replies to `start` or `delete` that the wrapper becomes the runtime, nothing else is
//! left to do. The reply stays in the socket until then: whatever else it says, the wrapper reads
//! it after the C library's start, as if it had sent the request itself. The reply to `create` is
//! always read there: the C library starts while `nrid` works.

use crate::{
    args::{
        flags::CREATE,
        options::{Item, Options},
    },
    bundle::EarlyBundle,
    connection::{EarlyConnection, EarlyReply, MESSAGE_SIZE},
    json::JsonBuffer,
    names::{BYPASS_ENV, BYPASS_FILE, CONTROL_SOCKET},
    path_buffer::PathBuffer,
    settings::CallSettings,
    state_dir,
};
use core::ffi::CStr;
use rustix::{
    fd::RawFd,
    fs::{CWD, lstat, readlinkat_raw},
    io::Errno,
};

/// A reply with which the wrapper becomes the runtime: `proceed` with `exec`.
const PROCEED: &[u8] = concat!(
    r#"{"protocol":1,"version":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","message":{"proceed":{"arguments":null,"stdin":null,"exec":true}}}"#
)
.as_bytes();

/// Begin of a request.
const HEAD: &[u8] = concat!(
    r#"{"protocol":1,"version":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","message":{"begin":{"verb":"#
)
.as_bytes();

/// Longest path of a working directory that is sent from here.
const LONGEST_PATH: usize = 512;

/// Longest id that is sent from here; longer ones are not usual.
const LONGEST_ID: usize = 200;

/// A verb whose request is sent from here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    /// `create`, `start` or `delete`
    verb: &'a [u8],
    id: &'a [u8],
    /// `--bundle` of `create`, absolute.
    bundle: Option<&'a [u8]>,
    /// `--force`
    is_forced: bool,
    /// `--root`
    root: Option<&'a [u8]>,
    /// Arguments before the verb.
    globals: &'a [&'a [u8]],
    /// Arguments after the verb.
    rest: &'a [&'a [u8]],
}

impl<'a> Event<'a> {
    /// Reads a usual command line: the verb, an absolute or no root, an id, for `create` an
    /// absolute bundle and flags that `nrid` does not need, and for `delete` perhaps `--force`.
    /// `at` is the index of the verb.
    pub(crate) fn read(
        arguments: &'a [&'a [u8]],
        at: usize,
        root: Option<&'a [u8]>,
    ) -> Option<Self> {
        let (globals, rest) = (arguments.get(..at)?, arguments.get(at + 1..)?);
        let verb = *arguments.get(at)?;
        let (id, bundle, is_forced) = match (verb, rest) {
            (b"create", _) => {
                let (id, bundle) = read_create(rest)?;
                (id, Some(bundle), false)
            }
            (b"start" | b"delete", [id]) => (*id, None, false),
            (b"delete", [b"--force" | b"-f", id]) => (*id, None, true),
            _ => return None,
        };
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'/';
        let is_name = (1..=LONGEST_ID).contains(&id.len()) && id.iter().all(is_plain);
        if !is_name || id.starts_with(b"-") || matches!(id, b"." | b"..") {
            return None;
        }
        // An empty value counts as unset.
        let root = root.filter(|root| !root.is_empty());
        if root.is_some_and(|root| !root.starts_with(b"/")) {
            return None;
        }
        Some(Self { verb, id, bundle, is_forced, root, globals, rest })
    }

    /// Asks `nrid`. Returns `None` if nothing was sent, or if the connection is closed again.
    pub(crate) fn ask<E>(
        &self,
        settings: &CallSettings<'_>,
        environment: E,
        runtime: &CStr,
        close: fn(RawFd),
    ) -> Option<EarlyReply>
    where
        E: Iterator<Item = &'a [u8]> + Clone,
    {
        if settings.has_others || is_bypassed(environment.clone()) {
            return None;
        }
        let mut socket = PathBuffer::default();
        let directory = state_dir::of(settings)?;
        let socket = socket.set(&[directory, b"/", CONTROL_SOCKET.as_bytes()])?;
        let mut buffer = [0; MESSAGE_SIZE];
        let (header, rest) = buffer.split_first_chunk_mut()?;
        let mut message = JsonBuffer::new(rest);
        self.write(&mut message, environment, runtime)?;
        let length = message.as_bytes().len();
        *header = u32::try_from(length).ok()?.to_be_bytes();
        let request = buffer.get(..size_of::<u32>() + length)?;
        let Some(bundle) = self.bundle else {
            return EarlyConnection::open(socket, close)?.ask(request, PROCEED);
        };
        let bundle = EarlyBundle::open(bundle, close)?;
        let sent = EarlyConnection::open(socket, close)
            .and_then(|connection| connection.send_with(request, bundle.fd()));
        bundle.close();
        sent
    }

    /// Writes the request as `nri-control` encodes it.
    fn write(
        &self,
        json: &mut JsonBuffer<'_>,
        environment: impl Iterator<Item = &'a [u8]>,
        runtime: &CStr,
    ) -> Option<()> {
        json.raw(HEAD)?;
        json.text(self.verb)?;
        json.raw(br#","id":"#)?;
        json.text(self.id)?;
        json.raw(br#","runtime":"#)?;
        json.text(runtime.to_bytes())?;
        json.raw(br#","root":"#)?;
        match self.root {
            Some(root) => json.text(root)?,
            None => json.raw(b"null")?,
        }
        json.raw(br#","globals":"#)?;
        json.list(self.globals.iter().copied())?;
        json.raw(br#","arguments":"#)?;
        json.list(self.rest.iter().copied())?;
        json.raw(br#","bundle":"#)?;
        match self.bundle {
            Some(bundle) => {
                json.text(bundle)?;
                json.raw(br#","config":"config.json""#)?;
            }
            None => json.raw(br#"null,"config":null"#)?,
        }
        json.raw(br#","cwd":"#)?;
        write_working_dir(json)?;
        json.raw(br#","environment":"#)?;
        json.list(environment)?;
        json.raw(br#","resources":null,"flag":"#)?;
        json.raw(if self.is_forced { b"true" } else { b"false" })?;
        json.raw(br#","hook":null"#)?;
        if self.bundle.is_none() {
            json.raw(br#","follow":true"#)?;
        }
        json.raw(b"}}}")
    }
}

/// Reads the id and the bundle from the arguments of `create`.
fn read_create<'a>(arguments: &'a [&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
    let (mut id, mut bundle) = (None, None);
    for item in Options::new(arguments, CREATE) {
        match item {
            Item::Known { name: "config" | "help" | "usage", .. } | Item::Unknown(_) => {
                return None;
            }
            Item::Known { name: "bundle", value, .. } => bundle = value,
            Item::Word(index) => {
                if id.replace(*arguments.get(index)?).is_some() {
                    return None;
                }
            }
            Item::Known { .. } | Item::End => {}
        }
    }
    Some((id?, bundle.filter(|bundle| bundle.starts_with(b"/"))?))
}

/// Whether break-glass may be on; the wrapper decides after the C library's start.
fn is_bypassed<'a>(mut environment: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut file = PathBuffer::default();
    let is_absent = file
        .set(&[BYPASS_FILE.as_bytes()])
        .is_some_and(|file| matches!(lstat(file), Err(Errno::NOENT | Errno::NOTDIR)));
    !is_absent || environment.any(|entry| entry.starts_with(BYPASS_ENV.as_bytes()))
}

/// Writes the path of the working directory. Gives up on one that was removed.
fn write_working_dir(json: &mut JsonBuffer<'_>) -> Option<()> {
    let mut buffer = [0; LONGEST_PATH];
    let length = readlinkat_raw(CWD, c"/proc/self/cwd", &mut buffer[..]).ok()?;
    let path = buffer.get(..length).filter(|path| path.len() < LONGEST_PATH)?;
    if !path.starts_with(b"/") || path.ends_with(b" (deleted)") {
        return None;
    }
    json.text(path)
}
