//! Adapts an `exec`: applies the changes that plugins made to a container's process to a copy of
//! the process file. In an engine with its own NRI, an `exec` has these changes, too.
//!
//! `exec` carries no event and does not call `nrid`: a marker file in `nrid`'s state directory has
//! the changes (`nri_files::ExecMarker`), and is read only if a process file is given. Without a
//! process file the runtime takes the process from `config.json`, which is adjusted already. An
//! `exec` never fails here: a problem is logged as a warning, and the real runtime reads the
//! caller's process file.

use super::process;
use crate::{
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
use nri_files::{ExecChanges, ExecMarker};
use nri_locate::{NridOwner, Owners, read_regular, resolved_root, runtime_root, working_dir};
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
pub(crate) fn adapt(invocation: &Invocation<'_>, target: &mut Target) {
    let rest = bytes(&invocation.command_line.rest);
    let Some(args) = exec_args::read(&rest) else { return };
    // The real runtime reports an unacceptable id itself.
    let Ok(id) = id::check(args.id) else { return };
    if let Err(e) = attempt(invocation, &args, id, target) {
        let warning = format!("exec in {id} proceeds without the changes of plugins: {e}");
        invocation.log.warning(&warning);
    }
}

fn attempt(
    invocation: &Invocation<'_>,
    args: &ExecArgs<'_>,
    id: &str,
    target: &mut Target,
) -> Result<(), Error> {
    let Invocation { call, command_line, .. } = *invocation;
    let Some(marker) = read_marker(&invocation.settings.state_dir, id)? else { return Ok(()) };
    if bypass::is_set(invocation) {
        return Ok(());
    }
    let root = container_root(invocation, &target.runtime);
    let Some(changes) = changes_in(marker, &root) else { return Ok(()) };
    let Some(process) = adapted(&working_dir().join(OsStr::from_bytes(args.process)), &changes)?
    else {
        return Ok(());
    };
    let copy = memory::file_with("process", &process)
        .and_then(|fd| duplicate_above(fd, preserved(call, args)?))
        .map_err(|source| Error::System {
            action: "copy the process file for the real runtime",
            source,
        })?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    target.set_rest(command_line, with_value(&command_line.rest, args.at, name.as_bytes()));
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
    // The marker sets the environment of processes. The state directory of a user may be in /tmp,
    // where other users can create files.
    Owners::of_this_process()
        .check(&path)
        .map_err(|e| Error::ExecFile { path: path.clone(), source: io::Error::other(e) })?;
    serde_json::from_slice(&content).map(Some).map_err(|source| Error::ExecJson { path, source })
}

/// Returns the changes for the container in this root directory of the runtime.
fn changes_in(marker: ExecMarker, root: &Path) -> Option<ExecChanges> {
    marker.containers.into_iter().find(|c| c.root.as_path() == root).map(|c| c.changes)
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

/// Returns the process file with the changes applied; `None` if nothing changes, or if the file
/// cannot be opened, which the real runtime reports itself.
fn adapted(path: &Path, changes: &ExecChanges) -> Result<Option<Vec<u8>>, Error> {
    let content = match read_regular(path, LIMIT) {
        Ok(content) => content,
        // A pipe, for example, can be read only once, by the real runtime.
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::FileTooLarge) => {
            return Err(Error::ExecFile { path: path.to_owned(), source: e });
        }
        Err(_) => return Ok(None),
    };
    let malformed = |e: serde_json::Error| Error::ExecJson { path: path.to_owned(), source: e };
    let mut process: Value = serde_json::from_slice(&content).map_err(malformed)?;
    let changed = process::apply(&mut process, changes).map_err(|process::Malformed(member)| {
        Error::ExecProcess { path: path.to_owned(), member }
    })?;
    if changed { serde_json::to_vec(&process).map(Some).map_err(malformed) } else { Ok(None) }
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
    use std::ffi::CStr;

    #[test]
    fn preserved_descriptors_are_counted() {
        let of = |entry: &'static CStr, preserve: Option<&str>| {
            let args = ExecArgs {
                id: b"id",
                process: b"p",
                at: (0, 0),
                preserve_fds: preserve.map(str::as_bytes),
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
