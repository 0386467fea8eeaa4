//! The environment and the working directory of a process.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// An entry of an environment, usually `NAME=value`.
type Entry = Cow<'static, OsStr>;

/// Entries of an environment, in the order in which they were passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(Vec<Entry>);

impl Environment {
    /// An environment of these entries, as execve(2) passes them. Entries without `=` are kept.
    pub fn new(entries: impl IntoIterator<Item = impl Into<Entry>>) -> Self {
        Self(entries.into_iter().map(Into::into).collect())
    }

    /// The environment of this process. Entries without `=` are missing, as `std` omits them.
    pub fn of_this_process() -> Self {
        Self::new(std::env::vars_os().map(|(name, value): (OsString, OsString)| {
            let mut entry = name;
            entry.push("=");
            entry.push(value);
            entry
        }))
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &OsStr> {
        self.0.iter().map(Cow::as_ref)
    }

    /// Returns the value of a variable from the first entry of that name, like getenv(3). An empty
    /// value counts as unset.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        let value = self
            .entries()
            .find_map(|entry| entry.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
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
    fn the_first_entry_of_a_name_is_its_value() {
        let environment = ["A", "AB=1", "A=x=y", "A=z", "E=", "E=1"].map(OsStr::new);
        let environment = Environment::new(environment);
        for (name, value) in
            [("A", Some("x=y")), ("AB", Some("1")), ("E", None), ("B", None), ("", None)]
        {
            assert_eq!(environment.var(name), value.map(OsStr::new), "{name}");
        }
    }
}
