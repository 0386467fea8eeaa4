//! Directories in which programs are searched, and the check for executable files.

use crate::{environment::Environment, paths::SEARCH_PATH};
use nri_passthrough::runtime;
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Returns the directories of PATH, then the standard directories, each once.
pub fn search_dirs(environment: &Environment) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    let path = environment.var("PATH").map(OsStr::as_bytes);
    for dir in runtime::search_dirs(path).map(|dir| PathBuf::from(OsStr::from_bytes(dir))) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
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
