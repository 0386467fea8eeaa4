//! Reads the values of the configuration file that decide how a call is handled.

use crate::{
    files::{FileBuffer, TrustedFile, read_trusted},
    names::CONFIG_FILE,
    settings::{self, CallSettings},
    variables::Variables,
};
use rustix::fd::RawFd;

/// Reads the file that the environment names, else the default file, which may be missing. Returns
/// `None` if the C library is needed to read the file or to report its errors.
pub(crate) fn read<'a>(
    variables: &Variables<'_>,
    called_as: &[u8],
    buffer: &'a mut FileBuffer,
    close: fn(RawFd),
) -> Option<CallSettings<'a>> {
    match read_trusted(variables.config.unwrap_or(CONFIG_FILE.as_bytes()), buffer, close)? {
        TrustedFile::Text(text) => settings::read(text, called_as),
        TrustedFile::Missing => variables.config.is_none().then(CallSettings::default),
    }
}
