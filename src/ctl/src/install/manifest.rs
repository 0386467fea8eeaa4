//! What was done to which file: `installed.json` beside our configuration, so that it can be undone
//! exactly.
//!
//! Without it `uninstall` still finds what is ours by the wrapper's path, but knows neither what
//! was there before nor which files are new.

use super::{document::Format, error::InstallError, root::Root};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Where it is.
pub(crate) const MANIFEST: &str = "/etc/nri-container-runtime/installed.json";

/// Where copies of files are as they were. They may hold secrets that only a directory kept: nobody
/// else may look into it.
pub(crate) const BACKUPS: &str = "/etc/nri-container-runtime/backup";

const VERSION: u32 = 1;

/// All that is installed. Paths are as seen inside the root.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    /// Changed files.
    #[serde(default)]
    pub(crate) files: BTreeMap<PathBuf, FileRecord>,
    /// Directories that were made.
    #[serde(default)]
    pub(crate) directories: BTreeSet<PathBuf>,
    /// By engine's name.
    #[serde(default)]
    pub(crate) engines: BTreeMap<String, EngineRecord>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) format: Format,
    /// What the file was without any change of ours; `None`: there was none.
    pub(crate) before: Option<String>,
    /// What we wrote last.
    pub(crate) after: String,
    /// A copy of the file as it was.
    pub(crate) backup: Option<PathBuf>,
    /// Nobody else changed the file between our changes.
    pub(crate) unbroken: bool,
}

/// What one engine needed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct EngineRecord {
    #[serde(default)]
    pub(crate) changes: Vec<Change>,
    /// Symbolic links to the wrapper.
    #[serde(default)]
    pub(crate) links: BTreeSet<PathBuf>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) file: PathBuf,
    pub(crate) path: Vec<String>,
    /// Ours.
    pub(crate) value: Value,
    /// What it replaced.
    #[serde(default)]
    pub(crate) previous: Option<Value>,
    /// How many tables around it are ours.
    #[serde(default)]
    pub(crate) made: usize,
}

impl Manifest {
    /// Reads it; none is an empty one.
    pub(crate) fn read(root: &Root) -> Result<Self, InstallError> {
        let path = Path::new(MANIFEST);
        let Some(bytes) = root.read(path).map_err(|e| InstallError::Read(path.into(), e))? else {
            return Ok(Self::default());
        };
        let manifest: Self = serde_json::from_slice(&bytes)
            .map_err(|e| InstallError::Manifest(path.into(), e.to_string()))?;
        if manifest.version > VERSION {
            let message = format!("version {} is newer than this program", manifest.version);
            return Err(InstallError::Manifest(path.into(), message));
        }
        Ok(manifest)
    }

    /// Its file; `None` if nothing is installed.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        if self.engines.is_empty() && self.files.is_empty() {
            return None;
        }
        let manifest = Self { version: VERSION, ..self.clone() };
        let mut bytes = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
        bytes.push(b'\n');
        Some(bytes)
    }

    /// Whether another engine has this value in this file as well.
    pub(crate) fn shared(&self, engine: &str, change: &Change) -> bool {
        let same = |other: &Change| other.file == change.file && other.path == change.path;
        self.others(engine).any(|record| record.changes.iter().any(same))
    }

    /// Whether another engine has changes in this file as well.
    pub(crate) fn busy(&self, engine: &str, file: &Path) -> bool {
        self.others(engine).any(|record| record.changes.iter().any(|change| change.file == file))
    }

    /// Whether any engine has changes in this file.
    pub(crate) fn changes(&self, file: &Path) -> bool {
        self.engines.values().any(|record| record.changes.iter().any(|change| change.file == file))
    }

    /// Whether another engine uses this link as well.
    pub(crate) fn linked(&self, engine: &str, link: &Path) -> bool {
        self.others(engine).any(|record| record.links.contains(link))
    }

    fn others<'a>(&'a self, engine: &'a str) -> impl Iterator<Item = &'a EngineRecord> {
        self.engines.iter().filter(move |(name, _)| *name != engine).map(|(_, record)| record)
    }
}

impl FileRecord {
    /// Whether these bytes are what we left, or what was there before: then the copy still is the
    /// file without us.
    pub(crate) fn knows(&self, bytes: Option<&[u8]>) -> bool {
        let digest = bytes.map(digest);
        self.unbroken && (digest.as_deref() == Some(&*self.after) || digest == self.before)
    }
}

/// Names bytes.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
