//! Plugins that are pinned by digest: a sealed copy in memory is hashed, and then run.
//!
//! The file itself is not run. Whoever can write to it could change it between the check and the
//! execution, and later: a script is read while it runs, pages of a program are read when they are
//! first used, and Linux 6.11 and 6.12 let programs that run be written to. Nothing can change the
//! copy. It takes as much memory as the file is large, while the plugin runs.
//!
//! Only the file is pinned, not what it loads: interpreters, libraries, modules of a script.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::launch::skip_reason::{DigestMismatch, SkipReason};

/// Descriptor of the copy in the plugin. A script needs it: its interpreter opens [`COPY`].
pub(crate) const COPY_FD: i32 = 4;

/// Path of the copy in the plugin.
pub(crate) const COPY: &str = "/proc/self/fd/4";

/// Limit of a file in bytes, since its copy takes memory. Programs in Go have about 50 MiB.
const MAX_SIZE: u64 = 256 << 20;

/// Returns a sealed copy of a file with this digest, which may be executed.
///
/// # Errors
/// [`SkipReason::Digest`] if the file has another digest, or [`SkipReason::Unverified`].
pub(crate) fn verified_copy(path: &Path, digest: &str) -> Result<OwnedFd, SkipReason> {
    let failed = |source| SkipReason::Unverified { path: path.to_owned(), source };
    let content = nri_trust::read_regular(path, MAX_SIZE).map_err(failed)?;
    let found = format!("sha256:{:x}", Sha256::digest(&content));
    if found != digest {
        let (path, expected) = (path.to_owned(), digest.to_owned());
        return Err(DigestMismatch { path, expected, found }.into());
    }
    sealed_copy(&content).map_err(failed)
}

fn sealed_copy(content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let created = match memfd_create("nri-plugin", flags | MemfdFlags::EXEC) {
        // Before Linux 6.3, which has the flag, all such files could be executed.
        Err(Errno::INVAL) => memfd_create("nri-plugin", flags),
        Err(Errno::ACCESS) => {
            let why = "the sysctl vm.memfd_noexec = 2 forbids that a copy is executed";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        created => created,
    };
    let mut file = File::from(created?);
    file.write_all(content)?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Seek};

    /// Of `printf pinned | sha256sum`.
    const DIGEST: &str = "sha256:3fab5c181bd28a09b64397df76ae2bfaf1eac182979b5fdb7a342858004f36af";

    #[test]
    fn the_copy_has_the_content_that_was_hashed_and_cannot_be_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("10-a");
        fs::write(&path, "pinned").unwrap();
        let mut copy = File::from(verified_copy(&path, DIGEST).unwrap());
        fs::write(&path, "changed").unwrap();
        assert!(copy.write_all(b"x").is_err() && copy.set_len(0).is_err());
        copy.rewind().unwrap();
        let mut content = String::new();
        copy.read_to_string(&mut content).unwrap();
        assert_eq!(content, "pinned");
    }

    #[test]
    fn an_error_has_the_file_and_both_digests() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("10-a");
        let error = |path: &Path, digest: &str| {
            let error = verified_copy(path, digest).unwrap_err().to_string();
            error.replace(&*dir.path().to_string_lossy(), "")
        };
        fs::write(&path, "pinned").unwrap();
        let expected = format!("/10-a has digest {DIGEST}, and not sha256:00 of its policy");
        assert_eq!(error(&path, "sha256:00"), expected);
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(
            error(&path, DIGEST),
            "digest of /10-a cannot be verified: the file is larger than the limit of 268435456 \
             bytes"
        );
    }
}
