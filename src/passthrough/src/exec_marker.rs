//! Checks for an exec marker: a file in which `nrid` records changes of plugins for the processes
//! that `exec` starts in a container.

use crate::{
    args::exec_args,
    names::{EXEC_DIR, STATE_DIR},
    path_buffer::PathBuffer,
    settings::CallSettings,
};
use rustix::{
    fs::{lstat, stat},
    io::Errno,
    process::geteuid,
};

/// Inode of the initial user namespace (`PROC_USER_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Longest id that is decided here. The marker of a longer id may have a shortened file name
/// (`nri_control::ExecMarker::path`).
const LONGEST_ID: usize = 200;

/// Whether an `exec` with these arguments certainly has no marker to apply. `false` means that the
/// wrapper must check again.
pub(crate) fn is_absent(arguments: &[&[u8]], settings: &CallSettings<'_>) -> bool {
    // Without a process file, the runtime takes the process from config.json.
    let Some(exec) = exec_args::read(arguments) else { return true };
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'/';
    let fits = (1..=LONGEST_ID).contains(&exec.id.len());
    if !fits || !exec.id.iter().all(is_plain) || matches!(exec.id, b"." | b"..") {
        return false;
    }
    let Some(state_dir) = settings.state_dir.or_else(default_state_dir) else {
        return false;
    };
    let mut path = PathBuffer::default();
    let parts = [state_dir, b"/", EXEC_DIR.as_bytes(), b"/", exec.id, b".json"];
    let Some(path) = path.set(&parts) else { return false };
    matches!(lstat(path), Err(Errno::NOENT | Errno::NOTDIR))
}

/// Returns the default state directory, if this process belongs to root of the host.
fn default_state_dir<'a>() -> Option<&'a [u8]> {
    let is_host = geteuid().is_root()
        && stat(c"/proc/self/ns/user").is_ok_and(|found| found.st_ino == INITIAL_USER_NAMESPACE);
    is_host.then_some(STATE_DIR.as_bytes())
}
