//! Files of control groups: what they hold against what they are to hold, and writing them.
//!
//! `nri-cgroup` decides what is to be written and found; this file reads and writes. No access
//! waits for long, so it is done in place.

use nri_cgroup::CgroupWrite;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Attempts at a setting that fails: limits depend on one another, and another one may have been
/// written meanwhile.
const WRITE_ATTEMPTS: usize = 3;

/// A setting that differs from the requested one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {} {}, and not {wanted}", file.display(), describe(found))]
pub struct Drift {
    /// The field of the resources.
    pub field: String,
    /// The file that holds it.
    pub file: PathBuf,
    /// The content that it must have.
    pub wanted: String,
    /// Its content, or why that is unknown.
    pub found: Result<String, String>,
}

fn describe(found: &Result<String, String>) -> String {
    match found {
        Ok(content) => format!("holds {content:?}"),
        Err(why) => why.clone(),
    }
}

/// Returns the settings that the files do not hold.
pub fn compare(settings: &[CgroupWrite]) -> Vec<Drift> {
    let page = rustix::param::page_size() as u64;
    settings.iter().filter_map(|setting| drift(setting, page)).collect()
}

/// Returns the existing file of a setting; the first candidate if none exists.
pub fn file(setting: &CgroupWrite) -> Option<&Path> {
    let there = setting.files.iter().find(|file| file.exists());
    there.or_else(|| setting.files.first()).map(PathBuf::as_path)
}

/// Returns the part of the file's content that matters for a setting.
///
/// # Errors
/// The file cannot be read.
pub fn found(setting: &CgroupWrite) -> io::Result<String> {
    let file = file(setting).ok_or(io::ErrorKind::NotFound)?;
    fs::read_to_string(file).map(|content| setting.effective.compared(&content).to_owned())
}

fn drift(setting: &CgroupWrite, page: u64) -> Option<Drift> {
    let file = file(setting)?;
    let found = match fs::read_to_string(file) {
        Ok(content) if setting.effective.matches(&content, page) => return None,
        Ok(content) => Ok(setting.effective.compared(&content).to_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound && setting.is_optional => return None,
        Err(e) => Err(format!("cannot be read ({e})")),
    };
    let wanted = setting.effective.to_string();
    Some(Drift { field: setting.field.clone(), file: file.to_owned(), wanted, found })
}

/// Writes the settings that the files do not hold, and returns those that they still do not hold.
/// Settings that only the runtime can write are compared only.
pub fn enforce(settings: &[CgroupWrite]) -> Vec<Drift> {
    let page = rustix::param::page_size() as u64;
    let mut left: Vec<&CgroupWrite> =
        settings.iter().filter(|s| drift(s, page).is_some()).collect();
    let mut errors: Vec<(&CgroupWrite, io::Error)> = Vec::new();
    for _ in 0..WRITE_ATTEMPTS {
        errors = left.iter().filter_map(|s| write(s).err().map(|e| (*s, e))).collect();
        left.retain(|s| drift(s, page).is_some());
        if left.is_empty() {
            return Vec::new();
        }
    }
    let explained = |setting: &CgroupWrite| {
        let mut drift = drift(setting, page)?;
        if let Some((_, error)) = errors.iter().find(|(failed, _)| *failed == setting) {
            drift.found = Err(format!("cannot be written ({error})"));
        }
        Some(drift)
    };
    left.into_iter().filter_map(explained).collect()
}

fn write(setting: &CgroupWrite) -> io::Result<()> {
    let Some(file) = file(setting) else { return Ok(()) };
    for text in &setting.texts {
        // One write(2) for each: the kernel takes every write as one value.
        io::Write::write_all(&mut fs::File::options().write(true).open(file)?, text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_cgroup::EffectiveValue;

    fn setting(dir: &Path, names: &[&str], text: &str) -> CgroupWrite {
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
        let set = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        set("right", "1\n");
        set("wrong", "2");
        let settings = [
            setting(dir.path(), &["right"], "1"),
            setting(dir.path(), &["missing", "wrong"], "1"),
            CgroupWrite { is_optional: true, ..setting(dir.path(), &["absent"], "1") },
        ];
        let drift = compare(&settings);
        assert_eq!(drift.len(), 1);
        let file = dir.path().join("wrong");
        assert_eq!(
            drift[0].to_string(),
            format!("memory.limit: {} holds \"2\", and not 1", file.display())
        );
        assert_eq!(enforce(&settings), []);
        assert_eq!(fs::read_to_string(file).unwrap(), "1");
        assert_eq!(compare(&settings), []);
    }

    #[test]
    fn a_setting_that_cannot_be_written_is_returned_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let missing = setting(&dir.path().join("gone"), &["file"], "1");
        let left = enforce(std::slice::from_ref(&missing));
        assert!(left[0].to_string().contains("cannot be written (No such file"), "{}", left[0]);
        // What the runtime alone can set is compared, and not written.
        let only_read = CgroupWrite { texts: Vec::new(), ..setting(dir.path(), &["x"], "1") };
        fs::write(dir.path().join("x"), "2").unwrap();
        assert_eq!(enforce(&[only_read]).len(), 1);
        assert_eq!(fs::read_to_string(dir.path().join("x")).unwrap(), "2");
    }
}
