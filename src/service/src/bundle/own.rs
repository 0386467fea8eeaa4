//! Bundles of `nrid`: a directory below the state directory for each container whose `config.json`
//! plugins were asked about. The wrapper passes it to the runtime in place of the engine's bundle,
//! whose files nobody changes.
//!
//! The directory stays until the runtime has deleted the container and its `poststop` hooks have
//! ended: runtimes read `config.json` for `exec` and `checkpoint`, and hooks get the path of the
//! bundle. Its name is that of one creation, so the next container of the same id has another one.

use crate::state::{key::ContainerKey, record::Record};
use std::{
    collections::HashSet,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Directory of the bundles in the state directory.
const BUNDLES_DIR: &str = "bundles";

/// Name of the only file in a bundle.
pub const CONFIG_JSON: &str = "config.json";

/// Longest part of an id in the name of a bundle.
const ID_LENGTH: usize = 64;

/// Returns the name of the bundle of a creation.
pub fn name(key: &ContainerKey, incarnation: i64) -> String {
    let id: String = key.id.chars().take(ID_LENGTH).collect();
    format!("{id}-{}-{incarnation:x}", &key.file_name()[..8])
}

/// Returns the path of a bundle.
pub fn path(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join(BUNDLES_DIR).join(name)
}

/// Writes a bundle. A directory of this name is replaced.
///
/// # Errors
/// The directory or the file cannot be written; then neither is left.
pub fn write(state_dir: &Path, name: &str, config: &[u8]) -> io::Result<()> {
    let dir = path(state_dir, name);
    // The runtime's own process may have entered a user namespace when it looks up the directory.
    DirBuilder::new().recursive(true).mode(0o711).create(state_dir.join(BUNDLES_DIR))?;
    remove(state_dir, name);
    let written = DirBuilder::new().mode(0o700).create(&dir).and_then(|()| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(dir.join(CONFIG_JSON))?.write_all(config)
    });
    written.inspect_err(|_| remove(state_dir, name))
}

/// Removes a bundle.
pub fn remove(state_dir: &Path, name: &str) {
    let _ = fs::remove_dir_all(path(state_dir, name));
}

/// Reads the `config.json` of a bundle; `None` if it was removed.
pub fn read(state_dir: &Path, name: &str) -> Option<String> {
    fs::read_to_string(path(state_dir, name).join(CONFIG_JSON)).ok()
}

/// Removes bundles that belong to no record: those of creations that a killed `nrid` had not
/// finished, and of containers that were deleted while it did not run.
pub fn remove_unknown<'a>(state_dir: &Path, records: impl Iterator<Item = &'a Record>) {
    let known: HashSet<_> =
        records.filter_map(|record| Some(record.bundle.own.as_ref()?.name.as_str())).collect();
    for entry in fs::read_dir(state_dir.join(BUNDLES_DIR)).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| !known.contains(name)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::{EXAMPLE, OwnBundle};

    #[test]
    fn the_bundles_of_records_stay_and_others_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        let known = name(&record.key, 16);
        assert_eq!(known, format!("c1-{}-10", &record.key.file_name()[..8]));
        let own = OwnBundle { name: known.clone(), made_from: String::new(), config: None };
        record.bundle.own = Some(own);
        for name in [known.as_str(), "c1-0-f", "c2-0-1"] {
            write(dir.path(), name, b"{\"earlier\": true}").unwrap();
            write(dir.path(), name, b"{}").unwrap();
        }
        remove_unknown(dir.path(), [&record].into_iter());
        let left: Vec<_> = fs::read_dir(dir.path().join(BUNDLES_DIR)).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(read(dir.path(), &known).unwrap(), "{}");
    }
}
