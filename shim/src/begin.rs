//! What `nrid` is told before a verb.

use crate::{Error, event::Event, verb::Policy, verb_args::VerbArgs};
use nri_control::{Begin, OsText};
use nri_locate::{HOOK, absolute, find_own_program, working_dir};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

const DOCUMENT: &str = "config.json";

/// A bundle directory, open.
#[derive(Debug)]
pub(crate) struct Bundle {
    path: PathBuf,
    pub(crate) fd: OwnedFd,
}

impl Bundle {
    /// Opens the bundle of a verb that has one.
    pub(crate) fn open(event: &Event<'_>, args: &VerbArgs) -> Result<Option<Self>, Error> {
        if !event.verb.has_bundle() {
            return Ok(None);
        }
        let path = bundle_path(args);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { path, fd })),
            Err(e) => Err(Error::Bundle(e.into(), path)),
        }
    }
}

/// Whether there is nothing that a container could be made of: no directory, or no document in it.
pub(crate) fn is_missing(event: &Event<'_>, args: &VerbArgs) -> bool {
    if !event.verb.has_bundle() {
        return false;
    }
    let bundle = bundle_path(args);
    let path = match args.config.as_deref() {
        Some(path) if path != DOCUMENT => absolute(Path::new(path)),
        _ => bundle.join(DOCUMENT),
    };
    let missing = |path| matches!(rustix::fs::stat(path), Err(Errno::NOENT | Errno::NOTDIR));
    missing(bundle.as_path()) || missing(path.as_path())
}

/// The message.
pub(crate) fn message(
    event: &Event<'_>,
    runtime: &Path,
    id: &str,
    args: &VerbArgs,
    bundle: Option<&Bundle>,
    resources: Option<String>,
) -> Begin {
    let texts = |list: &[OsString]| list.iter().map(OsText::from).collect();
    Begin {
        verb: event.verb,
        id: id.to_owned(),
        runtime: runtime.into(),
        root: event
            .scanned
            .root
            .as_deref()
            .filter(|r| !r.is_empty())
            .map(|r| (&absolute(Path::new(r))).into()),
        globals: texts(&event.scanned.globals),
        arguments: texts(&event.scanned.rest),
        bundle: bundle.map(|b| (&b.path).into()),
        config: bundle.map(|_| document(args.config.as_deref())),
        cwd: (&working_dir()).into(),
        environment: texts(event.call.environment.entries()),
        resources,
        flag: args.flag,
        hook: bundle
            .and_then(|_| find_own_program(HOOK, &event.call.environment))
            .map(|path| (&path).into()),
    }
}

/// crun reads `--config` from the working directory, unless it is the usual name, which is the
/// bundle's.
fn document(given: Option<&OsStr>) -> OsText {
    match given {
        Some(path) if path != DOCUMENT => (&absolute(Path::new(path))).into(),
        _ => DOCUMENT.into(),
    }
}

/// An absolute path; an empty one is the working directory.
fn bundle_path(args: &VerbArgs) -> PathBuf {
    absolute(Path::new(args.bundle.as_deref().unwrap_or_default()))
}
