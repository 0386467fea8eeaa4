//! Performs a plan: every file is complete at every moment, and all of them change or none.
//!
//! First all new contents are written to temporary files in the directories of their targets
//! (`new_file.rs`). Then each file gets its final name; if a step fails, the earlier steps are
//! undone.

use super::{
    new_file::NewFile,
    plan::{Content, InstallStep},
};
use crate::install::{error::InstallError, install_root::InstallRoot};
use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
};

/// Mode of a new file.
const NEW_FILE: u32 = 0o644;
/// Mode of a new directory.
const NEW_DIRECTORY: u32 = 0o755;
/// Mode of the directory of backups.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// A step that can be performed: its new contents are written, but do not have their final name.
struct Prepared<'a> {
    step: &'a InstallStep,
    /// The step's path for this process, outside the root.
    real: PathBuf,
    /// The new contents, in the directory of `real`; `None`: a link or a removal.
    file: Option<NewFile>,
}

/// Performs all steps, or none.
///
/// # Errors
/// A file cannot be written, or has changed since the plan was made.
pub(crate) fn apply(root: &InstallRoot, steps: &[InstallStep]) -> Result<(), InstallError> {
    let mut new_dirs = Vec::new();
    let prepared: Result<Vec<Prepared<'_>>, InstallError> =
        steps.iter().map(|step| prepare(root, step, &mut new_dirs)).collect();
    let result = prepared.and_then(|prepared| perform(root, prepared));
    if result.is_err() {
        // `remove_dir` keeps a directory that is not empty.
        new_dirs.iter().rev().for_each(|dir| drop(fs::remove_dir(dir)));
    }
    result
}

fn prepare<'a>(
    root: &InstallRoot,
    step: &'a InstallStep,
    new_dirs: &mut Vec<PathBuf>,
) -> Result<Prepared<'a>, InstallError> {
    let failed = |source| InstallError::Write { path: step.path.clone(), source };
    let real = match (&step.before, &step.after) {
        (Content::Link(_), _) | (_, Content::Link(_)) => root.entry(&step.path),
        _ => root.real(&step.path),
    };
    let real = real.map_err(failed)?;
    // Only regular files are replaced. A path may lead to a pipe, or to `/dev/null`: a link to
    // `/dev/null` is how administrators mask a file.
    if real
        .symlink_metadata()
        .is_ok_and(|meta| !(meta.is_file() || meta.is_dir() || meta.is_symlink()))
    {
        return Err(failed(io::Error::other("not a regular file")));
    }
    let parent = real.parent().unwrap_or(Path::new("/"));
    let file = match &step.after {
        Content::Nothing => {
            // A removal can still fail when it is performed; a directory that is not writable is
            // reported before anything changes.
            rustix::fs::access(parent, rustix::fs::Access::WRITE_OK)
                .map_err(|e| failed(e.into()))?;
            None
        }
        Content::Link(_) => {
            make_dirs(root, parent, new_dirs).map_err(failed)?;
            rustix::fs::access(parent, rustix::fs::Access::WRITE_OK)
                .map_err(|e| failed(e.into()))?;
            None
        }
        Content::Bytes(bytes) => {
            make_dirs(root, parent, new_dirs).map_err(failed)?;
            let like =
                step.like.as_ref().map(|path| root.real(path)).transpose().map_err(failed)?;
            Some(write_new_file(parent, bytes, like.as_deref().unwrap_or(&real)).map_err(failed)?)
        }
    };
    Ok(Prepared { step, real, file })
}

/// Creates a directory and its parents. Adds the paths that are new to `new_dirs`.
fn make_dirs(root: &InstallRoot, dir: &Path, new_dirs: &mut Vec<PathBuf>) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_dirs(root, parent, new_dirs)?;
    }
    fs::create_dir(dir)?;
    new_dirs.push(dir.to_owned());
    // The mode is independent of the umask: engines of other users read these directories, and only
    // the owner writes.
    let is_private = root.real(&root.backups()).is_ok_and(|backups| backups == dir);
    let mode = if is_private { PRIVATE_DIRECTORY } else { NEW_DIRECTORY };
    fs::set_permissions(dir, Permissions::from_mode(mode))?;
    Ok(())
}

/// Writes a new file in `dir`, with owner and mode of `like`.
fn write_new_file(dir: &Path, bytes: &[u8], like: &Path) -> io::Result<NewFile> {
    let mut new = NewFile::new(dir)?;
    let file = new.file();
    file.write_all(bytes)?;
    match fs::metadata(like) {
        Ok(meta) => {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (meta.uid(), meta.gid()) {
                fchown(&*file, Some(meta.uid()), Some(meta.gid()))?;
            }
            file.set_permissions(Permissions::from_mode(meta.mode() & 0o7777))?;
        }
        Err(_) => file.set_permissions(Permissions::from_mode(NEW_FILE))?,
    }
    file.sync_all()?;
    Ok(new)
}

