//! Directories in which programs are searched, and the check for executable files.

use crate::{environment::Environment, paths::SEARCH_PATH};
use std::path::{Path, PathBuf};

/// Returns the directories of PATH, then the standard directories: Podman leaves PATH unset for
/// some verbs.
///
/// Relative entries are skipped: they would name programs in the working directory of an engine.
pub fn search_dirs(environment: &Environment) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    let path = environment.var("PATH").unwrap_or_default();
    for dir in std::env::split_paths(path).chain(standard_dirs()) {
        if dir.is_absolute() && !dirs.contains(&dir) {
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
