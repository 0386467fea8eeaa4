//! The state directory.

use crate::{names::STATE_DIR, settings::CallSettings};
use rustix::{fs::stat, process::geteuid};

/// Inode of the initial user namespace (`PROC_USER_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Returns the configured directory, or the default one of root of the host. Returns `None` for
/// other users without a configured directory.
pub(crate) fn of<'a>(settings: &CallSettings<'a>) -> Option<&'a [u8]> {
    settings.state_dir.or_else(default)
}

fn default<'a>() -> Option<&'a [u8]> {
    let is_host = geteuid().is_root()
        && stat(c"/proc/self/ns/user").is_ok_and(|found| found.st_ino == INITIAL_USER_NAMESPACE);
    is_host.then_some(STATE_DIR.as_bytes())
}
