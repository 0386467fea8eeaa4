//! Reads the file of `update --resources`: `nrid` receives the content before the real runtime
//! reads the file.

use crate::error::Error;
use nri_args::verb_args::ResourcesFlag;
use nri_locate::working_dir;
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
};

/// Maximum size of the file in bytes. Usual files have a few thousand bytes; the file has to fit
/// into a frame of the control protocol.
const LIMIT: u64 = 4 << 20;

/// Content of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestedResources {
    pub(crate) content: Vec<u8>,
    /// Whether the file, such as a pipe, can be read only once, so that the real runtime needs a
    /// copy as stdin.
    pub(crate) is_spent: bool,
}

/// Reads the file. Returns `None` if the file cannot be read: the real runtime reports that error
/// itself.
pub(crate) fn read(resources: &ResourcesFlag<'_>) -> Result<Option<RequestedResources>, Error> {
    let path = working_dir().join(OsStr::from_bytes(resources.value));
    let mut content = Vec::new();
    let is_spent = if resources.value == b"-" {
        io::stdin()
            .lock()
            .take(LIMIT + 1)
            .read_to_end(&mut content)
            .map_err(|source| Error::Resources { path: "stdin".into(), source })?;
        true
    } else {
        let Ok(file) = File::open(&path) else { return Ok(None) };
        let is_regular = file.metadata().is_ok_and(|m| m.is_file());
        match file.take(LIMIT + 1).read_to_end(&mut content) {
            Err(_) if is_regular => return Ok(None),
            Err(source) => return Err(Error::Resources { path, source }),
            Ok(_) => !is_regular,
        }
    };
    if content.len() as u64 > LIMIT {
        let name = if resources.value == b"-" { "stdin".into() } else { path };
        return Err(Error::ResourcesTooLarge { path: name, limit: LIMIT });
    }
    Ok(Some(RequestedResources { content, is_spent }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_above_the_limit_is_refused_and_a_missing_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).into_os_string();
        let read = |name: &str| read(&ResourcesFlag { value: path(name).as_bytes(), at: (0, 0) });
        std::fs::write(dir.path().join("f"), b"{}\xff").unwrap();
        assert_eq!(
            read("f").unwrap(),
            Some(RequestedResources { content: b"{}\xff".to_vec(), is_spent: false })
        );
        assert_eq!(read("missing").unwrap(), None);
        std::fs::write(dir.path().join("big"), vec![b' '; LIMIT as usize + 1]).unwrap();
        assert!(matches!(read("big"), Err(Error::ResourcesTooLarge { .. })));
    }
}
