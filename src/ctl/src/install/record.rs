//! The record of installations, `installed.json` beside our configuration: which values `install`
//! has set in which files, and which values they replaced.
//!
//! Without it, `uninstall` still finds runtimes by the wrapper's path, but knows no replaced value.
//! Earlier versions of nrictl wrote more into it, and read what is left: each version can uninstall
//! what another installed.

use super::{error::InstallError, install_root::InstallRoot};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Version of the format. A record with a higher version is refused.
const VERSION: u32 = 1;

/// All installations. Paths are as seen inside the root.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct InstallRecord {
    version: u32,
    /// Files in records of development versions; one with a null `before` was created.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) files: BTreeMap<PathBuf, Value>,
    /// Directories that `install` created.
    #[serde(default)]
    pub(super) directories: BTreeSet<PathBuf>,
    /// Engines by name.
    #[serde(default)]
    pub(super) engines: BTreeMap<String, EngineRecord>,
}

/// What was done for one engine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct EngineRecord {
    #[serde(default)]
    pub(super) changes: Vec<Change>,
    /// Symbolic links to the wrapper.
    #[serde(default)]
    pub(super) links: BTreeSet<PathBuf>,
}

/// A value that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) file: PathBuf,
    pub(super) path: Vec<String>,
    /// Our value.
    pub(super) value: Value,
    /// The value that ours replaced.
    #[serde(default)]
    pub(super) previous: Option<Value>,
    /// How many parent tables were created for our value, and one more if the file was created.
    #[serde(default)]
    pub(super) made: usize,
}

impl Change {
    /// Whether this is the change of the value at a path of a file.
    pub(super) fn is_at(&self, file: &Path, at: &[String]) -> bool {
        self.file == file && self.path == at
    }
}

impl InstallRecord {
    /// Reads the record. A missing file is an empty record.
    pub(super) fn read(root: &InstallRoot) -> Result<Self, InstallError> {
        let path = root.record();
        let Some(bytes) = root.read(&path)? else { return Ok(Self::default()) };
        let record: Result<Self, _> = serde_json::from_slice(&bytes);
        let reason = match record {
            Ok(record) if record.version <= VERSION => return Ok(record),
            Ok(record) => format!("version {} needs a newer nrictl", record.version),
            Err(error) => error.to_string(),
        };
        Err(InstallError::Record { path, reason })
    }

    /// Returns the record's text; `None` if nothing is installed.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        let record = Self { version: VERSION, ..self.clone() };
        let text = serde_json::to_string_pretty(&record).unwrap_or_default();
        (!self.engines.is_empty()).then(|| format!("{text}\n").into_bytes())
    }

    /// Returns the engines that have set a value.
    pub(super) fn users(
        &self,
        file: &Path,
        at: &[String],
    ) -> impl Iterator<Item = (&str, &Change)> {
        self.engines.iter().filter_map(move |(name, record)| {
            Some((&**name, record.changes.iter().find(|change| change.is_at(file, at))?))
        })
    }

    /// Whether an engine uses a link.
    pub(super) fn is_linked(&self, link: &Path) -> bool {
        self.engines.values().any(|record| record.links.contains(link))
    }
}
