//! The file that tells the wrapper's `exec` what a container's process got beyond its engine's
//! document.
//!
//! It is read without asking `nrid`: an `exec` carries no event, and most containers have no such
//! file.

use crate::OsText;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Directory of the files in the state directory.
pub const EXEC_DIR: &str = "exec";

/// Ids have up to 255 bytes, as have names of files, with `.json`.
const LONGEST_NAME: usize = 255 - ".json".len();

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

/// A variable that differs from the engine's document. It is changed where the `exec` has what the
/// engine's document had (or nothing, as that); a value that was given to the `exec` itself stays.
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
        let name = if id.len() <= LONGEST_NAME { id.to_owned() } else { shortened(id) };
        state_dir.join(EXEC_DIR).join(format!("{name}.json"))
    }
}

impl ExecChanges {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.rlimits.is_empty()
    }
}

/// A name for an id that is too long to be one: its beginning, what no runtime has in its ids, and
/// a digest (FNV-1a). Whoever chooses ids could change the markers themselves, so that nobody gains
/// by two of the same digest.
fn shortened(id: &str) -> String {
    let cut = (0..=200).rev().find(|at| id.is_char_boundary(*at)).unwrap_or(0);
    let digest = id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}~{digest:016x}", &id[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_a_name_of_its_own_that_a_file_may_have() {
        let name = |id: &str| {
            ExecMarker::path(Path::new("/s"), id).file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name("c.1"), "c.1.json");
        let long: Vec<String> = (248..=255).map(|n| "x".repeat(n)).collect();
        let mut names: Vec<_> = long.iter().map(|id| name(id)).collect();
        names.push(name(&format!("{}y", "x".repeat(254))));
        names.push(name(&"ä".repeat(127)));
        assert!(names.iter().all(|n| n.len() <= 255), "{names:?}");
        assert_eq!(names[2], format!("{}.json", "x".repeat(250)));
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
