//! [`Clues`]: the input of the recognition of engines.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Annotations, labels or variables.
pub type Map = BTreeMap<String, String>;

/// What is known of a container before any engine was recognized.
#[derive(Debug, Clone, Copy)]
pub struct Clues<'a> {
    /// Container id, as the runtime was given it.
    pub id: &'a str,
    /// Annotations of the OCI document.
    pub annotations: &'a Map,
    /// Bundle directory.
    pub bundle: &'a Path,
    /// `linux.cgroupsPath`
    pub cgroups_path: &'a str,
    /// `hostname`
    pub hostname: &'a str,
    /// `root.path`, as written.
    pub root: &'a Path,
    /// Sources of the mounts, as written.
    pub mounts: &'a [PathBuf],
    /// `--root` of the runtime's call.
    pub runtime_root: Option<&'a Path>,
    /// Environment of the runtime's call.
    pub environment: &'a Map,
}

impl<'a> Clues<'a> {
    /// An annotation that is there and not empty.
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The annotations whose keys pass.
    pub(crate) fn annotations_if(&self, pass: impl Fn(&str) -> bool) -> Map {
        self.annotations
            .iter()
            .filter(|(k, _)| pass(k))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }
}
