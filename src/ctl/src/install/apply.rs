//! Makes a plan real: every file is whole at every moment, and all of them change or none.
//!
//! All new contents are written to the disks of their places first (`fresh.rs`). Only then the
//! first one gets its name; what fails after that is undone.

use super::{
    error::InstallError,
    fresh::Fresh,
    manifest::BACKUPS,
    plan::{Content, Step},
    root::Root,
};
use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
};

/// Mode of a file that was not there before.
const NEW_FILE: u32 = 0o644;
/// Mode of a directory that was not there before.
const NEW_DIRECTORY: u32 = 0o755;
const PRIVATE_DIRECTORY: u32 = 0o700;

struct Prepared<'a> {
    step: &'a Step,
    /// Where it is for us.
    place: PathBuf,
    /// The new contents, on the disk of its place.
    file: Option<Fresh>,
}

/// Performs all steps, or none.
///
/// # Errors
/// Something cannot be written, or is not any more what the plan was made for.
pub(crate) fn apply(root: &Root, steps: &[Step]) -> Result<(), InstallError> {
    let mut made = Vec::new();
    let prepared: Result<Vec<Prepared<'_>>, InstallError> =
        steps.iter().map(|step| prepare(root, step, &mut made)).collect();
    let result = prepared.and_then(|prepared| perform(root, prepared));
    if result.is_err() {
        // Only directories that are empty again go.
        made.iter().rev().for_each(|dir| drop(fs::remove_dir(dir)));
    }
    result
}

fn prepare<'a>(
    root: &Root,
    step: &'a Step,
    made: &mut Vec<PathBuf>,
) -> Result<Prepared<'a>, InstallError> {
    let wrong = |e| InstallError::Write(step.path.clone(), e);
    let place = match (&step.before, &step.after) {
        (Content::Link(_), _) | (_, Content::Link(_)) => root.place(&step.path),
        _ => root.real(&step.path),
    };
    let place = place.map_err(wrong)?;
    // Neither what masks a file (`/dev/null`) nor a pipe is replaced by one.
    if place
        .symlink_metadata()
        .is_ok_and(|meta| !(meta.is_file() || meta.is_dir() || meta.is_symlink()))
    {
        return Err(wrong(io::Error::other("no regular file")));
    }
    let parent = place.parent().unwrap_or(Path::new("/"));
    let file = match &step.after {
        Content::Nothing => {
            // Whether it can be removed is known only by trying; that the directory can be written
            // to is not.
            rustix::fs::access(parent, rustix::fs::Access::WRITE_OK)
                .map_err(|e| wrong(e.into()))?;
            None
        }
        Content::Link(_) => {
            make_dirs(parent, made).map_err(wrong)?;
            rustix::fs::access(parent, rustix::fs::Access::WRITE_OK)
                .map_err(|e| wrong(e.into()))?;
            None
        }
        Content::Bytes(bytes) => {
            make_dirs(parent, made).map_err(wrong)?;
            let like = step.like.as_ref().map(|path| root.real(path)).transpose().map_err(wrong)?;
            Some(beside(parent, bytes, like.as_deref().unwrap_or(&place)).map_err(wrong)?)
        }
    };
    Ok(Prepared { step, place, file })
}

fn make_dirs(dir: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_dirs(parent, made)?;
    }
    fs::create_dir(dir)?;
    made.push(dir.to_owned());
    // Whatever the umask is: engines of other users read there, and nobody else may write.
    let private = dir.ends_with(BACKUPS.trim_start_matches('/'));
    let mode = if private { PRIVATE_DIRECTORY } else { NEW_DIRECTORY };
    fs::set_permissions(dir, Permissions::from_mode(mode))?;
    Ok(())
}

/// A file in `dir` with these bytes, as if it were `like`.
fn beside(dir: &Path, bytes: &[u8], like: &Path) -> io::Result<Fresh> {
    let mut fresh = Fresh::new(dir)?;
    let file = fresh.file();
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
    Ok(fresh)
}

