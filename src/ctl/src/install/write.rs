//! Writes the files of a plan. Every file is complete at every moment: its new contents are written
//! to a temporary file beside it, which then gets its name. All temporary files are complete before
//! the first file changes.

use super::{
    error::InstallError,
    install_root::{InstallRoot, TEMPORARY},
};
use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
};
use tempfile::{Builder, NamedTempFile};

/// Mode of a new file.
const NEW_FILE: u32 = 0o644;
/// Mode of a new directory, independent of the umask: engines of other users read these
/// directories, and only the owner writes.
const NEW_DIRECTORY: u32 = 0o755;

/// Content of a path.
#[derive(Debug)]
pub(super) enum Content {
    Nothing,
    Bytes(Vec<u8>),
    /// A symbolic link with this target.
    Link(PathBuf),
}

/// A path that changes, as seen inside the root.
#[derive(Debug)]
pub(super) struct PathChange {
    pub(super) path: PathBuf,
    pub(super) before: Content,
    pub(super) after: Content,
}

impl Content {
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl From<Option<Vec<u8>>> for Content {
    fn from(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Nothing, Self::Bytes)
    }
}

/// Writes all paths, in order.
///
/// # Errors
/// A path cannot be written; the error names those that were.
pub(super) fn write(root: &InstallRoot, changes: &[PathChange]) -> Result<(), InstallError> {
    let mut new_dirs = Vec::new();
    let failed = |change: &PathChange, source, written| InstallError::Write {
        path: change.path.clone(),
        source,
        written,
    };
    let mut prepared = Vec::new();
    for change in changes {
        match prepare(root, change, &mut new_dirs) {
            Ok(done) => prepared.push((change, done)),
            Err(source) => {
                drop(prepared);
                // `remove_dir` keeps a directory that is not empty.
                new_dirs.iter().rev().for_each(|dir| drop(fs::remove_dir(dir)));
                return Err(failed(change, source, String::new()));
            }
        }
    }
    let mut written: Vec<String> = Vec::new();
    for (change, (real, file)) in prepared {
        perform(change, &real, file)
            .map_err(|source| failed(change, source, written.join(", ")))?;
        written.push(change.path.display().to_string());
    }
    Ok(())
}

/// Returns a path for this process, outside the root, and a file with its new contents, if any.
fn prepare(
    root: &InstallRoot,
    change: &PathChange,
    new_dirs: &mut Vec<PathBuf>,
) -> io::Result<(PathBuf, Option<NamedTempFile>)> {
    let real = match (&change.before, &change.after) {
        (Content::Link(_), _) | (_, Content::Link(_)) => root.entry(&change.path)?,
        _ => root.real(&change.path)?,
    };
    // Only regular files are replaced. A path may lead to a pipe, or to `/dev/null`: a link to
    // `/dev/null` is how administrators mask a file.
    let is_usual = |meta: fs::Metadata| meta.is_file() || meta.is_symlink();
    if !real.symlink_metadata().map_or(true, is_usual) {
        return Err(io::Error::other("not a regular file"));
    }
    let parent = real.parent().unwrap_or(Path::new("/"));
    if !matches!(change.after, Content::Nothing) {
        make_dirs(parent, new_dirs)?;
    }
    rustix::fs::access(parent, rustix::fs::Access::WRITE_OK)?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let name = format!(".{name}{TEMPORARY}");
    // A command that was killed may have left one: engines read every file of some directories.
    let _ = fs::remove_file(parent.join(&name));
    let mut new = Builder::new();
    new.prefix(&name).rand_bytes(0);
    let new_file = |bytes| write_new(new.tempfile_in(parent)?, bytes, &real);
    let file = change.after.bytes().map(new_file).transpose()?;
    Ok((real, file))
}

/// Creates a directory and its parents. Adds the paths that are new to `new_dirs`.
fn make_dirs(dir: &Path, new_dirs: &mut Vec<PathBuf>) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_dirs(parent, new_dirs)?;
    }
    fs::create_dir(dir)?;
    new_dirs.push(dir.to_owned());
    fs::set_permissions(dir, Permissions::from_mode(NEW_DIRECTORY))
}

/// Writes a temporary file, with owner and mode of the file at `path`.
fn write_new(mut new: NamedTempFile, bytes: &[u8], path: &Path) -> io::Result<NamedTempFile> {
    let file = new.as_file_mut();
    file.write_all(bytes)?;
    match fs::metadata(path) {
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

fn perform(change: &PathChange, real: &Path, file: Option<NamedTempFile>) -> io::Result<()> {
    match (file, &change.after) {
        (Some(file), _) => drop(file.persist(real)?),
        (None, Content::Link(target)) => symlink(target, real)?,
        (None, _) => fs::remove_file(real)?,
    }
    // The new name must be on the disk before the next file changes.
    real.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> PathChange {
        let content = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec()).into();
        PathChange { path: path.into(), before: content(before), after: content(after) }
    }

    #[test]
    fn nothing_is_written_if_one_path_cannot_be() {
        let dir = tempfile::tempdir().unwrap();
        let root = InstallRoot::new(Some(dir.path())).unwrap();
        fs::write(dir.path().join("file"), "no directory").unwrap();
        let first = change("/made/a", None, Some("new"));
        let error = write(&root, &[first, change("/file/b", None, Some("new"))]).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("/file/b: ") && text.ends_with("nothing has changed"), "{text}");
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
    }

    #[test]
    fn an_error_names_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let root = InstallRoot::new(Some(dir.path())).unwrap();
        let link = PathChange {
            path: "/l".into(),
            before: Content::Nothing,
            after: Content::Link("a".into()),
        };
        fs::write(dir.path().join("l"), "taken").unwrap();
        let error = write(&root, &[change("/a", None, Some("new")), link]).unwrap_err();
        assert!(error.to_string().contains("already written: /a; "), "{error}");
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new");
    }
}
