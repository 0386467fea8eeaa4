//! argv and environment of this program, byte for byte.
//!
//! The environment is not taken from `std::env`, which omits entries without `=`: the real runtime
//! must receive these too.

use nri_locate::Environment;
use nri_passthrough::base_name;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

/// argv and environment of this program.
#[derive(Debug)]
pub(crate) struct Call {
    /// `argv[0]`
    pub(crate) name: OsString,
    /// argv without `argv[0]`.
    pub(crate) arguments: Vec<OsString>,
    /// Environment, with entries that `std::env` omits.
    pub(crate) environment: Environment,
}

impl Call {
    pub(crate) fn new(argv: Vec<OsString>, environment: Vec<OsString>) -> Self {
        let mut argv = argv.into_iter();
        let name = argv.next().unwrap_or_default();
        Self { name, arguments: argv.collect(), environment: Environment::new(environment) }
    }

    /// Returns the file name in `argv[0]`.
    pub(crate) fn base_name(&self) -> Option<&OsStr> {
        base_name(self.name.as_bytes()).map(OsStr::from_bytes)
    }
}
