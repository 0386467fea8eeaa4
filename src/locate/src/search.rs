//! Directories in which programs are searched, and the check for executable files.

use crate::{environment::Environment, paths::SEARCH_PATH};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Returns the directories of PATH, then the standard ones: Podman leaves PATH unset for some
/// verbs. Relative entries are skipped: they would name programs in the working directory of an
/// engine.
pub fn search_dirs(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let lists = environment.var("PATH").into_iter().chain([OsStr::new(SEARCH_PATH)]);
    lists
        .flat_map(|list| list.as_bytes().split(|byte| *byte == b':'))
        .filter(|directory| directory.starts_with(b"/"))
        .map(|directory| OsStr::from_bytes(directory).into())
}

/// Returns only the standard directories, for programs that do not run in the environment of an
/// engine.
pub fn standard_dirs() -> impl Iterator<Item = PathBuf> {
    SEARCH_PATH.split(':').map(PathBuf::from)
}

/// Whether `path` is a regular file that this process may execute.
pub fn can_run(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
