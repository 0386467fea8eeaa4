//! Our own programs: beside this one, in the libexec directory, in PATH.

use crate::{
    environment::Environment,
    paths::LIBEXEC_DIR,
    search::{can_run, search_dirs},
};
use std::path::{Path, PathBuf};

/// Name of the daemon.
pub const NRID: &str = "nrid";
/// Name of the OCI hook.
pub const HOOK: &str = "nri-oci-hook";

/// Absolute path of a program of ours.
pub fn find_own_program(name: &str, environment: &Environment) -> Option<PathBuf> {
    own_program_dirs()
        .chain(search_dirs(environment))
        .map(|dir| dir.join(name))
        .find(|path| can_run(path))
}

/// Directories that hold our programs: that of this one, then the libexec directory.
pub fn own_program_dirs() -> impl Iterator<Item = PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    beside.into_iter().chain([PathBuf::from(LIBEXEC_DIR)])
}
