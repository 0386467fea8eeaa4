//! Files of control groups: compares their content with the effective resources, and writes them.
//!
//! `nri-cgroup` decides which values are written and expected; this file reads and writes. Reads do
//! not block. A write may take seconds: a smaller `memory.max` reclaims memory first.

use crate::host::file_access::blocking;
use nri_api::set_by;
use nri_cgroup::CgroupWrite;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Number of attempts to write a file: limits depend on one another, so the write of a limit may
/// succeed only after another limit was written.
const WRITE_ATTEMPTS: usize = 3;

/// A file that does not hold the effective value.
#[derive(Debug, thiserror::Error)]
#[error("{field}{}: {} {found}, expected {wanted}", set_by(owner.as_deref()), file.display())]
pub struct Drift {
    /// The field of the resources.
    pub field: String,
    /// The plugin that set the field, if known.
    pub owner: Option<String>,
    /// The file that holds the field's value.
    pub file: PathBuf,
    /// The content that the file must have.
    pub wanted: String,
    /// What the file holds instead.
    #[source]
    pub found: ActualContent,
}

/// What is wrong with a file that does not hold the effective value.
#[derive(Debug, thiserror::Error)]
pub enum ActualContent {
    /// The compared part of the content.
    #[error("holds {0:?}")]
    Content(String),
    /// The file cannot be read.
    #[error("cannot be read ({0})")]
    Unreadable(#[source] io::Error),
    /// The file cannot be written.
    #[error("cannot be written ({0})")]
    Unwritable(#[source] io::Error),
}

/// Returns the files that do not hold the expected values.
pub fn compare(writes: &[CgroupWrite]) -> Vec<Drift> {
    let page = rustix::param::page_size() as u64;
    writes.iter().filter_map(|write| drift(write, page)).collect()
}

/// Returns the existing file for a write; the first candidate if none exists.
pub fn file(write: &CgroupWrite) -> Option<&Path> {
    let existing = write.files.iter().find(|file| file.exists());
    existing.or_else(|| write.files.first()).map(PathBuf::as_path)
}

/// Returns the part of the file's content that is compared with the effective value.
///
/// # Errors
/// The file cannot be read.
pub fn found(write: &CgroupWrite) -> io::Result<String> {
    let file = file(write).ok_or(io::ErrorKind::NotFound)?;
    fs::read_to_string(file).map(|content| write.effective.compared(&content).to_owned())
}

/// Compares one file; `None` if it holds the expected value.
fn drift(write: &CgroupWrite, page: u64) -> Option<Drift> {
    let file = file(write)?;
    let found = match fs::read_to_string(file) {
        Ok(content) if write.effective.matches(&content, page) => return None,
        Ok(content) => ActualContent::Content(write.effective.compared(&content).to_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound && write.is_optional => return None,
        Err(e) => ActualContent::Unreadable(e),
    };
    let wanted = write.effective.to_string();
    Some(Drift { field: write.field.clone(), owner: None, file: file.to_owned(), wanted, found })
}

/// Writes the files that do not hold the expected values, and returns the files that still do not
/// hold them. Files that only the runtime can write are compared, but not written.
pub fn enforce(writes: &[CgroupWrite]) -> Vec<Drift> {
    let page = rustix::param::page_size() as u64;
    let mut differing: Vec<&CgroupWrite> =
        writes.iter().filter(|s| drift(s, page).is_some()).collect();
    let mut errors: Vec<(&CgroupWrite, io::Error)> = Vec::new();
    for _ in 0..WRITE_ATTEMPTS {
        if differing.is_empty() {
            return Vec::new();
        }
        errors = blocking(|| {
            differing.iter().filter_map(|s| perform(s).err().map(|e| (*s, e))).collect()
        });
        differing.retain(|s| drift(s, page).is_some());
    }
    let with_error = |write: &CgroupWrite| {
        let mut drift = drift(write, page)?;
        if let Some(index) = errors.iter().position(|(failed, _)| *failed == write) {
            drift.found = ActualContent::Unwritable(errors.swap_remove(index).1);
        }
        Some(drift)
    };
    differing.into_iter().filter_map(with_error).collect()
}

fn perform(write: &CgroupWrite) -> io::Result<()> {
    let Some(file) = file(write) else { return Ok(()) };
    for text in &write.texts {
        // One write(2) for each text: the kernel takes every write as one value.
        io::Write::write_all(&mut fs::File::options().write(true).open(file)?, text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_cgroup::EffectiveValue;

    fn cgroup_write(dir: &Path, names: &[&str], text: &str) -> CgroupWrite {
        CgroupWrite {
            field: "memory.limit".into(),
            files: names.iter().map(|n| dir.join(n)).collect(),
            texts: vec![text.into()],
            effective: EffectiveValue::OneOf(vec![text.into()]),
            is_optional: false,
        }
    }

    #[test]
    fn drift_is_reported_and_corrected() {
        let dir = tempfile::tempdir().unwrap();
        let write_file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write_file("right", "1\n");
        write_file("wrong", "2");
        let writes = [
            cgroup_write(dir.path(), &["right"], "1"),
            cgroup_write(dir.path(), &["missing", "wrong"], "1"),
            CgroupWrite { is_optional: true, ..cgroup_write(dir.path(), &["absent"], "1") },
        ];
        let drift = compare(&writes);
        assert_eq!(drift.len(), 1);
        let file = dir.path().join("wrong");
        assert_eq!(
            drift[0].to_string(),
            format!("memory.limit: {} holds \"2\", expected 1", file.display())
        );
        assert!(enforce(&writes).is_empty());
        assert_eq!(fs::read_to_string(file).unwrap(), "1");
        assert!(compare(&writes).is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_returned_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let missing = cgroup_write(&dir.path().join("missing"), &["file"], "1");
        let drift = enforce(std::slice::from_ref(&missing));
        assert!(drift[0].to_string().contains("cannot be written (No such file"), "{}", drift[0]);
        // A file that only the runtime can write is compared, but not written.
        let read_only = CgroupWrite { texts: Vec::new(), ..cgroup_write(dir.path(), &["x"], "1") };
        fs::write(dir.path().join("x"), "2").unwrap();
        assert_eq!(enforce(&[read_only]).len(), 1);
        assert_eq!(fs::read_to_string(dir.path().join("x")).unwrap(), "2");
    }
}
