//! Temporary files for new contents, in the directory of the file that they replace.
//!
//! Engines read every file of some directories, whatever its name is, and a killed process cleans
//! up nothing. So a temporary file has no name (`O_TMPFILE`) where the file system supports that.
//! Elsewhere the next command removes the temporary files that a killed command has left.

use crate::install::install_root::InstallRoot;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, linkat, openat},
    io::Errno,
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};
use tempfile::{Builder, NamedTempFile};

/// Prefix of the names of temporary files, where the file system does not support `O_TMPFILE`.
const PREFIX: &str = ".nri-";
/// Number of random letters and digits after the prefix: the default of `tempfile`.
const RANDOM: usize = 6;

/// A file before it has its final name.
#[derive(Debug)]
pub(crate) enum NewFile {
    Nameless(File),
    Named(NamedTempFile),
}

impl NewFile {
    /// Creates an empty file in a directory. Only its owner can read and write it.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let nameless = openat(CWD, dir, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        match nameless.ok().filter(|file| Path::new(&proc_path(file)).exists()) {
            Some(file) => Ok(Self::Nameless(file)),
            None => named_files().tempfile_in(dir).map(Self::Named),
        }
    }

    /// Returns the file to write to.
    pub(crate) fn file(&mut self) -> &mut File {
        match self {
            Self::Nameless(file) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Gives the file its final name, and replaces a file that has this name.
    pub(crate) fn persist(self, path: &Path) -> io::Result<()> {
        let file = match self {
            Self::Nameless(file) => file,
            Self::Named(file) => return file.persist(path).map(drop).map_err(|e| e.error),
        };
        let link = |at: &Path| linkat(CWD, proc_path(&file), CWD, at, AtFlags::SYMLINK_FOLLOW);
        match link(path) {
            Err(Errno::EXIST) => {
                let dir = path.parent().unwrap_or(Path::new("/"));
                let named = named_files().make_in(dir, |at| link(at).map_err(io::Error::from))?;
                named.persist(path).map(drop).map_err(|e| e.error)
            }
            done => Ok(done?),
        }
    }
}

/// Returns a builder of temporary files that have a name.
fn named_files<'a>() -> Builder<'a, 'static> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).rand_bytes(RANDOM);
    builder
}

/// Returns the path of an open file in `/proc`, which exists even if the file has no name.
fn proc_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Removes temporary files of killed commands from the directories of `files`. Returns the removed
/// paths. The caller holds the lock of `/etc`, so no other command runs.
pub(crate) fn remove_leftovers(
    root: &InstallRoot,
    files: impl Iterator<Item = PathBuf>,
) -> Vec<PathBuf> {
    let dirs: BTreeSet<PathBuf> =
        files.filter_map(|file| Some(root.real(&file).ok()?.parent()?.to_owned())).collect();
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let leftovers = entries.filter(|entry| {
        let random =
            entry.file_name().to_str().and_then(|n| n.strip_prefix(PREFIX)).map(str::to_owned);
        let is_ours = random
            .is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()));
        is_ours && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    leftovers.map(|entry| entry.path()).filter(|path| fs::remove_file(path).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names_in(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn contents_have_a_name_only_when_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for (text, named) in [("one", false), ("two", false), ("three", true)] {
            let other = || named_files().tempfile_in(dir.path()).map(NewFile::Named);
            let mut new = if named { other() } else { NewFile::new(dir.path()) }.unwrap();
            new.file().write_all(text.as_bytes()).unwrap();
            if matches!(new, NewFile::Nameless(_)) {
                assert!(names_in(dir.path()).iter().all(|name| !name.starts_with(PREFIX)));
            }
            new.persist(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names_in(dir.path()), ["a"]);
    }

    #[test]
    fn only_our_leftovers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = InstallRoot::new(Some(dir.path())).unwrap();
        let (_, kept) = named_files().tempfile_in(dir.path()).unwrap().keep().unwrap();
        // Each of these differs in one respect from a temporary file of ours.
        fs::create_dir(dir.path().join(".nri-folder")).unwrap();
        for name in [".nri-notes", ".nri-longer1", ".nri-a.conf", "nri-abcdef", ".nri-"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let before = names_in(dir.path());
        let removed =
            remove_leftovers(&root, ["/x", "/y", "/none/z"].map(PathBuf::from).into_iter());
        assert_eq!(
            removed.iter().map(|path| path.file_name()).collect::<Vec<_>>(),
            [kept.file_name()]
        );
        assert!(!kept.exists());
        assert_eq!(names_in(dir.path()).len(), before.len() - 1);
    }
}
