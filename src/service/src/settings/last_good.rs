//! The last configuration that could be used: its text, in the state directory, for an `nrid` that
//! starts while the file cannot be used. The state directory does not outlive a boot.

use crate::state::store::write_json;
use nri_files::OsText;
use nri_locate::MAX_CONFIG_FILE;
use nri_trust::read_regular;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Space for the text and for what JSON adds to it.
const MAX_SIZE: u64 = 8 * MAX_CONFIG_FILE;

#[derive(Serialize, Deserialize)]
struct LastGood {
    /// Path of the configuration file.
    file: OsText,
    text: String,
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("last-good-configuration.json")
}

/// Keeps the path and the text of the configuration file with which `nrid` has started or reloaded.
/// Without a file, keeps none.
pub(super) fn keep(state_dir: &Path, configuration: Option<(&Path, &str)>) {
    let path = path(state_dir);
    let kept = match configuration {
        Some((file, text)) => {
            write_json(&path, &LastGood { file: file.into(), text: text.to_owned() })
        }
        None => match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        },
    };
    if let Err(error) = kept {
        tracing::warn!(
            %error,
            "configuration not kept; an nrid that starts while the file is invalid will fail"
        );
    }
}

/// Returns the text that was kept for this configuration file. The state directory was checked by
/// the `nrid` that has written it; a start checks it again before anything in it is used.
pub(super) fn read(state_dir: &Path, file: &Path) -> Option<String> {
    super::state_dir::check(state_dir).ok()?;
    let bytes = read_regular(&path(state_dir), MAX_SIZE).ok()?;
    let last: LastGood = serde_json::from_slice(&bytes).ok()?;
    (last.file.as_path() == file).then_some(last.text)
}