fn perform(root: &InstallRoot, prepared: Vec<Prepared<'_>>) -> Result<(), InstallError> {
    for Prepared { step, real, .. } in &prepared {
        if content(real) != step.before {
            return Err(InstallError::Raced(step.path.clone()));
        }
    }
    let mut performed: Vec<&InstallStep> = Vec::new();
    for Prepared { step, real, file } in prepared {
        match set_content(&real, &step.after, file) {
            Ok(()) => performed.push(step),
            Err(source) => {
                let left: Vec<String> =
                    performed.iter().rev().filter_map(|step| undo(root, step)).collect();
                return Err(match left.as_slice() {
                    [] => InstallError::Write { path: step.path.clone(), source },
                    left => {
                        let (path, left) = (step.path.clone(), left.join("; "));
                        InstallError::HalfWritten { path, source, left }
                    }
                });
            }
        }
    }
    Ok(())
}

/// Reads the content of a path.
fn content(path: &Path) -> Content {
    match fs::read_link(path) {
        Ok(target) => Content::Link(target),
        Err(_) => fs::read(path).map_or(Content::Nothing, Content::Bytes),
    }
}

/// Sets the content of a path. `file` holds the new bytes; without `file`, they are written to a
/// new file.
fn set_content(path: &Path, after: &Content, file: Option<NewFile>) -> io::Result<()> {
    match (after, file) {
        (Content::Bytes(_), Some(file)) => file.persist(path)?,
        (Content::Bytes(bytes), None) => {
            let parent = path.parent().unwrap_or(Path::new("/"));
            write_new_file(parent, bytes, path)?.persist(path)?;
        }
        (Content::Link(target), _) => symlink(target, path)?,
        (Content::Nothing, _) => fs::remove_file(path)?,
    }
    // The new name must be on the disk before the next file changes.
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Undoes a step. Returns the path and the error if the step cannot be undone.
fn undo(root: &InstallRoot, step: &InstallStep) -> Option<String> {
    let is_link = matches!(step.before, Content::Link(_)) || matches!(step.after, Content::Link(_));
    let real = if is_link { root.entry(&step.path) } else { root.real(&step.path) };
    let result = real.and_then(|real| set_content(&real, &step.before, None));
    result.err().map(|e| format!("{}: {e}", step.path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(path: &str, before: Option<&str>, after: Option<&str>) -> InstallStep {
        let content =
            |text: Option<&str>| text.map_or(Content::Nothing, |text| Content::Bytes(text.into()));
        InstallStep {
            path: path.into(),
            before: content(before),
            after: content(after),
            like: None,
        }
    }

    fn files(dir: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(dir)
            .unwrap()
            .map(Result::unwrap)
            .filter(|e| e.file_type().unwrap().is_file());
        let read = |e: fs::DirEntry| {
            (e.file_name().into_string().unwrap(), fs::read_to_string(e.path()).unwrap())
        };
        let mut files: Vec<_> = entries.map(read).collect();
        files.sort();
        files
    }

    #[test]
    fn a_failing_last_step_undoes_the_earlier_steps() {
        let dir = tempfile::tempdir().unwrap();
        let root = InstallRoot::new(Some(dir.path())).unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        fs::write(dir.path().join("c"), "removed").unwrap();
        let link = InstallStep {
            path: "/l".into(),
            before: Content::Nothing,
            after: Content::Link("a".into()),
            like: None,
        };
        let steps = [
            step("/a", Some("old"), Some("new")),
            step("/b", None, Some("new")),
            step("/c", Some("removed"), None),
            link,
            step("/d", None, Some("new")),
        ];
        // Renaming a file over a directory fails only when the step is performed.
        fs::create_dir_all(dir.path().join("d/x")).unwrap();
        let before = files(dir.path());
        let error = apply(&root, &steps).unwrap_err();
        assert!(
            error.to_string().contains("/d: ")
                && error.to_string().ends_with("nothing has changed"),
            "{error}"
        );
        assert_eq!(files(dir.path()), before);
        assert!(dir.path().join("l").symlink_metadata().is_err());

        fs::remove_dir_all(dir.path().join("d")).unwrap();
        apply(&root, &steps).unwrap();
        assert_eq!(files(dir.path()), ["a", "b", "d"].map(|n| (n.to_owned(), "new".to_owned())));
        assert_eq!(fs::read_link(dir.path().join("l")).unwrap(), Path::new("a"));
    }

    #[test]
    fn nothing_is_written_if_one_step_cannot_be_prepared() {
        let dir = tempfile::tempdir().unwrap();
        let root = InstallRoot::new(Some(dir.path())).unwrap();
        fs::write(dir.path().join("file"), "no directory").unwrap();
        let before = files(dir.path());
        let steps = [step("/made/a", None, Some("new")), step("/file/b", None, Some("new"))];
        let error = apply(&root, &steps).unwrap_err();
        assert!(
            matches!(&error, InstallError::Write { path, .. } if path == Path::new("/file/b")),
            "{error}"
        );
        assert_eq!(files(dir.path()), before);
        assert!(!dir.path().join("made").exists());
    }

    #[test]
    fn a_file_that_changed_since_the_plan_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let root = InstallRoot::new(Some(dir.path())).unwrap();
        fs::write(dir.path().join("b"), "theirs").unwrap();
        let steps = [step("/a", None, Some("new")), step("/b", Some("old"), Some("new"))];
        let error = apply(&root, &steps).unwrap_err();
        assert!(matches!(&error, InstallError::Raced(path) if path == Path::new("/b")), "{error}");
        assert_eq!(files(dir.path()), [("b".to_owned(), "theirs".to_owned())]);
    }
}
