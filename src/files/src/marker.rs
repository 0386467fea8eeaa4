//! The exec marker: a file that `nrid` writes for the wrapper's `exec`, with the changes that
//! plugins made to the process of a container, and with the limits of `exec` that were configured
//! at its creation.
//!
//! The wrapper reads the file and does not connect to `nrid`: NRI has no event for `exec`, and most
//! containers have no such file. Version 0.1.0 ignores the limits, and writes none.

use crate::{digest::digest, text::OsText};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Directory of the markers in the state directory.
pub const EXEC_DIR: &str = "exec";
/// End of the names of markers.
const SUFFIX: &str = ".json";
/// Length limit of a file name without [`SUFFIX`]. A file name has at most 255 bytes, but an id
/// alone may have as many.
const MAX_NAME: usize = 255 - SUFFIX.len();
/// Length of the part of a longer id that is in the file name, which leaves room for the digest.
const PREFIX: usize = 200;

/// All containers with one id, which may exist in several runtime roots.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecMarker {
    /// Containers, one per runtime root.
    pub containers: Vec<ExecContainer>,
}

/// A container, and what applies to an `exec` in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecContainer {
    /// Root directory of the container's runtime, links resolved.
    pub root: OsText,
    /// Changes for the container's processes.
    pub changes: ExecChanges,
    /// What an `exec` may have at most; `None` if everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ExecLimits>,
}

/// What an `exec` may have at most: what the container's own process has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecLimits {
    /// Rights; `None` if an `exec` may have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<ExecRights>,
    /// User and groups; `None` if an `exec` may have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<ExecUser>,
}

/// Rights of a container's process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecRights {
    /// The capabilities of all sets, the bounding set included: those that any process of the
    /// container can have. `None` if the OCI config has no `process.capabilities`.
    pub capabilities: Option<Vec<String>>,
    /// `process.noNewPrivileges`.
    pub no_new_privileges: bool,
    /// `process.apparmorProfile`, unless empty.
    pub apparmor_profile: Option<String>,
    /// `process.selinuxLabel`, unless empty.
    pub selinux_label: Option<String>,
}

/// User of a container's process. What the OCI config does not have is 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecUser {
    /// `process.user.uid`.
    pub uid: u64,
    /// `process.user.gid`.
    pub gid: u64,
    /// `process.user.additionalGids`.
    pub additional_gids: Vec<u64>,
}

/// Changes of the process file of an `exec`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecChanges {
    /// Environment variables.
    pub env: Vec<ExecVariable>,
    /// Resource limits.
    pub rlimits: Vec<ExecRlimit>,
}

/// A variable that differs from the engine's OCI config. `exec` applies the change only if the
/// process file agrees with the engine's OCI config: both have the same value, or both lack the
/// variable. Otherwise the value was given to the `exec` itself, and stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecVariable {
    /// Name of the variable.
    pub name: String,
    /// Value in the engine's OCI config.
    pub engine: Option<String>,
    /// Value in the container; `None` if it was removed.
    pub value: Option<String>,
}

/// An rlimit that differs from the engine's OCI config, applied by the rule of [`ExecVariable`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecRlimit {
    /// Entry of `process.rlimits` in the engine's OCI config.
    pub engine: Option<Value>,
    /// Entry in the container.
    pub value: Value,
}

impl ExecMarker {
    /// Path of the file for containers of this id. If the id is too long for a file name, the name
    /// is the begin of the id, and a digest of it behind a character that no runtime allows in ids.
    /// A collision gives no advantage: a user who chooses ids could change the markers directly.
    pub fn path(state_dir: &Path, id: &str) -> PathBuf {
        let name = if id.len() <= MAX_NAME {
            format!("{id}{SUFFIX}")
        } else {
            let cut = (0..=PREFIX).rev().find(|at| id.is_char_boundary(*at)).unwrap_or(0);
            format!("{}~{}{SUFFIX}", &id[..cut], digest(id.as_bytes()))
        };
        state_dir.join(EXEC_DIR).join(name)
    }
}

impl ExecChanges {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.rlimits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_without_limits_has_the_form_of_version_0_1_0() {
        let text = r#"{"containers":[{"root":"/r","changes":{"env":[],"rlimits":[]}}]}"#;
        let marker: ExecMarker = serde_json::from_str(text).unwrap();
        assert_eq!(marker.containers[0].limits, None);
        assert_eq!(serde_json::to_string(&marker).unwrap(), text);
    }

    #[test]
    fn version_0_1_0_reads_the_changes_of_a_container_with_limits() {
        /// The type of version 0.1.0.
        #[derive(Deserialize)]
        struct Earlier {
            changes: ExecChanges,
        }
        let container = ExecContainer {
            root: OsText::from("/r"),
            changes: ExecChanges::default(),
            limits: Some(ExecLimits { user: Some(ExecUser::default()), rights: None }),
        };
        let text = serde_json::to_string(&container).unwrap();
        let earlier: Earlier = serde_json::from_str(&text).unwrap();
        assert_eq!(earlier.changes, container.changes);
        assert_eq!(serde_json::from_str::<ExecContainer>(&text).unwrap(), container);
    }

    #[test]
    fn every_id_has_a_unique_valid_file_name() {
        let name = |id: &str| {
            ExecMarker::path(Path::new("/s"), id).file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name("c.1"), "c.1.json");
        let long: Vec<String> = (248..=255).map(|n| "x".repeat(n)).collect();
        let mut names: Vec<_> = long.iter().map(|id| name(id)).collect();
        names.push(name(&format!("{}y", "x".repeat(254))));
        names.push(name(&"ä".repeat(127)));
        assert!(names.iter().all(|n| n.len() <= 255), "{names:?}");
        // The id of 250 bytes is the longest that is a file name: `.json` makes it 255 bytes.
        assert_eq!(names[2], format!("{}.json", "x".repeat(250)));
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
