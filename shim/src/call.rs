//! How this program was called: argv and environment, byte for byte.
//!
//! The environment is not taken from `std::env`, which leaves out entries without `=`; the real
//! runtime shall get these too.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// argv and environment.
#[derive(Debug)]
pub(crate) struct Call {
    /// `argv[0]`
    pub(crate) name: OsString,
    /// The rest of argv.
    pub(crate) arguments: Vec<OsString>,
    /// As given, usually `NAME=value`.
    pub(crate) environment: Vec<OsString>,
}

impl Call {
    pub(crate) fn new(argv: Vec<OsString>, environment: Vec<OsString>) -> Self {
        let mut argv = argv.into_iter();
        Self { name: argv.next().unwrap_or_default(), arguments: argv.collect(), environment }
    }

    /// A variable; an empty one counts as not set.
    pub(crate) fn var(&self, name: &str) -> Option<&OsStr> {
        let value = self.environment.iter().find_map(|entry| {
            entry.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        })?;
        (!value.is_empty()).then(|| OsStr::from_bytes(value))
    }

    /// Name that it was called by, without directory.
    pub(crate) fn base_name(&self) -> Option<&str> {
        std::path::Path::new(&self.name).file_name()?.to_str()
    }
}

/// Working directory; `/` where it is gone (an engine may clean up from a directory that was
/// removed).
pub(crate) fn working_dir() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let call = Call::new(vec![], ["A", "AB=1", "A=x=y", "A=z", "E="].map(Into::into).to_vec());
        for (name, value) in [("A", Some("x=y")), ("AB", Some("1")), ("E", None), ("B", None)] {
            assert_eq!(call.var(name), value.map(OsStr::new), "{name}");
        }
    }
}
