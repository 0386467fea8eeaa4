//! The exec marker: a file in which `nrid` records changes of plugins for the processes that `exec`
//! starts in a container. This module has its path; `nri-files` has its content.

use crate::{args::exec_args, digest, id, names::EXEC_DIR, path_buffer::PathBuffer};
use rustix::{fs::lstat, io::Errno};

/// End of the names of markers.
pub const SUFFIX: &str = ".json";
/// Length limit of a file name without [`SUFFIX`]. A file name has at most 255 bytes, but an id
/// alone may have as many.
const MAX_NAME: usize = 255 - SUFFIX.len();
/// Length of the part of a longer id that is in the file name, which leaves room for the digest.
const PREFIX: usize = 200;

/// Returns the parts of the file name for an id, without [`SUFFIX`]. For an id that is too long for
/// a file name: the begin of the id, and a digest of it behind a character that no runtime allows
/// in ids. A collision gives no advantage: a user who chooses ids could change the markers
/// directly.
pub fn name(id: &str) -> (&str, Option<[u8; 17]>) {
    if id.len() <= MAX_NAME {
        return (id, None);
    }
    let mut end = [b'~'; 17];
    end[1..].copy_from_slice(&digest::hexadecimal(digest::of(id.as_bytes())));
    let cut = (0..=PREFIX).rev().find(|at| id.is_char_boundary(*at)).unwrap_or(0);
    (&id[..cut], Some(end))
}

/// Whether an `exec` with these arguments has no marker. `false` also means that this is not known.
pub(crate) fn is_absent(arguments: &[&[u8]], state_dir: &[u8]) -> bool {
    // Without a process file, the runtime takes the process from config.json. The runtime reports
    // an id that is not acceptable.
    let Some(exec) = exec_args::read(arguments) else { return true };
    let Ok(id) = id::check(exec.id) else { return true };
    let (begin, end) = name(id);
    let end = end.as_ref().map_or(&[][..], |end| end);
    let directory = EXEC_DIR.as_bytes();
    let parts = [state_dir, b"/", directory, b"/", begin.as_bytes(), end, SUFFIX.as_bytes()];
    let mut path: PathBuffer = PathBuffer::default();
    path.set(&parts).is_some_and(|path| matches!(lstat(path), Err(Errno::NOENT | Errno::NOTDIR)))
}
