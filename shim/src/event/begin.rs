//! The `begin` message, which the wrapper sends to `nrid` before a verb.

use super::policy::VerbPolicy;
use crate::{args::verb_args::VerbArgs, error::Error, invocation::Invocation};
use nri_control::{Begin, OsText, Verb};
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

const CONFIG_JSON: &str = "config.json";

/// An open bundle directory.
#[derive(Debug)]
pub(crate) struct OpenBundle {
    path: PathBuf,
    pub(crate) fd: OwnedFd,
}

impl OpenBundle {
    /// Opens the bundle directory. Returns `None` if the verb has no bundle.
    pub(crate) fn open(verb: Verb, args: &VerbArgs) -> Result<Option<Self>, Error> {
        if !verb.has_bundle() {
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

/// Whether the bundle or its `config.json` does not exist, so that no container can be created.
pub(crate) fn is_bundle_missing(verb: Verb, args: &VerbArgs) -> bool {
    if !verb.has_bundle() {
        return false;
    }
    let bundle = bundle_path(args);
    let config = bundle.join(config_name(args.config.as_deref()));
    let missing = |path| matches!(rustix::fs::stat(path), Err(Errno::NOENT | Errno::NOTDIR));
    missing(bundle.as_path()) || missing(config.as_path())
}

/// Builds the `begin` message for `nrid`.
pub(crate) fn message(
    invocation: &Invocation<'_>,
    verb: Verb,
    id: &str,
    args: &VerbArgs,
    runtime: &Path,
    bundle: Option<&OpenBundle>,
    resources: Option<String>,
) -> Begin {
    let Invocation { call, command_line, .. } = invocation;
    let texts = |list: &[OsString]| list.iter().map(OsText::from).collect();
    let root = command_line.root.as_deref().filter(|root| !root.is_empty());
    let hook = bundle.and_then(|_| find_own_program(HOOK, &call.environment));
    Begin {
        verb,
        id: id.to_owned(),
        runtime: runtime.into(),
        root: root.map(|root| (&absolute(Path::new(root))).into()),
        globals: texts(&command_line.globals),
        arguments: texts(&command_line.rest),
        bundle: bundle.map(|b| (&b.path).into()),
        config: bundle.map(|_| (&config_name(args.config.as_deref())).into()),
        cwd: (&working_dir()).into(),
        environment: texts(call.environment.entries()),
        resources,
        flag: args.flag,
        hook: hook.map(|path| (&path).into()),
        follow: matches!(verb, Verb::Start | Verb::Delete),
    }
}

/// Returns the path of the OCI config, relative to the bundle or absolute: crun resolves `--config`
/// in the working directory, except for the name `config.json`, which is the file in the bundle.
fn config_name(given: Option<&OsStr>) -> PathBuf {
    match given {
        Some(path) if path != CONFIG_JSON => absolute(Path::new(path)),
        _ => CONFIG_JSON.into(),
    }
}

/// Returns the bundle directory: `--bundle`, or the working directory.
fn bundle_path(args: &VerbArgs) -> PathBuf {
    absolute(Path::new(args.bundle.as_deref().unwrap_or_default()))
}
