//! Adapts an `exec`: applies the changes that plugins made to a container's process to a copy of
//! the process file. In an engine with its own NRI, an `exec` has these changes, too.
//!
//! `exec` carries no event and does not call `nrid`: a marker file in `nrid`'s state directory has
//! the changes and limits (`nri_files::ExecMarker`), and is read only if there is a process file or
//! a flag that gives rights. Without a process file the runtime takes the process from
//! `config.json`, which is adjusted already.
//!
//! In a container without limits, an `exec` never fails here: a problem is logged as a warning, and
//! the real runtime reads the caller's process file. With limits, a problem refuses the `exec`, and
//! the runtime reads a copy of what was compared with them. If the marker exists and cannot be
//! used, it is unknown whether it has limits: then the configuration decides.

use super::{limits::Excess, process};
use crate::{
    answers::answers,
    args::replaced::{bytes, with_value},
    bypass,
    call::Call,
    error::Error,
    invocation::Invocation,
    runtime::{Target, memory},
};
use nri_args::{
    exec_args::{self, ExecArgs},
    id,
};
use nri_files::{ExecContainer, ExecMarker};
use nri_locate::{
    LoadedConfig, NridOwner, Owners, read_regular, resolved_root, runtime_root, working_dir,
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

/// Limit of the process file and of the marker, in bytes. Usual files have a few thousand bytes.
const LIMIT: u64 = 4 << 20;
/// Number of stdio descriptors.
const STDIO: i32 = 3;

/// Replaces the process file in `target` if plugins changed the container's process.
///
/// # Errors
/// The `exec` requests more than the limits of the container, or cannot be compared with them.
pub(crate) fn adapt(invocation: &Invocation<'_>, target: &mut Target) -> Result<(), Error> {
    let rest = bytes(&invocation.command_line.rest);
    let Some(args) = exec_args::read(&rest) else { return Ok(()) };
    // The real runtime reports an unacceptable id itself.
    let Ok(id) = id::check(args.id) else { return Ok(()) };
    let marker = match read_marker(&invocation.settings.state_dir, id) {
        Ok(None) => return Ok(()),
        _ if bypass::is_set(invocation) => return Ok(()),
        marker => marker,
    };
    let root = container_root(invocation, &target.runtime);
    let (adapted, is_limited) = match marker.map(|marker| container_in(marker?, &root)) {
        Ok(None) => return Ok(()),
        Ok(Some(container)) => {
            let adapted = attempt(invocation, &args, &container, target);
            (adapted, container.limits.is_some())
        }
        Err(e) => (Err(e), may_be_limited(invocation)),
    };
    match adapted {
        Err(e) if is_limited => Err(Error::ExecRefused { id: id.to_owned(), why: e.to_string() }),
        Err(e) => {
            let warning = format!("exec in {id} proceeds without the changes of plugins: {e}");
            invocation.log.warning(&warning);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn attempt(
    invocation: &Invocation<'_>,
    args: &ExecArgs<'_>,
    container: &ExecContainer,
    target: &mut Target,
) -> Result<(), Error> {
    let Invocation { call, command_line, .. } = *invocation;
    let Some(flag) = args.process else {
        return match &container.limits {
            Some(limits) => check(Excess::of(limits, &args.rights, None), Path::new("")),
            None => Ok(()),
        };
    };
    let path = working_dir().join(OsStr::from_bytes(flag.value));
    let Some(process) = adapted(&path, args, container)? else { return Ok(()) };
    let copy = memory::file_with("process", &process)
        .and_then(|fd| duplicate_above(fd, preserved(call, args)?))
        .map_err(|source| Error::System {
            action: "copy the process file for the real runtime",
            source,
        })?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    target.set_rest(command_line, with_value(&command_line.rest, flag.at, name.as_bytes()));
    target.inherited = Some(copy);
    Ok(())
}

/// Reads the marker of containers with this id. Most containers have none.
fn read_marker(state_dir: &Path, id: &str) -> Result<Option<ExecMarker>, Error> {
    let path = ExecMarker::path(state_dir, id);
    let content = match read_regular(&path, LIMIT) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        read => read.map_err(|source| Error::ExecFile { path: path.clone(), source })?,
    };
    // The marker sets the environment of processes, and limits them. The state directory of a user
    // may be in /tmp, where other users can create files.
    Owners::of_this_process()
        .check(&path)
        .map_err(|e| Error::ExecFile { path: path.clone(), source: io::Error::other(e) })?;
    serde_json::from_slice(&content).map(Some).map_err(|source| Error::ExecJson { path, source })
}

/// Returns the container in this root directory of the runtime.
fn container_in(marker: ExecMarker, root: &Path) -> Option<ExecContainer> {
    marker.containers.into_iter().find(|c| c.root.as_path() == root)
}

/// Whether containers may have limits, according to the configuration: also if it cannot be used.
fn may_be_limited(invocation: &Invocation<'_>) -> bool {
    let loaded = LoadedConfig::read(invocation.config, &invocation.call.environment, answers);
    loaded.problem.is_some() || loaded.config.exec.refuses()
}

/// Returns the error of an `exec` that requests more than the limits.
fn check(excess: Result<Excess, process::Malformed>, path: &Path) -> Result<(), Error> {
    let excess = excess.map_err(|malformed| malformed_process(path, malformed))?;
    if excess.is_empty() { Ok(()) } else { Err(Error::ExecLimits(excess)) }
}

fn malformed_process(path: &Path, process::Malformed(member): process::Malformed) -> Error {
    Error::ExecProcess { path: path.to_owned(), member }
}

/// Returns the directory where the runtime keeps its containers, with links resolved as in the
/// marker.
fn container_root(invocation: &Invocation<'_>, runtime: &Path) -> PathBuf {
    let root = match invocation.command_line.root() {
        Some(root) => working_dir().join(root),
        None => {
            let environment = &invocation.call.environment;
            let name = runtime.file_name().unwrap_or_default().to_string_lossy();
            let runtime_dir = environment.var("XDG_RUNTIME_DIR").map(Path::new);
            runtime_root(&name, &NridOwner::of_this_process(environment), runtime_dir)
        }
    };
    resolved_root(&root)
}

/// Returns the process file with the changes applied. Returns `None` in a container without limits
/// if nothing changes, or if the file cannot be opened, which the real runtime reports itself.
fn adapted(
    path: &Path,
    args: &ExecArgs<'_>,
    ExecContainer { changes, limits, .. }: &ExecContainer,
) -> Result<Option<Vec<u8>>, Error> {
    let content = match read_regular(path, LIMIT) {
        Ok(content) => content,
        // A pipe, for example, can be read only once, by the real runtime.
        Err(e)
            if limits.is_some()
                || matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::FileTooLarge) =>
        {
            return Err(Error::ExecFile { path: path.to_owned(), source: e });
        }
        Err(_) => return Ok(None),
    };
    let malformed = |e: serde_json::Error| Error::ExecJson { path: path.to_owned(), source: e };
    let mut process: Value = serde_json::from_slice(&content).map_err(malformed)?;
    if let Some(limits) = limits {
        check(Excess::of(limits, &args.rights, Some(&process)), path)?;
    }
    let changed = process::apply(&mut process, changes).map_err(|e| malformed_process(path, e))?;
    // The file of the caller may change until the real runtime reads it.
    if changed || limits.is_some() {
        serde_json::to_vec(&process).map(Some).map_err(malformed)
    } else {
        Ok(None)
    }
}

/// Returns the number of descriptors after stdio that the real runtime passes into the container.
fn preserved(call: &Call, args: &ExecArgs<'_>) -> io::Result<i32> {
    let number =
        |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<u16>().ok());
    // runc passes these descriptors only if `LISTEN_PID` is its process id. If runc does not, the
    // count is too large, which only leaves numbers unused.
    let listen =
        call.environment.var("LISTEN_FDS").map(OsStr::as_bytes).and_then(number).unwrap_or(0);
    let requested = match args.preserve_fds {
        None => 0,
        Some(text) => number(text).ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidInput, "--preserve-fds is not a number")
        })?,
    };
    Ok(i32::from(listen) + i32::from(requested))
}

/// Duplicates `fd` to a number above the descriptors that the real runtime passes into the
/// container.
fn duplicate_above(fd: OwnedFd, preserved: i32) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, STDIO + preserved)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_args::exec_args::RightsFlags;
    use std::ffi::CStr;

    #[test]
    fn preserved_descriptors_are_counted() {
        let of = |entry: &'static CStr, preserve: Option<&str>| {
            let args = ExecArgs {
                id: b"id",
                process: None,
                preserve_fds: preserve.map(str::as_bytes),
                rights: RightsFlags::default(),
            };
            preserved(&Call::new(&[], vec![entry]), &args).ok()
        };
        for (entry, preserve, expected) in [
            (c"A=1", None, Some(0)),
            (c"LISTEN_FDS=2", None, Some(2)),
            (c"LISTEN_FDS=2", Some("3"), Some(5)),
            (c"LISTEN_FDS=x", Some("3"), Some(3)),
            (c"A=1", Some("0x3"), None),
            (c"A=1", Some("-1"), None),
        ] {
            assert_eq!(of(entry, preserve), expected, "{entry:?} {preserve:?}");
        }
    }
}
