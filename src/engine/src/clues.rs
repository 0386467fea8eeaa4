//! [`Clues`]: the input of the recognition of engines.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Annotations, labels or environment variables.
pub type Map = BTreeMap<String, String>;

/// Facts about a container by which its engine is recognized.
#[derive(Debug, Clone, Copy)]
pub struct Clues<'a> {
    /// Container id in the arguments of the runtime.
    pub id: &'a str,
    /// Annotations of the OCI config.
    pub annotations: &'a Map,
    /// Bundle directory.
    pub bundle: &'a Path,
    /// Value of `linux.cgroupsPath`.
    pub cgroups_path: &'a str,
    /// Value of `hostname`.
    pub hostname: &'a str,
    /// Value of `root.path`, as written.
    pub root: &'a Path,
    /// Sources of the mounts, as written.
    pub mounts: &'a [PathBuf],
    /// `--root` argument of the runtime.
    pub runtime_root: Option<&'a Path>,
    /// Environment of the runtime.
    pub environment: &'a Map,
}

impl<'a> Clues<'a> {
    /// Returns the value of an annotation, unless it is empty.
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the annotations whose keys satisfy `predicate`.
    pub(crate) fn annotations_if(&self, predicate: impl Fn(&str) -> bool) -> Map {
        self.annotations
            .iter()
            .filter(|(k, _)| predicate(k))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }
}