fn perform(root: &Root, prepared: Vec<Prepared<'_>>) -> Result<(), InstallError> {
    for Prepared { step, place, .. } in &prepared {
        if there(place) != step.before {
            return Err(InstallError::Raced(step.path.clone()));
        }
    }
    let mut done: Vec<&Step> = Vec::new();
    for Prepared { step, place, file } in prepared {
        match put(&place, &step.after, file) {
            Ok(()) => done.push(step),
            Err(error) => {
                let undone: Vec<String> =
                    done.iter().rev().filter_map(|step| undo(root, step)).collect();
                return Err(match undone.as_slice() {
                    [] => InstallError::Write(step.path.clone(), error),
                    left => InstallError::HalfWritten(step.path.clone(), error, left.join("; ")),
                });
            }
        }
    }
    Ok(())
}

fn there(place: &Path) -> Content {
    match fs::read_link(place) {
        Ok(target) => Content::Link(target),
        Err(_) => fs::read(place).map_or(Content::Nothing, Content::Bytes),
    }
}

fn put(place: &Path, after: &Content, file: Option<Fresh>) -> io::Result<()> {
    match (after, file) {
        (Content::Bytes(_), Some(file)) => file.persist(place)?,
        (Content::Bytes(bytes), None) => {
            let parent = place.parent().unwrap_or(Path::new("/"));
            beside(parent, bytes, place)?.persist(place)?;
        }
        (Content::Link(target), _) => symlink(target, place)?,
        (Content::Nothing, _) => fs::remove_file(place)?,
    }
    // The new name is on the disk before the next file changes.
    place.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Puts back what was there; says what could not be.
fn undo(root: &Root, step: &Step) -> Option<String> {
    let link = matches!(step.before, Content::Link(_)) || matches!(step.after, Content::Link(_));
    let place = if link { root.place(&step.path) } else { root.real(&step.path) };
    let result = place.and_then(|place| put(&place, &step.before, None));
    result.err().map(|e| format!("{}: {e}", step.path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(path: &str, before: Option<&str>, after: Option<&str>) -> Step {
        let content =
            |text: Option<&str>| text.map_or(Content::Nothing, |text| Content::Bytes(text.into()));
        Step { path: path.into(), before: content(before), after: content(after), like: None }
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
    fn what_fails_last_undoes_what_came_first() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(Some(dir.path())).unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        fs::write(dir.path().join("c"), "gone?").unwrap();
        let link = Step {
            path: "/l".into(),
            before: Content::Nothing,
            after: Content::Link("a".into()),
            like: None,
        };
        let steps = [
            step("/a", Some("old"), Some("new")),
            step("/b", None, Some("new")),
            step("/c", Some("gone?"), None),
            link,
            step("/d", None, Some("new")),
        ];
        // A file cannot take the place of a directory, which shows only when it is tried.
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
    fn nothing_is_written_if_any_place_cannot_be_prepared() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(Some(dir.path())).unwrap();
        fs::write(dir.path().join("file"), "no directory").unwrap();
        let before = files(dir.path());
        let steps = [step("/made/a", None, Some("new")), step("/file/b", None, Some("new"))];
        assert!(
            matches!(apply(&root, &steps), Err(InstallError::Write(path, _)) if path == Path::new("/file/b"))
        );
        assert_eq!(files(dir.path()), before);
        assert!(!dir.path().join("made").exists());
    }

    #[test]
    fn what_somebody_else_writes_meanwhile_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(Some(dir.path())).unwrap();
        fs::write(dir.path().join("b"), "theirs").unwrap();
        let steps = [step("/a", None, Some("new")), step("/b", Some("old"), Some("new"))];
        assert!(
            matches!(apply(&root, &steps), Err(InstallError::Raced(path)) if path == Path::new("/b"))
        );
        assert_eq!(files(dir.path()), [("b".to_owned(), "theirs".to_owned())]);
    }
}
