//! The environment and the working directory of a process.

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
        let value = self.0.iter().find_map(|entry| {
            entry.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        })?;
        (!value.is_empty()).then(|| OsStr::from_bytes(value))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_the_value_of_its_first_entry() {
        let environment =
            Environment::new(["A", "AB=1", "A=x=y", "A=z", "E="].map(Into::into).into());
        for (name, value) in [("A", Some("x=y")), ("AB", Some("1")), ("E", None), ("B", None)] {
            assert_eq!(environment.var(name), value.map(OsStr::new), "{name}");
        }
    }
}
