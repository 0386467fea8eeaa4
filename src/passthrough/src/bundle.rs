//! The bundle directory of a container.

use crate::path_buffer::LongPath;
use core::mem::ManuallyDrop;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags, open, statat},
    io::Errno,
};

/// Opens a bundle directory. `config` is the path of the OCI config, relative to it or absolute.
/// Returns `None` if one of them does not exist: then no container is created, and the real runtime
/// reports that. The caller drops the descriptor, which calls the C library; execve(2) closes it.
///
/// # Errors
/// The directory cannot be opened.
pub fn open_bundle(
    directory: &[u8],
    config: &[u8],
) -> Result<Option<ManuallyDrop<OwnedFd>>, Errno> {
    let is_missing = |error| matches!(error, Errno::NOENT | Errno::NOTDIR);
    let mut path = LongPath::default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = path.set(&[directory]).ok_or(Errno::NAMETOOLONG)?;
    match open(directory, flags, Mode::empty()).map(ManuallyDrop::new) {
        Err(error) if is_missing(error) => Ok(None),
        Err(error) => Err(error),
        Ok(fd) => {
            let config = path.set(&[config]).ok_or(Errno::NAMETOOLONG)?;
            let found = statat(&*fd, config, AtFlags::empty());
            Ok(if found.is_err_and(is_missing) { None } else { Some(fd) })
        }
    }
}
