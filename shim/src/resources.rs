//! The document of `update --resources`, which `nrid` has to see before the real runtime does.

use crate::{Error, options, verb_args::Resources};
use nri_locate::working_dir;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
};

/// Largest document, in bytes. A real one has some thousand; a frame of the control protocol must
/// hold it.
pub(crate) const LIMIT: u64 = 4 << 20;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) content: Vec<u8>,
    /// It can be read only once, as a pipe can: the real runtime needs a copy, as its stdin.
    pub(crate) is_spent: bool,
}

/// Reads it. `None`: the real runtime is to find out for itself what is wrong with it.
pub(crate) fn read(resources: &Resources) -> Result<Option<Document>, Error> {
    let path = working_dir().join(&resources.value);
    let mut content = Vec::new();
    let is_spent = if resources.value == "-" {
        io::stdin()
            .lock()
            .take(LIMIT + 1)
            .read_to_end(&mut content)
            .map_err(|e| Error::Resources(e, "stdin".into()))?;
        true
    } else {
        let Ok(file) = File::open(&path) else { return Ok(None) };
        let is_regular = file.metadata().is_ok_and(|m| m.is_file());
        match file.take(LIMIT + 1).read_to_end(&mut content) {
            Err(_) if is_regular => return Ok(None),
            Err(e) => return Err(Error::Resources(e, path)),
            Ok(_) => !is_regular,
        }
    };
    if content.len() as u64 > LIMIT {
        return Err(Error::ResourcesTooLarge(if resources.value == "-" {
            "stdin".into()
        } else {
            path
        }));
    }
    Ok(Some(Document { content, is_spent }))
}

/// The arguments with the value of `--resources` replaced by `-`.
pub(crate) fn from_stdin(arguments: &[OsString], resources: &Resources) -> Vec<OsString> {
    options::with_value(arguments, resources.at, b"-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_replaced_in_place() {
        for (line, at, expected) in [
            ("--resources /f id", (1, 0), "--resources - id"),
            ("--resources=/f id", (0, 12), "--resources=- id"),
            ("-r/f id", (0, 2), "-r- id"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let got = from_stdin(&words, &Resources { value: "/f".into(), at });
            assert_eq!(got.join(OsStr::new(" ")), OsStr::new(expected));
        }
    }

    use std::ffi::OsStr;

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| Resources { value: dir.path().join(name).into(), at: (0, 0) };
        std::fs::write(dir.path().join("f"), b"{}\xff").unwrap();
        assert_eq!(
            read(&of("f")).unwrap(),
            Some(Document { content: b"{}\xff".to_vec(), is_spent: false })
        );
        assert_eq!(read(&of("missing")).unwrap(), None);
        std::fs::write(dir.path().join("big"), vec![b' '; LIMIT as usize + 1]).unwrap();
        assert!(matches!(read(&of("big")), Err(Error::ResourcesTooLarge(_))));
    }
}
