//! Where programs are looked for, and what makes a file one that can be run.

use crate::{call::Call, error::Unusable};
use nri_config::SEARCH_PATH;
use std::{
    ffi::OsStr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// PATH, then the standard directories: Podman leaves PATH unset for some verbs. Relative entries
/// are left out, since what an engine's working directory holds is nobody's decision.
pub(crate) fn dirs(call: &Call) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    let path = call.var("PATH").unwrap_or_default();
    for dir in std::env::split_paths(path).chain(std::env::split_paths(SEARCH_PATH)) {
        if dir.is_absolute() && !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// Device and inode of the running program, which tell it from any other file whatever its names
/// are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ourselves(Option<(u64, u64)>);

impl Ourselves {
    /// Without /proc, from the path that this program was started by.
    pub(crate) fn identify() -> Self {
        let meta = std::fs::metadata("/proc/self/exe").or_else(|_| {
            use std::os::unix::ffi::OsStrExt;
            std::fs::metadata(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()))
        });
        Self(meta.ok().map(|m| (m.dev(), m.ino())))
    }

    /// Whether `path` is a file that can be run and is another program.
    pub(crate) fn check(self, path: &Path) -> Result<(), Unusable> {
        let meta = std::fs::metadata(path).map_err(|_| Unusable::NotFound)?;
        if self.0 == Some((meta.dev(), meta.ino())) {
            return Err(Unusable::Ourselves);
        }
        if !is_executable(path, &meta) {
            return Err(Unusable::NotExecutable);
        }
        Ok(())
    }
}

/// Whether `path` is a file that this process may run.
pub(crate) fn can_run(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| is_executable(path, &meta))
}

fn is_executable(path: &Path, meta: &std::fs::Metadata) -> bool {
    meta.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
