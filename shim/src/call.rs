//! argv and environment of this program, byte for byte.
//!
//! The environment is not taken from `std::env`, which omits entries without `=`: the real runtime
//! must receive these too.

use nri_locate::Environment;
use std::{
    ffi::{CStr, OsStr},
    os::unix::ffi::OsStrExt,
};

/// argv and environment of this program.
#[derive(Debug)]
pub(crate) struct Call {
    /// `argv[0]`
    name: &'static OsStr,
    /// argv without `argv[0]`.
    pub(crate) arguments: Vec<&'static [u8]>,
    /// Environment, with entries that `std::env` omits.
    pub(crate) environment: Environment,
    /// The entries of `environment` as execve(2) takes them.
    pub(crate) entries: Vec<&'static CStr>,
}

impl Call {
    pub(crate) fn new(argv: &[&'static CStr], entries: Vec<&'static CStr>) -> Self {
        let mut argv = argv.iter().map(|text| text.to_bytes());
        Self {
            name: OsStr::from_bytes(argv.next().unwrap_or_default()),
            arguments: argv.collect(),
            environment: Environment::new(entries.iter().map(|e| OsStr::from_bytes(e.to_bytes()))),
            entries,
        }
    }

    /// Returns the file name in `argv[0]`.
    pub(crate) fn base_name(&self) -> Option<&OsStr> {
        let name = self.name.as_bytes().rsplit(|byte| *byte == b'/').next()?;
        (!matches!(name, b"" | b"." | b"..")).then(|| OsStr::from_bytes(name))
    }
}
