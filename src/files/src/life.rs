//! Life of `nrid`: a file of the state directory that exists from the start of `nrid` to its clean
//! end. Its modification time is the last sign of life. A file that is left says that `nrid` has
//! ended without a clean stop: it was killed, or has crashed.

use crate::names::LIFE_FILE;
use nri_trust::read_regular_text;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Maximum size of the file, in bytes: that of a few numbers and a sentence.
const MAX_SIZE: u64 = 4096;

/// Contents of the file, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NridLife {
    /// Process id.
    pub pid: u32,
    /// Boot of the host (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// End of an earlier `nrid`, if it was not clean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unclean_end: Option<UncleanEnd>,
}

/// End of an `nrid` that was not a clean stop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UncleanEnd {
    /// Process id.
    pub pid: u32,
    /// Last sign of life, in seconds since the epoch.
    pub last_sign: u64,
    /// Start of the next `nrid`, in seconds since the epoch; 0 if none has started.
    #[serde(skip_serializing_if = "is_zero")]
    pub next_start: u64,
    /// What ended it, if the kernel's log says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl NridLife {
    /// Path of the file in a state directory.
    pub fn path(state_dir: &Path) -> PathBuf {
        state_dir.join(LIFE_FILE)
    }

    /// Life of this process.
    pub fn of_this_process(unclean_end: Option<UncleanEnd>) -> Self {
        Self { pid: std::process::id(), boot_id: boot_id(), unclean_end }
    }

    /// Reads the file; `None` if there is none, or if it is broken.
    pub fn read(state_dir: &Path) -> Option<Self> {
        let text = read_regular_text(&Self::path(state_dir), MAX_SIZE).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, state_dir: &Path) -> io::Result<()> {
        fs::write(Self::path(state_dir), serde_json::to_vec(self)?)
    }

    /// Returns how the `nrid` of this file has ended; `None` if the host was started again since,
    /// which ends all containers, too. The caller knows that no `nrid` runs.
    pub fn end(&self, state_dir: &Path) -> Option<UncleanEnd> {
        if self.boot_id != boot_id() {
            return None;
        }
        let last_sign =
            fs::metadata(Self::path(state_dir)).and_then(|meta| meta.modified()).ok()?;
        let last_sign = last_sign.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Some(UncleanEnd { pid: self.pid, last_sign, ..UncleanEnd::default() })
    }

    /// Removes the file if it is that of this process, which says itself why it ends.
    pub fn forget(state_dir: &Path) {
        if Self::read(state_dir).is_some_and(|life| life.is_of_this_process()) {
            // If it stays, the next nrid reports an end that was not clean.
            let _ = fs::remove_file(Self::path(state_dir));
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.pid == std::process::id() && self.boot_id == boot_id()
    }

    /// Updates the modification time of the file.
    ///
    /// # Errors
    /// The file was removed, or its time cannot be set.
    pub fn give_sign(state_dir: &Path) -> io::Result<()> {
        let file = fs::File::options().write(true).open(Self::path(state_dir))?;
        file.set_modified(SystemTime::now())
    }
}

fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim_end().to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_left_is_an_unclean_end_unless_the_host_was_started_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(NridLife::read(dir.path()), None);
        let life = NridLife::of_this_process(None);
        life.write(dir.path()).unwrap();
        assert_eq!(NridLife::read(dir.path()), Some(life.clone()));
        let earlier = SystemTime::now() - std::time::Duration::from_secs(1000);
        let file = fs::File::options().write(true).open(NridLife::path(dir.path())).unwrap();
        file.set_modified(earlier).unwrap();
        let end = life.end(dir.path()).unwrap();
        assert_eq!(end.pid, std::process::id());
        assert_eq!(end.last_sign, earlier.duration_since(UNIX_EPOCH).unwrap().as_secs());
        NridLife::give_sign(dir.path()).unwrap();
        assert!(life.end(dir.path()).unwrap().last_sign >= end.last_sign + 1000);
        let other_boot = NridLife { boot_id: "other".to_owned(), ..life };
        assert_eq!(other_boot.end(dir.path()), None);
        // A file of a later release.
        fs::write(NridLife::path(dir.path()), r#"{"pid": 7, "new": []}"#).unwrap();
        assert_eq!(NridLife::read(dir.path()).unwrap().pid, 7);
        fs::write(NridLife::path(dir.path()), "").unwrap();
        assert_eq!(NridLife::read(dir.path()), None);
    }
}
