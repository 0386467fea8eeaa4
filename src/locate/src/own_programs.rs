//! Finds the programs of this project: in the directory of the running program, in the libexec
//! directory, or in PATH.

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
/// Name of the program that runs plugins that are WebAssembly modules.
pub const WASM_HOST: &str = "nri-wasm-host";

/// Returns the absolute path of a program of this project.
pub fn find_own_program(name: &str, environment: &Environment) -> Option<PathBuf> {
    own_program_dirs()
        .chain(search_dirs(environment))
        .map(|dir| dir.join(name))
        .find(|path| can_run(path))
}

/// Returns the absolute path of a program that is installed with the running program; PATH is not
/// searched.
pub fn find_installed(name: &str) -> Option<PathBuf> {
    own_program_dirs().map(|dir| dir.join(name)).find(|path| can_run(path))
}

/// Returns the directory of the running program, then the libexec directory.
pub fn own_program_dirs() -> impl Iterator<Item = PathBuf> {
    let own_dir = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    own_dir.into_iter().chain([PathBuf::from(LIBEXEC_DIR)])
}
