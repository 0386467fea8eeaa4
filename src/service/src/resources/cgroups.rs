//! The control groups of containers on this host: what they hold against what they are to hold, and
//! making it so.
//!
//! What is to be written and found is `nri-cgroup`'s; here files are read and written. Nothing of
//! it waits for long, so it is done in place.

use crate::state::record::Record;
use nri_cgroup::{CgroupDirs, CgroupWrite, Controller, Hierarchy, configured_path};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How often a setting that fails is tried again when another one has been made: limits depend on
/// one another.
const ROUNDS: usize = 3;

/// crun's annotation for another name of the group below a scope than `container`.
const SUBGROUP: &str = "run.oci.systemd.subgroup";

/// A setting that is not as it is to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {} {}, and not {wanted}", file.display(), said(found))]
pub struct Drift {
    /// The field of the resources.
    pub field: String,
    /// The file that holds it.
    pub file: PathBuf,
    /// What it is to hold.
    pub wanted: String,
    /// What it holds, or why that cannot be told.
    pub found: Result<String, String>,
}

fn said(found: &Result<String, String>) -> String {
    match found {
        Ok(content) => format!("holds {content:?}"),
        Err(why) => why.clone(),
    }
}

/// The mounted hierarchies, as we see them.
pub fn mounted() -> Vec<Hierarchy> {
    crate::host::hierarchies::mounted()
}

/// Where a process is, as the kernel says; empty when it is gone.
pub fn membership(pid: i32) -> String {
    crate::host::proc::text(format!("/proc/{pid}/cgroup"))
}

/// The directories of a container, from where its first process was when it was created; none where
/// that is not known.
pub fn place(record: &Record) -> Option<CgroupDirs> {
    let membership = record.cgroups.as_deref().filter(|text| !text.is_empty())?;
    let path = &record.container.linux.cgroups_path;
    let mut expected = configured_path(path, record.runtime.uses_systemd());
    if let Some(scope) = expected.as_mut().filter(|_| record.runtime.uses_systemd()) {
        // crun with cgroup version 2: what it does not tell systemd of is in a group below the
        // scope, and so is the process.
        let below = scope.join(subgroup(record));
        if hierarchies_hold(membership, &below) {
            *scope = below;
        }
    }
    Some(CgroupDirs::of_process(&mounted(), membership, expected.as_deref()))
}

/// Whether a container is paused. Runtimes do it by the freezer, and no verb of theirs is asked for
/// it.
pub fn is_paused(place: &CgroupDirs) -> bool {
    let read = |file: PathBuf| fs::read_to_string(file).unwrap_or_default();
    match (place.v1(Controller::Freezer), place.v2(Controller::Freezer)) {
        (Some(dir), _) => matches!(read(dir.join("freezer.state")).trim(), "FROZEN" | "FREEZING"),
        (None, Some(dir)) => read(dir.join("cgroup.events")).lines().any(|line| line == "frozen 1"),
        (None, None) => false,
    }
}

/// The group that crun makes below a scope.
fn subgroup(record: &Record) -> &str {
    record.container.annotations.get(SUBGROUP).map_or("container", String::as_str)
}

/// Whether a process is at a path or below it, in some hierarchy.
fn hierarchies_hold(membership: &str, path: &Path) -> bool {
    let paths = membership.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.map(Path::new).any(|at| at.starts_with(path))
}

/// The threads in a container's control groups, those of groups below them included.
pub fn threads(place: &CgroupDirs) -> Vec<i32> {
    // The same are in each hierarchy.
    let Some(dir) = place.dirs().into_iter().find(|dir| dir.is_dir()) else { return Vec::new() };
    let (mut threads, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        // Version 2 and version 1.
        let text = ["cgroup.threads", "tasks"]
            .iter()
            .find_map(|name| fs::read_to_string(dir.join(name)).ok());
        threads.extend(
            text.unwrap_or_default().lines().filter_map(|line| line.trim().parse::<i32>().ok()),
        );
        let below = fs::read_dir(&dir).into_iter().flatten().flatten();
        dirs.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    threads
}

/// Compares; returns what is not as it is to be.
pub fn compare(settings: &[CgroupWrite]) -> Vec<Drift> {
    let page = rustix::param::page_size() as u64;
    settings.iter().filter_map(|setting| drift(setting, page)).collect()
}

/// The file of a setting that exists; the first name, where none does.
pub fn file(setting: &CgroupWrite) -> Option<&Path> {
    let there = setting.files.iter().find(|file| file.exists());
    there.or_else(|| setting.files.first()).map(PathBuf::as_path)
}

/// What a setting's file holds, of which only that is told which matters.
///
/// # Errors
/// It cannot be read.
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

/// Writes what is not as it is to be; returns what is still not. What only the runtime can set is
/// left to it.
pub fn enforce(settings: &[CgroupWrite]) -> Vec<Drift> {
    let page = rustix::param::page_size() as u64;
    let mut left: Vec<&CgroupWrite> =
        settings.iter().filter(|s| drift(s, page).is_some()).collect();
    let mut errors: Vec<(&CgroupWrite, io::Error)> = Vec::new();
    for _ in 0..ROUNDS {
        errors = left.iter().filter_map(|s| write(s).err().map(|e| (*s, e))).collect();
        left.retain(|s| drift(s, page).is_some());
        if left.is_empty() {
            return Vec::new();
        }
    }
    let told = |setting: &CgroupWrite| {
        let mut drift = drift(setting, page)?;
        if let Some((_, error)) = errors.iter().find(|(failed, _)| *failed == setting) {
            drift.found = Err(format!("cannot be written ({error})"));
        }
        Some(drift)
    };
    left.into_iter().filter_map(told).collect()
}

fn write(setting: &CgroupWrite) -> io::Result<()> {
    let Some(file) = file(setting) else { return Ok(()) };
    for text in &setting.texts {
        // One write(2) for each: the kernel takes every write for a value of its own.
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
    fn a_process_is_below_a_scope_or_in_it() {
        let holds = |membership: &str| {
            hierarchies_hold(membership, Path::new("/a.slice/b-c.scope/container"))
        };
        assert!(holds("0::/a.slice/b-c.scope/container\n"));
        assert!(holds("0::/a.slice/b-c.scope/container/init\n"));
        assert!(!holds("0::/a.slice/b-c.scope\n"));
        assert!(!holds("2:cpu:/a.slice/b-c.scope\n0::/a.slice/b-c.scope/other\n"));
        assert!(!holds(""));
    }

    #[test]
    fn drift_is_told_and_mended() {
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
    fn what_cannot_be_set_is_left_with_a_reason() {
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
