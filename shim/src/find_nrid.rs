//! Finds our own other programs: beside this one, in the libexec directory, in PATH.

use crate::{call::Call, search};
use nri_config::LIBEXEC_DIR;
use std::path::{Path, PathBuf};

/// The service.
pub(crate) const NRID: &str = "nrid";
/// The hook.
pub(crate) const HOOK: &str = "nri-oci-hook";

/// Absolute path of a program of ours.
pub(crate) fn find(program: &str, call: &Call) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    beside
        .into_iter()
        .chain([PathBuf::from(LIBEXEC_DIR)])
        .chain(search::dirs(call))
        .map(|dir| dir.join(program))
        .find(|path| search::can_run(path))
}
