//! Options, peers and the cgroup, which all measurements share.

use crate::{
    accounting::Cgroup,
    options::Options,
    peers::{Peers, Runtime},
    row::Row,
};
use nri_integration::runtimes;
use std::path::{Path, PathBuf};

/// Values that all measurements share.
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

    /// Measures with each runtime that can run containers on this machine, and prints why the
    /// others are skipped.
    pub(crate) fn with_each_runtime(
        &self,
        measure: impl Fn(&Runtime) -> Result<Vec<Row>, String>,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        for runtime in &self.peers.runtimes {
            match self.check(runtime).and_then(|()| measure(runtime)) {
                Ok(more) => rows.extend(more),
                Err(reason) => eprintln!("{}: skipped: {reason}", runtime.name),
            }
        }
        rows
    }

    /// Checks that a runtime can run containers on this machine.
    ///
    /// # Errors
    /// The reason why the runtime cannot.
    pub(crate) fn check(&self, runtime: &Runtime) -> Result<(), String> {
        let is_hybrid = Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists();
        if runtime.name == "crun" && is_hybrid {
            // For a controller that is not mounted, crun creates files on the tmpfs
            // `/sys/fs/cgroup`.
            return Err("crun does not support hybrid cgroups".to_owned());
        }
        let (_, unfit) = runtimes();
        let reason = unfit.iter().find(|(name, _)| *name == runtime.name);
        reason.map_or(Ok(()), |(_, reason)| Err(reason.clone()))
    }
}
