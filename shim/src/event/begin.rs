//! The `begin` message, which the wrapper sends to `nrid` before a verb.

use crate::{error::Error, invocation::Invocation};
use nri_args::{verb_args::VerbArgs, verbs::Verb};
use nri_control::{Begin, FrameError, Request, encode};
use nri_files::OsText;
use nri_locate::{HOOK, absolute, find_own_program, working_dir};
use rustix::{
    fs::{AtFlags, Mode, OFlags, open, statat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

/// Name of the OCI config in a bundle.
const CONFIG_JSON: &str = "config.json";

/// An open bundle directory.
#[derive(Debug)]
pub(crate) struct OpenBundle {
    path: PathBuf,
    /// Path of the OCI config, relative to the bundle or absolute.
    config: PathBuf,
    pub(crate) fd: OwnedFd,
}

impl OpenBundle {
    /// Opens the bundle directory. Returns `None` if the bundle or its OCI config does not exist:
    /// then no container is created, and the real runtime reports that.
    pub(crate) fn open(args: &VerbArgs<'_>) -> Result<Option<Self>, Error> {
        let path = absolute(path_of(args.bundle.unwrap_or_default()));
        let config = config_name(args.config);
        let is_missing = |error| matches!(error, Errno::NOENT | Errno::NOTDIR);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open(&path, flags, Mode::empty()) {
            Err(error) if is_missing(error) => Ok(None),
            Err(error) => Err(Error::Bundle { path, source: error.into() }),
            Ok(fd) => {
                let found = statat(&fd, &config, AtFlags::empty());
                Ok((!found.is_err_and(is_missing)).then_some(Self { path, config, fd }))
            }
        }
    }
}

/// Encodes the `begin` message for `nrid`.
pub(crate) fn message(
    invocation: &Invocation<'_>,
    verb: Verb,
    id: &str,
    args: &VerbArgs<'_>,
    runtime: &Path,
    bundle: Option<&OpenBundle>,
    resources: Option<String>,
) -> Result<Vec<u8>, FrameError> {
    let Invocation { call, command_line, .. } = invocation;
    // `create` needs no hook: the wrapper reports its end.
    let hook = verb.execs().then(|| find_own_program(HOOK, &call.environment)).flatten();
    encode(&Request::Begin(Box::new(Begin {
        verb,
        id: id.to_owned(),
        runtime: runtime.into(),
        root: command_line.root().map(|root| (&absolute(root)).into()),
        globals: texts(&command_line.globals),
        arguments: texts(&command_line.rest),
        bundle: bundle.map(|bundle| (&bundle.path).into()),
        config: bundle.map(|bundle| (&bundle.config).into()),
        cwd: (&working_dir()).into(),
        environment: call.environment.entries().map(OsText::from).collect(),
        resources,
        flag: args.flag,
        hook: hook.as_ref().map(OsText::from),
        follow: verb.is_followed(),
    })))
}

fn texts(list: &[OsString]) -> Vec<OsText> {
    list.iter().map(OsText::from).collect()
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Returns the path of the OCI config, relative to the bundle or absolute: crun resolves `--config`
/// in the working directory, except for the name `config.json`, which is the file in the bundle.
fn config_name(given: Option<&[u8]>) -> PathBuf {
    match given {
        Some(path) if path != CONFIG_JSON.as_bytes() => absolute(path_of(path)),
        _ => CONFIG_JSON.into(),
    }
}
