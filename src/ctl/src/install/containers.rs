//! Running containers of an engine that were created with the wrapper. `uninstall` refuses while
//! there are any: the engine would no longer know their runtime.
//!
//! The containers are found in the records of `nrid`, whether it runs or not. A record counts only
//! while a process with the recorded id and start time exists; otherwise the container has ended.

use super::{engines::kind::TargetEngine, install_root::InstallRoot, records::records};
use crate::{
    engine_containers::{few, name_and_id},
    units::counted,
};
use std::{fmt, path::Path};

/// Directory with a directory for each user who has logged in.
const USER_DIRS: &str = "/run/user";
/// Name of the state directory in each directory of [`USER_DIRS`].
const USER_STATE_DIR: &str = "nri-container-runtime";

/// Running containers as messages show them: by name and id, or by id alone.
#[derive(Debug)]
pub(crate) struct RunningContainers(Vec<String>);

impl RunningContainers {
    /// Finds the containers of an engine in the records of `state_dir` and, for an installation of
    /// the system, in those of users; `None` if none runs.
    pub(super) fn find(root: &InstallRoot, engine: TargetEngine, state_dir: &Path) -> Option<Self> {
        let users = root.real(Path::new(USER_DIRS)).and_then(std::fs::read_dir);
        let users = users
            .into_iter()
            .filter(|_| root.user().is_none())
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        let users = users.map(|user| Path::new(USER_DIRS).join(user).join(USER_STATE_DIR));
        let mut found = Vec::new();
        for dir in [state_dir.to_owned()].into_iter().chain(users) {
            let of_engine = records(root, &dir).into_iter().filter(|record| record.is_of(engine));
            let running = of_engine.filter(|record| record.is_running(root));
            found.extend(running.map(|record| name_and_id(record.name(), record.id())));
        }
        found.sort();
        (!found.is_empty()).then_some(Self(found))
    }
}

impl fmt::Display for RunningContainers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(all) = self;
        write!(f, "{} of the wrapper: {}", counted(all.len(), "running container"), few(all))
    }
}
