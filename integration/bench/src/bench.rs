//! What all measurements have: options, peers, a cgroup.

use crate::{
    accounting::Cgroup,
    options::Options,
    peers::{Peers, Runtime},
};
use nri_integration::runtimes;
use std::path::{Path, PathBuf};

/// What all measurements have.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) peers: Peers,
    pub(crate) cgroup: Cgroup,
}

impl Bench {
    /// Path of a program of this crate.
    pub(crate) fn own_program(&self, name: &str) -> PathBuf {
        nri_integration::program_dir().join(name)
    }

    /// Whether a runtime can run containers here.
    ///
    /// # Errors
    /// The reason why not.
    pub(crate) fn check(&self, runtime: &Runtime) -> Result<(), String> {
        let is_hybrid = Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists();
        if runtime.name == "crun" && is_hybrid {
            // It keeps files of missing controllers on the tmpfs beside the others.
            return Err("crun does not know hybrid cgroups".to_owned());
        }
        let (_, unfit) = runtimes();
        let reason = unfit.iter().find(|(name, _)| *name == runtime.name);
        reason.map_or(Ok(()), |(_, reason)| Err(reason.clone()))
    }
}
