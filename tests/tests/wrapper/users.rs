//! Configuration of users who are not root, as the wrapper finds it in calls of rootless engines.

use nri_locate::CONFIG_FILE;
use nri_tests::fake_runtime::program;
use rustix::process::geteuid;
use std::{
    fs,
    io::ErrorKind,
    os::unix::{
        fs::{PermissionsExt, chown, lchown, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// A user without rights.
const NOBODY: u32 = 65534;

/// A directory that all users can read, with a copy of the wrapper, a runtime in `bin` that prints
/// its arguments, and another one that prints nothing, which the configuration of a user names.
struct Place {
    dir: tempfile::TempDir,
    uid: u32,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let uid = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
        let place = Self { dir, uid };
        fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(program("nri-container-runtime"), place.at("nri-container-runtime")).unwrap();
        place.make_dir(&place.at("bin"));
        // Links: a new script may be open for writing in a child that another thread forks.
        symlink("/bin/echo", place.at("bin/runc")).unwrap();
        symlink("/bin/true", place.at("other")).unwrap();
        let own = place.at("home/.config/nri-container-runtime");
        place.make_dir(&own);
        place.make_dir(&place.at("run/nri-container-runtime"));
        let config = format!("[runtime]\npath = {:?}\n", place.at("other"));
        fs::write(own.join("config.toml"), config).unwrap();
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Creates a directory of the user, with its parents.
    fn make_dir(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        for dir in dir.ancestors().take_while(|dir| *dir != self.dir.path()) {
            chown(dir, Some(self.uid), None).unwrap();
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Returns whether the wrapper calls the runtime that the configuration of the user names.
    fn is_of_user(&self, uid: u32, environment: &[(&str, &str)]) -> bool {
        let mut command = Command::new(self.at("nri-container-runtime"));
        command.args(["kill", "id", "9"]).env_clear().env("PATH", self.at("bin"));
        for (name, path) in environment {
            command.env(name, self.at(path));
        }
        if geteuid().is_root() {
            command.uid(uid).gid(uid);
        }
        let output = loop {
            match command.output() {
                // A child that another thread has forked still has the copy open for writing.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
                output => break output.unwrap(),
            }
        };
        assert!(output.status.success(), "{output:?}");
        match &*output.stdout {
            b"" => true,
            b"kill id 9\n" => false,
            _ => panic!("{output:?}"),
        }
    }
}

#[test]
fn a_user_has_a_configuration_which_calls_without_home_find_by_its_link() {
    if Path::new(CONFIG_FILE).exists() {
        println!("skipped: {CONFIG_FILE} exists");
        return;
    }
    let place = Place::new();
    let is_of_user = |environment: &[(&str, &str)]| place.is_of_user(place.uid, environment);
    assert!(is_of_user(&[("HOME", "home")]));
    assert!(is_of_user(&[("XDG_CONFIG_HOME", "home/.config"), ("XDG_DATA_HOME", "x")]));
    // Podman calls `start`, `kill` and `delete` with this variable alone.
    let without_home = [("XDG_RUNTIME_DIR", "run")];
    assert!(!is_of_user(&without_home));
    for (name, target) in [("config-home", "home/.config"), ("data-home", "home/.local/share")] {
        let link = place.at("run/nri-container-runtime").join(name);
        symlink(place.at(target), &link).unwrap();
        lchown(&link, Some(place.uid), None).unwrap();
    }
    assert!(is_of_user(&without_home));
    if geteuid().is_root() {
        assert!(!place.is_of_user(0, &[("HOME", "home")]));
    }
}
