//! The `begin` message, which the wrapper sends to `nrid` before a verb.

use crate::{error::Error, invocation::Invocation};
use nri_locate::{HOOK, absolute, find_own_program, working_dir};
use nri_passthrough::{
    Sent,
    args::{verb_args::VerbArgs, verbs::Verb},
    bundle::open_bundle,
    names::CONFIG_JSON,
    request::BeginRequest,
};
use std::{
    ffi::{OsStr, OsString},
    io,
    mem::ManuallyDrop,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

/// An open bundle directory.
#[derive(Debug)]
pub(crate) struct OpenBundle {
    path: PathBuf,
    /// Path of the OCI config, relative to the bundle or absolute.
    config: PathBuf,
    pub(crate) fd: OwnedFd,
}

impl OpenBundle {
    /// Opens the bundle directory, unless it was opened for the request that was sent. Returns
    /// `None` if the bundle or its OCI config does not exist.
    pub(crate) fn open(
        args: &VerbArgs<'_>,
        sent: Option<&mut Sent>,
    ) -> Result<Option<Self>, Error> {
        let path = absolute(path_of(args.bundle.unwrap_or_default()));
        let config = config_name(args.config);
        if let Some(fd) = sent.and_then(|sent| sent.bundle.take()) {
            return Ok(Some(Self { path, config, fd: ManuallyDrop::into_inner(fd) }));
        }
        let opened = open_bundle(bytes_of(&path), bytes_of(&config));
        let opened = opened.map_err(|e| Error::Bundle(io::Error::from(e), path.clone()))?;
        Ok(opened.map(|fd| Self { path, config, fd: ManuallyDrop::into_inner(fd) }))
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
    resources: Option<&str>,
) -> Vec<u8> {
    let Invocation { call, command_line, .. } = invocation;
    let cwd = working_dir();
    let root = command_line.root().map(absolute);
    // `create` needs no hook: the wrapper reports its end.
    let hook = verb.execs().then(|| find_own_program(HOOK, &call.environment)).flatten();
    let request = BeginRequest {
        verb,
        id,
        runtime: bytes_of(runtime),
        root: root.as_deref().map(bytes_of),
        globals: texts(&command_line.globals),
        arguments: texts(&command_line.rest),
        bundle: bundle.map(|bundle| bytes_of(&bundle.path)),
        config: bundle.map(|bundle| bytes_of(&bundle.config)),
        cwd: bytes_of(&cwd),
        environment: texts(call.environment.entries()),
        resources,
        flag: args.flag,
        hook: hook.as_deref().map(bytes_of),
    };
    let mut message = Vec::new();
    // Memory that grows has room for every message.
    let _ = request.write(&mut message);
    message
}

fn texts(list: &[OsString]) -> impl Iterator<Item = &[u8]> {
    list.iter().map(|text| text.as_bytes())
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
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
