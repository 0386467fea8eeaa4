//! `[runtime]`: where the real runtime is.

use crate::{paths, reference::section};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

section! {
    /// Which low-level runtime runs the containers; see [How the real runtime is
    /// found](#how-the-real-runtime-is-found).
    #[section("[runtime]", "The real runtime")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct RuntimeSettings {
        /// The real runtime. A bare name is searched in `PATH` and the standard directories.
        #[key(Path, Derived("the first candidate that exists."), "\"/usr/bin/crun\"")]
        #[serde(deserialize_with = "paths::program_option")]
        pub path: Option<PathBuf>,
        /// Runtimes to try, in order: the first that exists is used. A wrapper that is installed
        /// under the name of a candidate tries that candidate first.
        #[key(
            List("List of names or paths"),
            Derived("`[\"runc\", \"crun\", \"youki\"]`."),
            "[\"crun\", \"runc\"]"
        )]
        #[serde(deserialize_with = "paths::program_list")]
        pub candidates: Vec<PathBuf>,
        tables {
            names: BTreeMap<String, NamedRuntime>,
        }
    }
}

section! {
    /// Applies when the wrapper is called as `NAME`, for example by a symbolic link. Without a
    /// table for it, a link `nri-crun` runs `crun`.
    #[section("[runtime.names.NAME]", "Runtimes by the name of the wrapper")]
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct NamedRuntime {
        /// The real runtime for this name.
        #[key(Path, Required, "\"/usr/local/bin/crun\"")]
        #[serde(deserialize_with = "paths::program")]
        pub path: PathBuf,
    }
}
