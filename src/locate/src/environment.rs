//! The environment and the working directory of a process.

use nri_passthrough::environment;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Entries of an environment, usually `NAME=value`, in the order in which they were passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(Vec<OsString>);

impl Environment {
    /// An environment of these entries, as execve(2) passes them. Entries without `=` are kept.
    pub fn new(entries: Vec<OsString>) -> Self {
        Self(entries)
    }

    /// The environment of this process. Entries without `=` are missing, as `std` omits them.
    pub fn of_this_process() -> Self {
        let entry = |(name, value): (OsString, OsString)| {
            let mut entry = name;
            entry.push("=");
            entry.push(value);
            entry
        };
        Self(std::env::vars_os().map(entry).collect())
    }

    /// All entries.
    pub fn entries(&self) -> &[OsString] {
        &self.0
    }

    /// Returns the value of a variable from the first entry of that name, like getenv(3). An empty
    /// value counts as unset.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        let entries = self.0.iter().map(|entry| entry.as_bytes());
        environment::variable(entries, name).map(OsStr::from_bytes)
    }
}

/// Returns the working directory of this process, or `/` if the directory has been removed.
pub fn working_dir() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

/// Returns an absolute path for a path relative to the working directory.
pub fn absolute(path: &Path) -> PathBuf {
    if path.is_absolute() { path.to_owned() } else { working_dir().join(path) }
}
