//! The file system that is meant: the machine's, or an image below a directory.
//!
//! Paths in configuration files and in the manifest are as seen inside; [`Root::real`] tells where
//! they are for us, with symbolic links followed inside as well.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

/// As many symbolic links as the kernel follows.
const MOST_LINKS: usize = 40;

/// Base name of the wrapper.
pub(crate) const WRAPPER: &str = "nri-container-runtime";

/// Where `/` is.
#[derive(Debug, Clone)]
pub(crate) struct Root(Option<PathBuf>);

impl Root {
    /// Of the machine itself, or of an image.
    pub(crate) fn new(dir: Option<&Path>) -> io::Result<Self> {
        // `--root /` is no image: engines may be asked there.
        let dir = dir.map(fs::canonicalize).transpose()?;
        Ok(Self(dir.filter(|dir| dir != Path::new("/"))))
    }

    /// Whether it is the machine's: only there programs are asked.
    pub(crate) fn is_machine(&self) -> bool {
        self.0.is_none()
    }

    /// Where an absolute path is for us, whatever symbolic links are on the way. What does not
    /// exist is where it would be made.
    pub(crate) fn real(&self, path: &Path) -> io::Result<PathBuf> {
        self.resolve(path, true)
    }

    /// The same, but a symbolic link at the end is not followed.
    pub(crate) fn place(&self, path: &Path) -> io::Result<PathBuf> {
        self.resolve(path, false)
    }

    fn resolve(&self, path: &Path, last: bool) -> io::Result<PathBuf> {
        let top = self.0.as_deref().unwrap_or(Path::new("/"));
        let mut at = top.to_owned();
        let mut left: Vec<PathBuf> = parts(path);
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == Path::new("..") {
                if at != top {
                    at.pop();
                }
                continue;
            }
            let next = at.join(&part);
            match fs::read_link(&next) {
                Ok(target) if last || !left.is_empty() => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(rustix::io::Errno::LOOP.into());
                    }
                    if target.is_absolute() {
                        at = top.to_owned();
                    }
                    left.extend(parts(&target));
                }
                _ => at = next,
            }
        }
        Ok(at)
    }

    /// A file's bytes; `None` if there is no such file.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let place = self.real(path)?;
        match fs::metadata(&place).and_then(|meta| read_whole(&place, &meta)) {
            Ok(bytes) => Ok(Some(bytes)),
            // Below what is no directory there is no file either.
            Err(e)
                if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// What a symbolic link says; `None` if it is none.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        fs::read_link(self.place(path).ok()?).ok()
    }

    /// Whether it is a program that somebody may run.
    pub(crate) fn is_program(&self, path: &Path) -> bool {
        let meta = self.real(path).and_then(fs::metadata);
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    }

    /// Whether anything is there.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.real(path).is_ok_and(|path| path.exists())
    }

    /// Names of a directory's files, sorted; none if there is no such directory.
    pub(crate) fn list(&self, dir: &Path) -> Vec<String> {
        let entries = self.real(dir).and_then(fs::read_dir).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| !entry.path().is_dir());
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether a runtime's path names the wrapper, or a link to it. It need not be there any more.
    pub(crate) fn is_ours(&self, path: &str) -> bool {
        let named = |path: &Path| path.file_name().is_some_and(|name| name == WRAPPER);
        let path = Path::new(path);
        path.is_absolute() && (named(path) || self.link(path).is_some_and(|target| named(&target)))
    }
}

/// Nobody waits at a pipe, nor reads a device without end; a link to `/dev/null` is how files are
/// masked.
fn read_whole(place: &Path, meta: &fs::Metadata) -> io::Result<Vec<u8>> {
    let null = meta.file_type().is_char_device()
        && meta.rdev() == fs::metadata("/dev/null").map_or(0, |null| null.rdev());
    match meta {
        _ if null => Ok(Vec::new()),
        meta if meta.is_file() => fs::read(place),
        _ => Err(io::Error::other("no regular file")),
    }
}

/// Components in reverse order.
fn parts(path: &Path) -> Vec<PathBuf> {
    let kept =
        path.components().filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
    kept.map(|c| PathBuf::from(c.as_os_str())).rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_nowhere_outside() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = Root::new(Some(dir.path())).unwrap();
        fs::create_dir_all(top.join("srv/docker")).unwrap();
        fs::create_dir(top.join("etc")).unwrap();
        symlink("/srv/docker", top.join("etc/docker")).unwrap();
        symlink("../../../../../srv/x.json", top.join("srv/docker/daemon.json")).unwrap();
        symlink("loop", top.join("etc/loop")).unwrap();
        let real = |path: &str| root.real(Path::new(path));
        assert_eq!(real("/etc/docker/daemon.json").unwrap(), top.join("srv/x.json"));
        assert_eq!(real("/etc/../../docker").unwrap(), top.join("docker"));
        assert_eq!(
            real("/etc/loop").unwrap_err().raw_os_error(),
            Some(rustix::io::Errno::LOOP.raw_os_error())
        );
        assert_eq!(
            root.place(Path::new("/etc/docker/daemon.json")).unwrap(),
            top.join("srv/docker/daemon.json")
        );
        assert_eq!(root.read(Path::new("/etc/none/x")).unwrap(), None);
        assert!(root.is_ours("/opt/nri-container-runtime"));
        assert!(!root.is_ours("nri-container-runtime"));
        symlink("nri-container-runtime", top.join("srv/nri-crun")).unwrap();
        assert!(root.is_ours("/srv/nri-crun"));
        assert!(!root.is_ours("/srv/docker"));
    }
}
