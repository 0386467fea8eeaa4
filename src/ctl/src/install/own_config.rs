//! Our own configuration. It maps names of the wrapper to real runtimes, and selects the NRI that
//! adapts an engine's containers: the engine's or ours.

use super::{error::InstallError, install_root::InstallRoot};
use nri_config::Config;
use std::path::Path;

/// Reads the configuration. A missing file counts as an empty file.
pub(crate) fn read(root: &InstallRoot, file: &Path) -> Result<Config, InstallError> {
    parse(file, &root.read(file)?.unwrap_or_default())
}

/// Parses the configuration. Every wrapper reads it, so a text that it would refuse is an error.
pub(crate) fn parse(file: &Path, text: &[u8]) -> Result<Config, InstallError> {
    let failed = |reason: String| InstallError::OwnConfig { path: file.to_owned(), reason };
    let text = std::str::from_utf8(text).map_err(|_| failed("not UTF-8".to_owned()))?;
    Config::parse(text).map_err(|e| failed(e.to_string()))
}
