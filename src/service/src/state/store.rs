//! Records on disk: one JSON file per container or pod, replaced atomically.
//!
//! The directory is a tmpfs on most hosts: records, like containers, do not outlive a boot.

use crate::state::{key::ContainerKey, pod::PodRecord, record::Record};
use nri_host::sha256 as digest;
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

/// Failure to read or write a record.
#[derive(Debug, thiserror::Error)]
#[error("record {path}: {source}")]
pub struct StoreError {
    /// File of the record.
    pub path: PathBuf,
    /// Cause of the failure.
    #[source]
    pub source: io::Error,
}

impl Store {
    /// Opens the directories, and makes those that are missing.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        let make = |name: &str| {
            let path = state_dir.join(name);
            match fs::DirBuilder::new().recursive(true).mode(0o700).create(&path) {
                Ok(()) => Ok(path),
                Err(source) => Err(StoreError { path, source }),
            }
        };
        // The other directories are swept when their records are read; exec markers are never
        // listed.
        sweep(&make(nri_control::EXEC_DIR)?);
        Ok(Self { containers: make(nri_control::RECORDS_DIR)?, pods: make("pods")? })
    }

    /// Writes the record of a container.
    ///
    /// # Errors
    /// The disk is full, for example; then the old record remains.
    pub fn save(&self, record: &Record) -> Result<(), StoreError> {
        write(&self.container_file(&record.key), record)
    }

    /// Removes the record of a container.
    pub fn remove(&self, key: &ContainerKey) {
        let _ = fs::remove_file(self.container_file(key));
    }

    /// Writes the record of a pod.
    ///
    /// # Errors
    /// As for [`Store::save`].
    pub fn save_pod(&self, pod: &PodRecord) -> Result<(), StoreError> {
        write(&self.pod_file(&pod.sandbox.id), pod)
    }

    /// Removes the record of a pod.
    pub fn remove_pod(&self, id: &str) {
        let _ = fs::remove_file(self.pod_file(id));
    }

    /// Returns all records of containers, and an error for each file that cannot be read.
    pub fn containers(&self) -> (Vec<Record>, Vec<StoreError>) {
        read_all(&self.containers)
    }

    /// Returns all records of pods, and an error for each file that cannot be read.
    pub fn pods(&self) -> (Vec<PodRecord>, Vec<StoreError>) {
        read_all(&self.pods)
    }

    fn container_file(&self, key: &ContainerKey) -> PathBuf {
        self.containers.join(format!("{}.json", key.file_name()))
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
/// The file cannot be written. Then the old file remains, without a temporary one.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|bytes| {
        // A killed nrid may have left it. Removed and not reused: it could be a symbolic link.
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

/// Removes the files of writes that were interrupted.
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
    fn files_of_interrupted_writes_are_removed() {
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
