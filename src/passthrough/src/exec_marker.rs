//! Checks for an exec marker: a file in which `nrid` records changes of plugins for the processes
//! that `exec` starts in a container.

use crate::{
    args::exec_args, names::EXEC_DIR, path_buffer::PathBuffer, settings::CallSettings, state_dir,
};
use rustix::{fs::lstat, io::Errno};

/// Longest id that is decided here. The marker of a longer id may have a shortened file name
/// (`nri_files::ExecMarker::path`).
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
    let Some(state_dir) = state_dir::of(settings) else { return false };
    let mut path = PathBuffer::default();
    let parts = [state_dir, b"/", EXEC_DIR.as_bytes(), b"/", exec.id, b".json"];
    let Some(path) = path.set(&parts) else { return false };
    matches!(lstat(path), Err(Errno::NOENT | Errno::NOTDIR))
}
