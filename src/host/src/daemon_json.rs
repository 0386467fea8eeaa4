//! `daemon.json` of Docker and iSulad.

use nri_trust::{MAX_CONFIG_FILE, read_regular_text};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads the keys that `T` has. A file that cannot be read or parsed counts as empty.
pub(crate) fn read<T: DeserializeOwned + Default>(file: &Path) -> T {
    let text = read_regular_text(file, MAX_CONFIG_FILE).unwrap_or_default();
    serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default()
}
