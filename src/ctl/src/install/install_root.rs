//! The file system to install into: the machine's, or an image below a directory.
//!
//! Paths in configuration files and in our record are as seen inside the root.
//! [`InstallRoot::real`] returns the path for this process; symbolic links do not lead out of the
//! root.

use super::editing::error::FileError;
use nri_locate::{Environment, MAX_CONFIG_FILE, UserDirs, read_regular};
use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

/// Limit of symbolic links in a path, as in the kernel: links may form a loop.
const MAX_LINKS: usize = 40;

/// Base name of the wrapper.
pub(crate) const WRAPPER: &str = "nri-container-runtime";

/// End of the names of temporary files, which `write` removes.
pub(super) const TEMPORARY: &str = ".nri-new";

/// Our directory, with the configuration and the record.
const OWN_DIR: &str = "/etc/nri-container-runtime";

/// The file system, and whose files in it are installed into.
#[derive(Debug, Clone)]
pub(crate) struct InstallRoot {
    /// Directory that stands for `/`; `None`: the machine's `/` itself.
    dir: Option<PathBuf>,
    /// Directories of the user whose rootless engines are configured; `None`: the system's engines.
    user: Option<UserDirs>,
}

impl InstallRoot {
    /// Returns the root of the machine, or of an image.
    pub(crate) fn new(dir: Option<&Path>) -> Result<Self, FileError> {
        let failed =
            |source| FileError::Read { path: dir.unwrap_or(Path::new("/")).into(), source };
        let dir = dir.map(fs::canonicalize).transpose().map_err(failed)?;
        // `--root /` is not an image: programs of engines may be run there.
        Ok(Self { dir: dir.filter(|dir| dir != Path::new("/")), user: None })
    }

    /// Returns the root directory of a process in another mount namespace, for the engines that
    /// this process administers: the process of a user's engine reads the files of the user.
    pub(crate) fn of_process(pid: i32) -> Self {
        Self { dir: Some(format!("/proc/{pid}/root").into()), ..Self::of_this_process() }
    }

    /// Returns the machine's root, for the engines of a user.
    pub(crate) fn of_user(user: UserDirs) -> Self {
        Self { dir: None, user: Some(user) }
    }

    /// Returns the machine's root, for the engines that this process administers: those of the
    /// user, or with root those of the system.
    pub(crate) fn of_this_process() -> Self {
        let user = UserDirs::of_this_process(&Environment::of_this_process());
        Self { dir: None, user }
    }

    /// Returns the directories of the user whose engines are configured.
    pub(crate) fn user(&self) -> Option<&UserDirs> {
        self.user.as_ref()
    }

    /// Returns our directory.
    fn own_dir(&self) -> PathBuf {
        self.user.as_ref().map_or_else(|| OWN_DIR.into(), UserDirs::own_config_dir)
    }

    /// Returns our configuration file.
    pub(crate) fn own_config(&self) -> PathBuf {
        self.own_dir().join("config.toml")
    }

    /// Returns the record of installations.
    pub(crate) fn record(&self) -> PathBuf {
        self.own_dir().join("installed.json")
    }

    /// Returns the directories of systemd units, of the system or of the user.
    pub(crate) fn unit_dirs(&self) -> Vec<PathBuf> {
        let kind = if self.user.is_some() { "user" } else { "system" };
        let of_user = self.user.iter().map(|user| user.config_home.join("systemd/user"));
        let places = ["/etc/systemd", "/run/systemd", "/usr/lib/systemd", "/lib/systemd"];
        of_user.chain(places.map(|place| Path::new(place).join(kind))).collect()
    }

    /// Returns a command of systemctl(1) for the service manager of the user, if there is one.
    pub(crate) fn systemctl(&self, command: &str) -> String {
        match (&self.user, command.strip_prefix("systemctl ")) {
            (Some(_), Some(rest)) => format!("systemctl --user {rest}"),
            _ => command.to_owned(),
        }
    }

    /// Whether this is the machine's root. Programs of engines are run only there, to get their
    /// versions.
    pub(crate) fn is_machine(&self) -> bool {
        self.dir.is_none()
    }

    /// Resolves an absolute path and all symbolic links in it to the path for this process. A path
    /// that does not exist is resolved to where it would be created.
    pub(crate) fn real(&self, path: &Path) -> io::Result<PathBuf> {
        self.resolve(path, true)
    }

    /// Resolves an absolute path like [`Self::real`], but not a symbolic link at its end.
    pub(crate) fn entry(&self, path: &Path) -> io::Result<PathBuf> {
        self.resolve(path, false)
    }

    fn resolve(&self, path: &Path, follows_last: bool) -> io::Result<PathBuf> {
        let top = self.dir.as_deref().unwrap_or(Path::new("/"));
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
                Ok(target) if follows_last || !left.is_empty() => {
                    links += 1;
                    if links > MAX_LINKS {
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

    /// Reads a file; `None` if it does not exist.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, FileError> {
        let read = |real: PathBuf| read_regular(&real, MAX_CONFIG_FILE);
        match self.real(path).and_then(read) {
            Ok(bytes) => Ok(Some(bytes)),
            // A path below a regular file does not exist either.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(source) => Err(FileError::Read { path: path.to_owned(), source }),
        }
    }

    /// Returns the target of a symbolic link; `None` if the path is not one.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        fs::read_link(self.entry(path).ok()?).ok()
    }

    /// Whether the path is an executable file.
    pub(crate) fn is_program(&self, path: &Path) -> bool {
        let meta = self.real(path).and_then(fs::metadata);
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    }

    /// Whether the path exists.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.real(path).is_ok_and(|path| path.exists())
    }

    /// Returns a directory's files whose names have this end, sorted; none if there is no such
    /// directory. Temporary files of ours are left out.
    pub(crate) fn files(&self, dir: &Path, end: &str) -> Vec<PathBuf> {
        let entries = self.real(dir).and_then(fs::read_dir).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| !entry.path().is_dir());
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let is_wanted = |name: &String| name.ends_with(end) && !name.ends_with(TEMPORARY);
        let mut files: Vec<PathBuf> = names.filter(is_wanted).map(|name| dir.join(name)).collect();
        files.sort();
        files
    }

    /// Whether a runtime's path names the wrapper, or a link to it. The wrapper itself may already
    /// be removed.
    pub(crate) fn is_ours(&self, path: &str) -> bool {
        let named = |path: &Path| path.file_name().is_some_and(|name| name == WRAPPER);
        let path = Path::new(path);
        path.is_absolute() && (named(path) || self.link(path).is_some_and(|target| named(&target)))
    }
}

/// Returns the components of a path in reverse order.
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
    fn symbolic_links_stay_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = InstallRoot::new(Some(dir.path())).unwrap();
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
            root.entry(Path::new("/etc/docker/daemon.json")).unwrap(),
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
