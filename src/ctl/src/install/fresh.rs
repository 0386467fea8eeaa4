//! New contents on a file's own disk, before they have its name.
//!
//! Engines read every file of some directories, whatever its name is, and whoever is killed cleans
//! up nothing. So the contents have no name at all where the file system can do that, until all of
//! them are written. What is left behind elsewhere goes with the next call.

use super::root::Root;
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

const PREFIX: &str = ".nri-";
/// As many letters and digits follow.
const RANDOM: usize = 6;

/// A file in the making.
#[derive(Debug)]
pub(crate) enum Fresh {
    Nameless(File),
    Named(NamedTempFile),
}

impl Fresh {
    /// An empty one in a directory, for us alone.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let nameless = openat(CWD, dir, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        match nameless.ok().filter(|file| Path::new(&by_number(file)).exists()) {
            Some(file) => Ok(Self::Nameless(file)),
            None => names().tempfile_in(dir).map(Self::Named),
        }
    }

    /// What to write to.
    pub(crate) fn file(&mut self) -> &mut File {
        match self {
            Self::Nameless(file) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Takes the place of what is there.
    pub(crate) fn persist(self, place: &Path) -> io::Result<()> {
        let file = match self {
            Self::Nameless(file) => file,
            Self::Named(file) => return file.persist(place).map(drop).map_err(|e| e.error),
        };
        let link = |at: &Path| linkat(CWD, by_number(&file), CWD, at, AtFlags::SYMLINK_FOLLOW);
        match link(place) {
            Err(Errno::EXIST) => {
                let dir = place.parent().unwrap_or(Path::new("/"));
                let named = names().make_in(dir, |at| link(at).map_err(io::Error::from))?;
                named.persist(place).map(drop).map_err(|e| e.error)
            }
            done => Ok(done?),
        }
    }
}

fn names<'a>() -> Builder<'a, 'static> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).rand_bytes(RANDOM);
    builder
}

fn by_number(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Removes what calls that were killed have left beside these files; only for who holds the lock,
/// so that nobody is at work there.
pub(crate) fn sweep(root: &Root, files: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let dirs: BTreeSet<PathBuf> =
        files.filter_map(|file| Some(root.real(&file).ok()?.parent()?.to_owned())).collect();
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let left = entries.filter(|entry| {
        let random =
            entry.file_name().to_str().and_then(|n| n.strip_prefix(PREFIX)).map(str::to_owned);
        let ours = random
            .is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()));
        ours && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    left.map(|entry| entry.path()).filter(|path| fs::remove_file(path).is_ok()).collect()
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
    fn contents_come_with_their_name() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a");
        for (text, named) in [("one", false), ("two", false), ("three", true)] {
            let other = || names().tempfile_in(dir.path()).map(Fresh::Named);
            let mut fresh = if named { other() } else { Fresh::new(dir.path()) }.unwrap();
            fresh.file().write_all(text.as_bytes()).unwrap();
            if matches!(fresh, Fresh::Nameless(_)) {
                assert!(names_in(dir.path()).iter().all(|name| !name.starts_with(PREFIX)));
            }
            fresh.persist(&place).unwrap();
            assert_eq!(fs::read_to_string(&place).unwrap(), text);
        }
        assert_eq!(names_in(dir.path()), ["a"]);
    }

    #[test]
    fn only_what_is_ours_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(Some(dir.path())).unwrap();
        let (_, kept) = names().tempfile_in(dir.path()).unwrap().keep().unwrap();
        fs::create_dir(dir.path().join(".nri-folder")).unwrap();
        for name in [".nri-notes", ".nri-longer1", ".nri-a.conf", "nri-abcdef", ".nri-"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let before = names_in(dir.path());
        let swept = sweep(&root, ["/x", "/y", "/none/z"].map(PathBuf::from).into_iter());
        assert_eq!(
            swept.iter().map(|path| path.file_name()).collect::<Vec<_>>(),
            [kept.file_name()]
        );
        assert!(!kept.exists());
        assert_eq!(names_in(dir.path()).len(), before.len() - 1);
    }
}
