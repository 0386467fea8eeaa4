//! The file that tells the wrapper's `exec` what a container's process got beyond its engine's document.
//!
//! It is read without asking `nrid`: an `exec` carries no event, and most containers have no such file.

use crate::OsText;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Directory of the files in the state directory.
pub const EXEC_DIR: &str = "exec";

/// All containers of one id; two runtime roots may hold the same.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecMarker {
    /// One per runtime root.
    pub containers: Vec<ExecContainer>,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecContainer {
    /// Root directory of its runtime, links resolved.
    pub root: OsText,
    /// What its processes get.
    pub changes: ExecChanges,
}

/// What is laid into the process document of an `exec`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecChanges {
    /// Variables.
    pub env: Vec<ExecVariable>,
    /// Resource limits.
    pub rlimits: Vec<ExecRlimit>,
}

/// A variable that differs from the engine's document. It is changed where the `exec` has what the engine's document had (or nothing,
/// as that); a value that was given to the `exec` itself stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecVariable {
    /// Its name.
    pub name: String,
    /// What the engine's document had.
    pub engine: Option<String>,
    /// What the container has; none where it was removed.
    pub value: Option<String>,
}

/// A resource limit that differs from the engine's document; the same rule holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecRlimit {
    /// What the engine's document had: an entry of `process.rlimits`.
    pub engine: Option<Value>,
    /// What the container has.
    pub value: Value,
}

impl ExecMarker {
    /// The file for containers of this id.
    pub fn path(state_dir: &Path, id: &str) -> PathBuf {
        state_dir.join(EXEC_DIR).join(format!("{id}.json"))
    }
}

impl ExecChanges {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.rlimits.is_empty()
    }
}
