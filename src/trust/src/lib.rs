//! Checks whether other users can replace a file or write to it, and reads files up to a size
//! limit.
//!
//! Other users must not be able to write to programs that run with our privileges, such as plugins,
//! nor to their configuration, nor to ours. Start from [`Owners::check`], which opens
//! no file; an error includes the command that repairs the file. [`read_regular`] reads a file
//! whose type and size are not known to be harmless.

#![forbid(unsafe_code)]

mod bounded;

pub use bounded::{MAX_CONFIG_FILE, read_regular, read_regular_text};

use rustix::{
    fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx},
    process::geteuid,
};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Component, Path, PathBuf},
};

/// Largest number of links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Reason why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// An untrusted user owns the file, or a directory of its path.
    #[error("{} belongs to user {uid}, who could change {what}; it must belong to {owner}: chown \
             {owner} {}", path.display(), path.display())]
    Owner {
        /// Path that the user owns.
        path: PathBuf,
        /// Id of the user.
        uid: u32,
        /// The required owner.
        owner: u32,
        /// Content that the user could change.
        what: Exposed,
    },
    /// Others can write to the file, or to a directory of its path.
    #[error("{} is writable by {who} (mode {mode:o}), who could change {what}: chmod {fix} \
             {}", path.display(), path.display())]
    Writable {
        /// Path that others can write to.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
        /// "its group" or "everybody".
        who: &'static str,
        /// Argument of `chmod` that removes the permission.
        fix: &'static str,
        /// Content that these users could change.
        what: Exposed,
    },
    /// A pipe: reading would block until a process opens the pipe for writing.
    #[error("{} is a pipe", .0.display())]
    Pipe(PathBuf),
    /// Too many links.
    #[error("{}: too many symbolic links", .0.display())]
    Links(PathBuf),
    /// The path cannot be examined.
    #[error("{} cannot be examined: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Content that a user who controls a component of a path could change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposed {
    /// The file itself.
    File,
    /// The files in the directory.
    DirectoryContent,
}

impl std::fmt::Display for Exposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File => "it",
            Self::DirectoryContent => "the files in it",
        })
    }
}

impl Untrusted {
    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Users who may own trusted files: root, and the user that we run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owners {
    euid: u32,
}

impl Owners {
    /// Root, and the user that this process runs as.
    pub fn of_this_process() -> Self {
        Self { euid: geteuid().as_raw() }
    }

    /// Root, and this user.
    pub fn root_and(euid: u32) -> Self {
        Self { euid }
    }

    /// Whether the user is a trusted owner.
    pub fn contains(&self, uid: u32) -> bool {
        uid == 0 || uid == self.euid
    }

    /// Follows an absolute path from the root, link by link, as the kernel does, and checks every
    /// component: each must belong to one of the owners, and no other user may write to it. An
    /// exception are directories with the sticky bit, such as `/tmp`, where other users cannot
    /// replace our files.
    ///
    /// # Errors
    /// The first component that fails the check. A relative path begins at the root.
    pub fn check(&self, path: &Path) -> Result<(), Untrusted> {
        let mut todo: VecDeque<OsString> = VecDeque::new();
        prepend(&mut todo, path);
        let mut done = PathBuf::from("/");
        let mut links = 0;
        self.check_component(&done)?;
        while let Some(name) = todo.pop_front() {
            if name == OsStr::new("..") {
                done.pop(); // `done` has no links, so its parent is the one that the kernel finds
                continue;
            }
            done.push(&name);
            let Some(target) = self.check_component(&done)? else { continue };
            links += 1;
            if links > MAX_LINKS {
                return Err(Untrusted::Links(path.to_owned()));
            }
            if target.is_absolute() {
                done = PathBuf::from("/");
            } else {
                done.pop();
            }
            prepend(&mut todo, &target);
        }
        Ok(())
    }

    /// Checks a file that may be missing. For a missing file the existing part of the path is
    /// checked, so that no other user can create the file.
    ///
    /// # Errors
    /// The first existing component that fails the check of [`Owners::check`].
    pub fn check_if_exists(&self, path: &Path) -> Result<(), Untrusted> {
        match self.check(path) {
            Err(e) if e.is_missing() => Ok(()),
            result => result,
        }
    }

    /// Checks one component; returns the target of a link.
    fn check_component(&self, path: &Path) -> Result<Option<PathBuf>, Untrusted> {
        let unreadable = |source| Untrusted::Unreadable { path: path.to_owned(), source };
        let meta = fs::symlink_metadata(path).map_err(unreadable)?;
        let kind = meta.file_type();
        let what = if kind.is_dir() { Exposed::DirectoryContent } else { Exposed::File };
        let is_of_host_root = || is_unmapped(meta.uid()) && !self.others_may_own(path);
        if !self.contains(meta.uid()) && !is_of_host_root() {
            let owner = self.euid;
            return Err(Untrusted::Owner { path: path.to_owned(), uid: meta.uid(), owner, what });
        }
        if kind.is_symlink() {
            return fs::read_link(path).map(Some).map_err(unreadable);
        }
        if kind.is_fifo() {
            return Err(Untrusted::Pipe(path.to_owned()));
        }
        let mode = meta.mode() & 0o7777;
        let sticky = kind.is_dir() && mode & 0o1000 != 0;
        // What is written to a character device, such as /dev/null, is not what is read from it.
        if mode & 0o022 != 0 && !sticky && !kind.is_char_device() {
            let (who, fix) =
                if mode & 0o002 != 0 { ("everybody", "go-w") } else { ("its group", "g-w") };
            return Err(Untrusted::Writable { path: path.to_owned(), mode, who, fix, what });
        }
        Ok(None)
    }

