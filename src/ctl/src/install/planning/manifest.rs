//! The manifest, `installed.json` beside our configuration. It records every change of every file,
//! so that `uninstall` can undo each change exactly.
//!
//! Without the manifest, `uninstall` still finds our values by the wrapper's path, but knows
//! neither the replaced values nor which files are new. All versions of nrictl use the same format,
//! so that each can uninstall what another installed.

use crate::install::{
    editing::error::FileError,
    editing::file::{ConfigFile, Format, in_effect},
    error::InstallError,
    install_root::InstallRoot,
};
use nri_host::sha256;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Version of the format. A manifest with a higher version is refused.
const VERSION: u32 = 1;

/// Record of all installations. Paths are as seen inside the root.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    /// Changed files.
    #[serde(default)]
    pub(crate) files: BTreeMap<PathBuf, FileRecord>,
    /// Directories that `install` created.
    #[serde(default)]
    pub(crate) directories: BTreeSet<PathBuf>,
    /// Engines by name.
    #[serde(default)]
    pub(crate) engines: BTreeMap<String, EngineRecord>,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(super) format: Format,
    /// Digest of the original file, without any change of ours; `None`: the file did not exist.
    pub(super) before: Option<String>,
    /// Digest of the content that we wrote last.
    pub(super) after: String,
    /// Path of the backup of the original file.
    pub(super) backup: Option<PathBuf>,
    /// Whether no other program changed the file between our changes.
    pub(super) unbroken: bool,
}

/// Changes that were made for one engine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct EngineRecord {
    #[serde(default)]
    pub(super) changes: Vec<Change>,
    /// Symbolic links to the wrapper.
    #[serde(default)]
    pub(super) links: BTreeSet<PathBuf>,
}

/// A changed value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(super) file: PathBuf,
    pub(super) path: Vec<String>,
    /// Our value.
    pub(super) value: Value,
    /// The value that ours replaced.
    #[serde(default)]
    pub(super) previous: Option<Value>,
    /// Number of parent tables that were created for our value.
    #[serde(default)]
    pub(super) made: usize,
}

impl Manifest {
    /// Reads the manifest. A missing file is an empty manifest.
    pub(crate) fn read(root: &InstallRoot) -> Result<Self, InstallError> {
        let path = &*root.manifest();
        let Some(bytes) = root.read(path)? else { return Ok(Self::default()) };
        let failed = |reason| InstallError::Manifest { path: path.into(), reason };
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))?;
        if manifest.version > VERSION {
            let version = manifest.version;
            return Err(failed(format!("version {version} needs a newer nrictl")));
        }
        Ok(manifest)
    }

    /// Returns the manifest's text; `None` if nothing is installed.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        if self.engines.is_empty() && self.files.is_empty() {
            return None;
        }
        let manifest = Self { version: VERSION, ..self.clone() };
        let mut bytes = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
        bytes.push(b'\n');
        Some(bytes)
    }

    /// Returns the record of an engine, or a new record if the engine has none.
    pub(super) fn engine(&mut self, engine: &str) -> &mut EngineRecord {
        self.engines.entry(engine.to_owned()).or_default()
    }

    /// Returns the changes of all engines.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.engines.values().flat_map(|record| &record.changes)
    }

    /// Returns another engine's change of a value.
    pub(super) fn shared(&self, engine: &str, file: &Path, at: &[String]) -> Option<&Change> {
        let others = self.engines.iter().filter(|(name, _)| *name != engine);
        others.flat_map(|(_, record)| &record.changes).find(|change| change.is_at(file, at))
    }

    /// Whether another engine has changes in a file.
    pub(super) fn is_used_by_others(&self, engine: &str, file: &Path) -> bool {
        self.others(engine).flat_map(|record| &record.changes).any(|change| change.file == file)
    }

    /// Whether another engine uses a link.
    pub(super) fn is_linked_by_others(&self, engine: &str, link: &Path) -> bool {
        self.others(engine).any(|record| record.links.contains(link))
    }

    fn others<'a>(&'a self, engine: &'a str) -> impl Iterator<Item = &'a EngineRecord> {
        self.engines.iter().filter(move |(name, _)| *name != engine).map(|(_, record)| record)
    }
}

impl FileRecord {
    /// Whether `bytes` are the content that we wrote last, or the original content: then the backup
    /// is still the file without our changes.
    pub(super) fn matches(&self, bytes: Option<&[u8]>) -> bool {
        let digest = bytes.map(sha256);
        self.unbroken && (digest.as_deref() == Some(&*self.after) || digest == self.before)
    }
}

impl Change {
    /// Whether this is the change of the value at a path of a file.
    pub(super) fn is_at(&self, file: &Path, at: &[String]) -> bool {
        self.file == file && self.path == at
    }

    /// Replaces our value by a new value of ours. If an administrator has replaced our earlier
    /// value, `uninstall` restores the administrator's value. If an administrator has deleted our
    /// earlier value, `uninstall` restores no value.
    pub(super) fn replace(&mut self, value: &Value, current: Option<Value>, created: usize) {
        if !current.as_ref().is_some_and(|current| in_effect(current, &self.value)) {
            if current.is_some() {
                self.made = created;
            }
            self.previous = current;
        }
        self.made = self.made.max(created);
        self.value = value.clone();
    }

    /// Restores the value that ours replaced, or removes ours.
    pub(super) fn undo(&self, file: &mut ConfigFile) -> Result<(), FileError> {
        match &self.previous {
            Some(previous) => file.set(&self.path, previous).map(drop),
            None => file.remove(&self.path, self.made),
        }
    }
}
