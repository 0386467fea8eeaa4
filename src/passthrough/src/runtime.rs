//! Selects and finds the real runtime, as `nri-locate` does.

use crate::{
    names::{DEFAULT_RUNTIMES, NAME_PREFIX, OWN_NAME, SEARCH_PATH},
    path_buffer::PathBuffer,
    settings::CallSettings,
    variables::Variables,
};
use core::ffi::CStr;
use rustix::fs::{Access, FileType, access, stat};

/// Device and inode of a file.
type FileId = (u64, u64);

/// Puts the path of the real runtime into `path`. Returns `None` if no runtime is found, or if this
/// crate cannot tell.
pub(crate) fn find(
    called_as: &[u8],
    settings: &CallSettings<'_>,
    variables: &Variables<'_>,
    path: &mut PathBuffer,
) -> Option<()> {
    let own = stat(c"/proc/self/exe").ok().map(|own| (own.st_dev, own.st_ino))?;
    let directories = variables.path;
    if let Some(named) = named(called_as, settings, variables) {
        return find_named(named, directories, own, path)?.then_some(());
    }
    let defaults = DEFAULT_RUNTIMES.map(str::as_bytes);
    // A wrapper installed under the name of a runtime runs that runtime.
    let first = defaults.iter().filter(|name| **name == called_as);
    let others = defaults.iter().filter(|name| **name != called_as);
    for name in first.chain(others) {
        if find_named(name, directories, own, path)? {
            return Some(());
        }
    }
    None
}

/// Returns the path or name of the runtime, if one is named.
fn named<'a>(
    called_as: &'a [u8],
    settings: &CallSettings<'a>,
    variables: &Variables<'a>,
) -> Option<&'a [u8]> {
    let linked = called_as
        .strip_prefix(NAME_PREFIX.as_bytes())
        .filter(|name| !name.is_empty() && *name != OWN_NAME.as_bytes());
    variables.runtime.or(settings.named).or(linked).or(settings.runtime)
}

/// Puts the first executable path of this name into `path`. Returns whether one exists, or `None`
/// if this crate cannot tell because a path is relative or too long.
fn find_named(
    name: &[u8],
    directories: Option<&[u8]>,
    own: FileId,
    path: &mut PathBuffer,
) -> Option<bool> {
    if name.starts_with(b"/") {
        return Some(can_run(path.set(&[name])?, own));
    }
    if name.contains(&b'/') || matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let directories = directories.into_iter().chain([SEARCH_PATH.as_bytes()]);
    for directory in directories.flat_map(|list| list.split(|byte| *byte == b':')) {
        // Relative entries would name programs in the working directory of an engine.
        if !directory.starts_with(b"/") {
            continue;
        }
        let separator: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
        if can_run(path.set(&[directory, separator, name])?, own) {
            return Some(true);
        }
    }
    Some(false)
}

/// Whether the path is a regular file, other than this program, that this process may execute.
fn can_run(path: &CStr, own: FileId) -> bool {
    stat(path).is_ok_and(|found| {
        (found.st_dev, found.st_ino) != own
            && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
    }) && access(path, Access::EXEC_OK).is_ok()
}
