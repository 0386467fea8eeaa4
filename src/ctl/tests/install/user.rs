//! `--user`: the rootless engines of a user, in files of the user.

use crate::image::CommandResult;
use rustix::process::geteuid;
use std::{
    fs,
    io::ErrorKind,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// A user without rights.
const NOBODY: u32 = 65534;

const DROP_IN: &str = ".config/containers/containers.conf.d/zz-nri-container-runtime.conf";

/// A user with a home directory, and copies of the programs, which the user can reach.
struct TestUser {
    dir: tempfile::TempDir,
    uid: u32,
}

impl TestUser {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let uid = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
        let user = Self { dir, uid };
        fs::set_permissions(user.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(user.home("")).unwrap();
        user.own(&user.home(""));
        fs::copy(env!("CARGO_BIN_EXE_nrictl"), user.dir.path().join("nrictl")).unwrap();
        fs::write(user.wrapper(), "#!/bin/sh\n").unwrap();
        fs::set_permissions(user.wrapper(), fs::Permissions::from_mode(0o755)).unwrap();
        user
    }

    /// Gives a path to the user.
    fn own(&self, path: &Path) {
        let id = geteuid().is_root().then_some(self.uid);
        chown(path, id, id).unwrap();
    }

    fn home(&self, path: &str) -> PathBuf {
        self.dir.path().join("home").join(path)
    }

    fn wrapper(&self) -> PathBuf {
        self.dir.path().join("nri-container-runtime")
    }

    /// Runs nrictl as this user.
    fn run_as(&self, uid: u32, arguments: &str) -> CommandResult {
        let mut command = Command::new(self.dir.path().join("nrictl"));
        command.args(arguments.split_whitespace()).env_clear().env("HOME", self.home(""));
        command.env("XDG_RUNTIME_DIR", self.home("run"));
        if geteuid().is_root() {
            command.uid(uid).gid(uid);
        }
        loop {
            match command.output() {
                // A child that another thread has forked still has the copy open for writing.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
                output => return CommandResult::from(output.unwrap()),
            }
        }
    }

    #[track_caller]
    fn run_ok(&self, arguments: &str) -> String {
        let result = self.run_as(self.uid, arguments);
        assert_eq!(result.code, 0, "{arguments}: {result:?}");
        result.out
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.home(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.home(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        let below_home = file.ancestors().take_while(|path| *path != self.home(""));
        below_home.for_each(|path| self.own(path));
    }

    /// All files of the user, with their contents.
    fn files(&self) -> Vec<(PathBuf, String)> {
        fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    found.push((path.clone(), String::new()));
                    walk(&path, found);
                } else {
                    found.push((path.clone(), fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.home(""), &mut found);
        found.sort();
        found
    }
}

#[test]
fn podman_of_a_user_gets_a_drop_in_of_the_user() {
    let user = TestUser::new();
    user.write(
        ".config/containers/containers.conf",
        "[engine]\nruntime_supports_json = [\"mine\"]\nruntime = \"crun\"\n",
    );
    let before = user.files();
    let shown = user.run_ok("install podman --user --default --dry-run");
    assert!(shown.contains("would be created") && shown.contains(DROP_IN), "{shown}");
    assert_eq!(user.files(), before);

    let shown = user.run_ok("install podman --user --default");
    let drop_in = user.read(DROP_IN);
    let head = "# Made by `nrictl install podman --user`; `nrictl uninstall podman --user` \
                removes it.\n";
    assert!(drop_in.starts_with(head), "{drop_in}");
    let runtime = format!("nri = [\"{}\"]\n", user.wrapper().display());
    for part in [&*runtime, "\nruntime = \"nri\"\n", "\"mine\", \"nri\""] {
        assert!(drop_in.contains(part), "{part}: {drop_in}");
    }
    assert!(user.home(".config/nri-container-runtime/installed.json").exists());
    // Plugins of a user have no capabilities that a policy would take away.
    assert!(!user.home(".config/nri-container-runtime/config.toml").exists());
    assert!(shown.contains("nrictl start") || shown.contains("systemctl --user"), "{shown}");
    let mode = fs::metadata(user.home(DROP_IN)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);

    let installed = user.files();
    assert!(user.run_ok("install podman --user").contains("podman: nothing to do"));
    assert_eq!(user.files(), installed);
    let status = user.run_as(user.uid, "status");
    assert_eq!(status.code, 3, "an nrid of root is not that of the user: {status:?}");

    user.run_ok("uninstall podman --user");
    assert_eq!(user.files(), before);
    assert!(user.run_ok("uninstall podman --user").contains("podman: nothing to do"));
}

#[test]
fn further_runtimes_of_a_user_are_links_in_a_directory_of_the_user() {
    let user = TestUser::new();
    let before = user.files();
    user.run_ok("install podman --user --runtime fast=/bin/true");
    let link = user.home(".local/share/nri-container-runtime/nri-fast");
    assert_eq!(fs::read_link(&link).unwrap(), user.wrapper());
    assert!(user.read(DROP_IN).contains(&format!("fast = [{link:?}]")));
    let config = user.read(".config/nri-container-runtime/config.toml");
    assert!(config.contains("[runtime.names.nri-fast]\npath = \"/bin/true\""), "{config}");
    user.run_ok("uninstall podman --user");
    assert_eq!(user.files(), before);
}

#[test]
fn docker_of_a_user_has_a_file_of_the_user_and_a_service_manager_too() {
    let user = TestUser::new();
    user.write(".config/docker/daemon.json", "{\n  \"debug\": true\n}\n");
    let before = user.files();
    let shown = user.run_ok("install docker --user");
    assert!(shown.contains("systemctl --user reload docker"), "{shown}");
    let file = user.read(".config/docker/daemon.json");
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["runtimes"]["nri"]["path"], user.wrapper().to_str().unwrap());
    assert_eq!(file["debug"], true);
    let shown = user.run_ok("uninstall docker --user");
    assert!(shown.contains("systemctl --user restart docker"), "{shown}");
    assert_eq!(user.files(), before);

    // dockerd does not start with a flag and a key of the same name.
    user.write(
        ".config/systemd/user/docker.service",
        "[Service]\nExecStart=dockerd --add-runtime x=/x\n",
    );
    let refused = user.run_as(user.uid, "install docker --user");
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("--add-runtime is a flag of dockerd there"), "{refused:?}");
}

#[test]
fn other_engines_and_root_are_refused() {
    let user = TestUser::new();
    let before = user.files();
    for engine in ["containerd", "crio", "isulad"] {
        let refused = user.run_as(user.uid, &format!("install {engine} --user"));
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.err.contains("--user is for podman, docker and nerdctl"), "{refused:?}");
    }
    assert!(user.run_ok("install nerdctl --user").contains("nerdctl run --rm --runtime /"));
    if geteuid().is_root() {
        let refused = user.run_as(0, "install podman --user");
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.err.contains("run nrictl as that user"), "{refused:?}");
        // The home directory of another user is not used.
        let refused = user.run_as(1, "install podman --user");
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.err.contains("HOME is not set, or belongs to"), "{refused:?}");
    }
    assert_eq!(user.files(), before);
}
