//! Records on disk: one JSON file a container or pod, replaced atomically.
//!
//! The directory is a tmpfs on most hosts: records, like containers, do not outlive a boot.

use crate::bundle::config_json::digest;
use crate::state::record::{Key, PodRecord, Record, record_file};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The directories of the records.
#[derive(Debug, Clone)]
pub struct Store {
    containers: PathBuf,
    pods: PathBuf,
}

/// A record could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("record {path}: {source}")]
pub struct StoreError {
    /// Its file.
    pub path: PathBuf,
    /// What went wrong.
    #[source]
    pub source: io::Error,
}

impl Store {
    /// Opens or makes the directories.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        let make = |name: &str| {
            let path = state_dir.join(name);
            match fs::DirBuilder::new().recursive(true).mode(0o700).create(&path) {
                Ok(()) => Ok(path),
                Err(source) => Err(StoreError { path, source }),
            }
        };
        // Nobody lists them; the others are swept when they are read.
        sweep(&make(nri_control::EXEC_DIR)?);
        Ok(Self { containers: make(nri_control::RECORDS_DIR)?, pods: make("pods")? })
    }

    /// Keeps a container.
    ///
    /// # Errors
    /// The disk is full, say; then the old record still stands.
    pub fn save(&self, record: &Record) -> Result<(), StoreError> {
        write(&record_file(&self.containers, &record.key), record)
    }

    /// Forgets a container.
    pub fn remove(&self, key: &Key) {
        let _ = fs::remove_file(record_file(&self.containers, key));
    }

    /// Keeps a pod.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub fn save_pod(&self, pod: &PodRecord) -> Result<(), StoreError> {
        write(&self.pod_file(&pod.sandbox.id), pod)
    }

    /// Forgets a pod.
    pub fn remove_pod(&self, id: &str) {
        let _ = fs::remove_file(self.pod_file(id));
    }

    /// All containers, and the files that are no records.
    pub fn containers(&self) -> (Vec<Record>, Vec<StoreError>) {
        read_all(&self.containers)
    }

    /// All pods, and the files that are no records.
    pub fn pods(&self) -> (Vec<PodRecord>, Vec<StoreError>) {
        read_all(&self.pods)
    }

    fn pod_file(&self, id: &str) -> PathBuf {
        self.pods.join(format!("{}.json", &digest(id.as_bytes())[..32]))
    }
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    write_json(path, value).map_err(|source| StoreError { path: path.to_owned(), source })
}

/// Replaces a JSON file atomically.
///
/// # Errors
/// Anything on the way; then the old file still stands and no other is left.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|bytes| {
        // One that a killed predecessor left; whatever stands there is not followed, and not kept
        // open by anybody.
        match fs::remove_file(&temporary) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        io::Write::write_all(&mut file, &bytes)?;
        fs::rename(&temporary, path)
    });
    written.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Removes what writes that were cut short have left.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().extension().is_none_or(|e| e != "json") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn read_all<T: DeserializeOwned>(dir: &Path) -> (Vec<T>, Vec<StoreError>) {
    sweep(dir);
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match fs::read(&path)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from))
        {
            Ok(value) => found.push(value),
            Err(source) => broken.push(StoreError { path, source }),
        }
    }
    (found, broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_short_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let parts = ["containers", "pods", "exec"].map(|name| dir.path().join(name));
        Store::open(dir.path()).unwrap();
        for part in &parts {
            fs::write(part.join("half.new"), "{").unwrap();
        }
        fs::write(parts[2].join("whole.json"), "{}").unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert!(store.containers().1.is_empty() && store.pods().1.is_empty());
        let left = parts.map(|part| fs::read_dir(part).unwrap().count());
        assert_eq!(left, [0, 0, 1]);
    }
}