    /// Whether an entry of a directory may belong to another user than root: everybody may create
    /// files in the directory (`/tmp`), or it contains directories that root created for users
    /// (`/home`).
    ///
    /// Rootless Docker mounts the host's `/run` and `/etc` as `.ro` and a number below a `/run` and
    /// `/etc` of the user with the sticky bit. In a directory of an owner, another user can create
    /// an entry but mount nothing on it.
    fn others_may_own(&self, entry: &Path) -> bool {
        let Some(dir) = entry.parent() else { return false };
        let Ok(meta) = fs::metadata(dir) else { return false };
        // The directories are compared, since rootless Docker mounts `/run/user` at another path.
        let is_same = |other: fs::Metadata| (other.dev(), other.ino()) == (meta.dev(), meta.ino());
        if ["/home", "/run/user"].iter().any(|users| fs::metadata(users).is_ok_and(is_same)) {
            return true;
        }
        meta.mode() & 0o022 != 0 && !(self.contains(meta.uid()) && is_mount_point(entry))
    }
}

/// Prepends the components of a path to the components that remain to be checked.
fn prepend(todo: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => todo.push_front(name.to_owned()),
            Component::ParentDir => todo.push_front("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// Whether this process is in a user namespace that does not map the owner. Files of the host's
/// root then belong to the overflow user, as do files of all other unmapped users. Such an owner
/// counts as root only in directories where root alone creates files ([`Owners::others_may_own`]).
fn is_unmapped(uid: u32) -> bool {
    let overflow = || fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok();
    let is_initial = || {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        map.split_whitespace().eq(["0", "0", "4294967295"])
    };
    overflow() == Some(uid) && !is_initial()
}

/// Whether something is mounted at the path. Before Linux 5.8, which does not tell: no.
fn is_mount_point(path: &Path) -> bool {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    struct Dir(tempfile::TempDir);

    impl Dir {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn make(&self, name: &str, mode: u32) {
            let path = self.path(name);
            if name.ends_with('/') {
                fs::create_dir(&path).unwrap();
            } else {
                fs::write(&path, "").unwrap();
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }

        /// Compares the error, without the path of the test directory; an empty text means no
        /// error.
        fn check(&self, name: &str, expected: &str) {
            let found = Owners::of_this_process().check(&self.path(name));
            let text = found.map_or_else(|e| e.to_string(), |()| String::new());
            assert_eq!(text.replace(&*self.path("").to_string_lossy(), ""), expected, "{name}");
        }
    }

    #[test]
    fn modes_of_the_file_and_its_directories_are_checked() {
        let dir = Dir::new();
        for (name, mode) in
            [("ok/", 0o755), ("group/", 0o775), ("all/", 0o777), ("sticky/", 0o1777)]
        {
            dir.make(name, mode);
            dir.make(&format!("{name}file"), 0o644);
        }
        dir.check("ok/file", "");
        dir.check("sticky/file", "");
        dir.check(
            "group/file",
            "group is writable by its group (mode 775), who could change the files in it: chmod \
             g-w group",
        );
        dir.check(
            "all/file",
            "all is writable by everybody (mode 777), who could change the files in it: chmod go-w \
             all",
        );
        dir.make("ok/open", 0o622);
        dir.check(
            "ok/open",
            "ok/open is writable by everybody (mode 622), who could change it: chmod go-w ok/open",
        );
        dir.make("ok/shared", 0o664);
        dir.check(
            "ok/shared",
            "ok/shared is writable by its group (mode 664), who could change it: chmod g-w \
             ok/shared",
        );
        // The sticky bit has no effect on a file.
        dir.make("ok/stuck", 0o1666);
        assert!(Owners::of_this_process().check(&dir.path("ok/stuck")).is_err());
    }

    #[test]
    fn links_are_followed_and_their_directories_are_checked() {
        let dir = Dir::new();
        dir.make("ok/", 0o755);
        dir.make("all/", 0o777);
        dir.make("ok/file", 0o644);
        dir.make("all/file", 0o644);
        symlink("../all/file", dir.path("ok/into")).unwrap();
        symlink("../ok/../ok/file", dir.path("ok/around")).unwrap();
        symlink(dir.path("ok/around"), dir.path("ok/twice")).unwrap();
        symlink(dir.path("ok/file"), dir.path("all/out")).unwrap();
        symlink("loop", dir.path("ok/loop")).unwrap();
        dir.check("ok/around", "");
        dir.check("ok/twice", "");
        let all = "all is writable by everybody (mode 777), who could change the files in it: \
                   chmod go-w all";
        dir.check("ok/into", all);
        dir.check("all/out", all);
        dir.check("ok/loop", "ok/loop: too many symbolic links");
        dir.check(
            "ok/missing",
            "ok/missing cannot be examined: No such file or directory (os error 2)",
        );
        assert!(Owners::of_this_process().check(&dir.path("ok/missing")).unwrap_err().is_missing());
        assert!(
            !Owners::of_this_process().check(&dir.path("all/missing")).unwrap_err().is_missing()
        );
        assert!(Owners::of_this_process().check_if_exists(&dir.path("ok/missing")).is_ok());
        assert!(Owners::of_this_process().check_if_exists(&dir.path("all/missing")).is_err());
    }

    #[test]
    fn owners_of_the_file_its_directories_and_links_are_checked() {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap();
        if !geteuid().is_root() || !map.split_whitespace().eq(["0", "0", "4294967295"]) {
            println!("skipped: only root of the host can change the owners of files");
            return;
        }
        let dir = Dir::new();
        for name in ["ours/", "theirs/", "sticky/"] {
            dir.make(name, if name == "sticky/" { 0o1777 } else { 0o755 });
            dir.make(&format!("{name}file"), 0o644);
        }
        dir.make("ours/changed", 0o600);
        symlink("../ours/file", dir.path("sticky/link")).unwrap();
        for (name, follow) in [
            ("theirs", true),
            ("ours/changed", true),
            ("sticky/file", true),
            ("sticky/link", false),
        ] {
            if follow {
                chown(dir.path(name), Some(4711), None).unwrap()
            } else {
                std::os::unix::fs::lchown(dir.path(name), Some(4711), None).unwrap()
            }
        }
        let refused = |path: &str, what: &str| {
            format!(
                "{path} belongs to user 4711, who could change {what}; it must belong to 0: chown \
                 0 {path}"
            )
        };
        dir.check("ours/file", "");
        dir.check("theirs/file", &refused("theirs", "the files in it"));
        dir.check("ours/changed", &refused("ours/changed", "it"));
        dir.check("sticky/file", &refused("sticky/file", "it"));
        dir.check("sticky/link", &refused("sticky/link", "it"));
        // The user of the process may own the file, too.
        assert!(Owners::root_and(4711).check(&dir.path("ours/changed")).is_ok());
    }

    /// Variable with the path to check, set if this test runs itself in a user namespace.
    const INNER: &str = "NRI_TRUST_TEST_PATH";

    #[test]
    fn an_unmapped_owner_is_not_root_where_everybody_may_create_files() {
        if let Some(path) = std::env::var_os(INNER) {
            let owner = fs::metadata(&path).unwrap().uid();
            let result = Owners::of_this_process().check(Path::new(&path));
            println!("owner {owner}: {}", result.map_or_else(|e| e.to_string(), |()| "ok".into()));
            return;
        }
        let dir = Dir::new();
        dir.make("sticky/", 0o1777);
        dir.make("closed/", 0o755);
        for name in ["sticky/theirs/", "closed/theirs/"] {
            dir.make(name, 0o755);
            if chown(dir.path(name), Some(4711), None).is_err() {
                println!("skipped: only root can change the owners of files");
                return;
            }
        }
        // Only the user of this process is mapped.
        let inner = |mount: &str, name: &str| {
            let test = "tests::an_unmapped_owner_is_not_root_where_everybody_may_create_files";
            let output = std::process::Command::new("unshare")
                .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture"])
                .env(INNER, dir.path(name))
                .current_dir(dir.path(""))
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let refused = inner("exec \"$@\"", "sticky/theirs");
        if !refused.contains("owner 65534") {
            println!("skipped: no user namespaces: {refused}");
            return;
        }
        assert!(refused.contains("belongs to user 65534"), "{refused}");
        // Only root may create files in `closed`, as in `/usr` and `/etc` of the host.
        assert!(inner("exec \"$@\"", "closed/theirs").contains("owner 65534: ok"));
        // Others may create files in our `sticky`, but mount nothing there.
        let mount = "mkdir sticky/mounted; mount --bind closed sticky/mounted && exec \"$@\"";
        chown(dir.path("closed"), Some(4711), None).unwrap();
        let mounted = inner(mount, "sticky/mounted/theirs");
        assert!(mounted.contains("owner 65534: ok"), "{mounted}");
        // Directories of users are also found below another name of `/home`.
        let mount =
            "mount --bind sticky /home && mount --bind closed sticky/mounted && exec \"$@\"";
        let of_user = inner(mount, "sticky/mounted/theirs");
        assert!(of_user.contains("mounted belongs to user 65534"), "{of_user}");
    }

    #[test]
    fn a_pipe_is_not_trusted() {
        let dir = Dir::new();
        let pipe = dir.path("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        symlink("pipe", dir.path("link")).unwrap();
        dir.check("pipe", "pipe is a pipe");
        dir.check("link", "pipe is a pipe");
    }

    #[test]
    fn a_device_may_be_writable_by_others() {
        assert!(Owners::of_this_process().check(Path::new("/dev/null")).is_ok());
    }
}
