//! `exec`: what plugins gave a container is laid into a copy of the process document, as its engine
//! would do had it NRI of its own.
//!
//! No event, so `nrid` is not asked: a file in its state directory says whether there is anything
//! to do (`nri_control::ExecMarker`), and it is looked for only where a document was given. Without
//! one the runtime takes the process from the bundle, where it is adjusted already. This never
//! fails an `exec`: what goes wrong is a warning, and the real runtime gets what the caller gave
//! it.

use crate::{
    Error,
    args::Scanned,
    bypass,
    call::Call,
    exec::Target,
    exec_args::{self, ExecArgs},
    id,
    log_line::LogLine,
    memory, options, process,
};
use nri_control::{ExecChanges, ExecMarker, resolved_root};
use nri_locate::{LoadedConfig, NridOwner, runtime_root, working_dir};
use rustix::fs::{Mode, OFlags};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

/// Largest document and largest marker, in bytes. Real ones have some thousand.
const LIMIT: u64 = 4 << 20;
/// Descriptors that every process has.
const STDIO: i32 = 3;

/// Lets `target` read the copy, where the container is one that plugins changed.
pub(crate) fn adapt(
    call: &Call,
    scanned: &Scanned,
    loaded: &LoadedConfig,
    log: &LogLine,
    target: &mut Target,
) {
    let Some(args) = exec_args::read(&scanned.rest) else { return };
    // The real runtime says itself what is wrong with an id.
    let Ok(id) = id::check(&args.id) else { return };
    if let Err(e) = attempt(call, scanned, loaded, &args, id, log, target) {
        log.warning(&format!("exec in {id} goes on without what plugins gave the container: {e}"));
    }
}

fn attempt(
    call: &Call,
    scanned: &Scanned,
    loaded: &LoadedConfig,
    args: &ExecArgs,
    id: &str,
    log: &LogLine,
    target: &mut Target,
) -> Result<(), Error> {
    // Up to here and for most containers this costs a look at one file, and at the user namespace
    // where no state directory is configured.
    let state_dir = loaded.state_dir(&call.environment);
    let Some(marker) = read_marker(&state_dir, id)? else { return Ok(()) };
    if bypass::is_set(call, &loaded.config, log) {
        return Ok(());
    }
    let Some(changes) = changes(marker, &root(call, scanned, &target.runtime)) else {
        return Ok(());
    };
    let Some(document) = adapted(&working_dir().join(&args.process), &changes)? else {
        return Ok(());
    };
    let copy = memory::holding("process", &document)
        .and_then(|fd| above(fd, preserved(call, args)?))
        .map_err(|e| Error::System(e, "hand over the process document"))?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    target.set_rest(scanned, options::with_value(&scanned.rest, args.at, name.as_bytes()));
    target.inherited = Some(copy);
    Ok(())
}

/// The marker of containers with this id. Most containers have none.
fn read_marker(state_dir: &Path, id: &str) -> Result<Option<ExecMarker>, Error> {
    let path = ExecMarker::path(state_dir, id);
    let failed = |e: io::Error| Error::ExecFile(e, path.clone());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::open(&path, flags, Mode::empty()).map_err(io::Error::from) {
        Ok(fd) => File::from(fd),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(failed(e)),
    };
    // A user's may be in /tmp, where anybody could have made it: it decides on the environment of
    // processes.
    let me = rustix::process::geteuid().as_raw();
    let dir = std::fs::symlink_metadata(state_dir).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if dir.uid() != me || dir.mode() & 0o022 != 0 || meta.uid() != me || !meta.is_file() {
        let why = "it or the state directory is not of this user alone";
        return Err(failed(io::Error::new(ErrorKind::PermissionDenied, why)));
    }
    let content = bounded(file).map_err(failed)?;
    serde_json::from_slice(&content).map(Some).map_err(|e| Error::ExecJson(e, path))
}

/// The part of the container in this root.
fn changes(marker: ExecMarker, root: &Path) -> Option<ExecChanges> {
    marker.containers.into_iter().find(|c| c.root.as_path() == root).map(|c| c.changes)
}

/// Where the runtime keeps its containers, as `nrid` writes it.
fn root(call: &Call, scanned: &Scanned, runtime: &Path) -> PathBuf {
    let root = match scanned.root.as_deref().filter(|r| !r.is_empty()) {
        Some(root) => working_dir().join(root),
        None => {
            let name = runtime.file_name().unwrap_or_default().to_string_lossy();
            let runtime_dir = call.environment.var("XDG_RUNTIME_DIR").map(Path::new);
            runtime_root(&name, &NridOwner::of_this_process(&call.environment), runtime_dir)
        }
    };
    resolved_root(&root)
}

/// The document with the changes; `None` if it needs none, or cannot be opened, which the real
/// runtime says itself.
fn adapted(path: &Path, changes: &ExecChanges) -> Result<Option<Vec<u8>>, Error> {
    let failed = |e: io::Error| Error::ExecFile(e, path.to_owned());
    let Ok(meta) = std::fs::metadata(path) else { return Ok(None) };
    if !meta.is_file() {
        // What can be read only once is the real runtime's to read.
        return Err(failed(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")));
    }
    let Ok(file) = File::open(path) else { return Ok(None) };
    let content = bounded(file).map_err(failed)?;
    let malformed = |e: serde_json::Error| Error::ExecJson(e, path.to_owned());
    let mut document: Value = serde_json::from_slice(&content).map_err(malformed)?;
    let changed = process::lay_in(&mut document, changes)
        .map_err(|process::Malformed(member)| Error::ExecProcess(path.to_owned(), member))?;
    if changed { serde_json::to_vec(&document).map(Some).map_err(malformed) } else { Ok(None) }
}

fn bounded(file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LIMIT {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("larger than {LIMIT} bytes")));
    }
    Ok(content)
}

/// How many descriptors behind stdio the real runtime passes into the container.
fn preserved(call: &Call, args: &ExecArgs) -> io::Result<i32> {
    let number = |text: &std::ffi::OsStr| text.to_str().and_then(|t| t.parse::<u16>().ok());
    // runc counts these only if `LISTEN_PID` is its own; one place too high does no harm.
    let listen = call.environment.var("LISTEN_FDS").and_then(number).unwrap_or(0);
    let asked = match args.preserve_fds.as_deref() {
        None => 0,
        Some(text) => number(text).ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidInput, "--preserve-fds is not a number")
        })?,
    };
    Ok(i32::from(listen) + i32::from(asked))
}

/// A descriptor that the real runtime does not pass on.
fn above(fd: OwnedFd, preserved: i32) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, STDIO + preserved)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_are_passed_on() {
        let call = |entry: &str| Call::new(vec![], vec![entry.into()]);
        let of = |entry: &str, preserve: Option<&str>| {
            let args = ExecArgs {
                id: "id".into(),
                process: "p".into(),
                at: (0, 0),
                preserve_fds: preserve.map(Into::into),
            };
            preserved(&call(entry), &args).ok()
        };
        for (entry, preserve, expected) in [
            ("A=1", None, Some(0)),
            ("LISTEN_FDS=2", None, Some(2)),
            ("LISTEN_FDS=2", Some("3"), Some(5)),
            ("LISTEN_FDS=x", Some("3"), Some(3)),
            ("A=1", Some("0x3"), None),
            ("A=1", Some("-1"), None),
        ] {
            assert_eq!(of(entry, preserve), expected, "{entry} {preserve:?}");
        }
    }
}
