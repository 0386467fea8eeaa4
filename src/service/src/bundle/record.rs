//! What the record of a container has of its bundles: the engine's, and that of `nrid`.

use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc};

/// The bundle of a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BundleRecord {
    /// Directory of `config.json`.
    pub dir: PathBuf,
    /// File name of `config.json`; differs under crun's option `--config`.
    pub name: String,
    /// Device and inode of the directory.
    pub identity: (u64, u64),
    /// The bundle of `nrid` that the runtime uses in its place, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnBundle>,
    /// Digest that an `nrid` without bundles of its own has written: it changed the engine's
    /// `config.json`, which stays as it is.
    #[serde(default, rename = "written", skip_serializing)]
    pub edited: Option<String>,
}

/// Group and modes of an engine's bundle and its `config.json`. Engines open the bundle of a
/// container with a user namespace to the root of that namespace, for hooks that run in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleAccess {
    /// Group of the directory.
    pub group: u32,
    /// Mode of the directory.
    pub dir: u32,
    /// Mode of the file.
    pub file: u32,
}

/// A bundle of `nrid`, see [`crate::bundle::own`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnBundle {
    /// Name of the directory.
    pub name: String,
    /// Digest of the engine's `config.json`, from which the one in this bundle was made.
    pub made_from: String,
    /// BundleAccess of others than root; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<BundleAccess>,
    /// Text of `config.json`. On disk it is in the bundle alone.
    #[serde(skip)]
    pub config: Option<Arc<str>>,
}
