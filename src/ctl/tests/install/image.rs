//! An image: a directory with a wrapper and configuration files, and snapshots of it.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub(crate) const WRAPPER: &str = "/usr/local/bin/nri-container-runtime";
pub(crate) const CRUN: &str = "/usr/bin/crun";
pub(crate) const CONFIG: &str = "/etc/nri-container-runtime/config.toml";
pub(crate) const RECORD: &str = "/etc/nri-container-runtime/installed.json";

/// Everything below a directory: mode, owner and contents by path.
pub(crate) type Snapshot = BTreeMap<PathBuf, (u32, u32, String)>;

pub(crate) struct Image {
    dir: tempfile::TempDir,
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Image {
    /// Returns an image with a wrapper and a crun.
    pub(crate) fn new() -> Self {
        let image = Self { dir: tempfile::tempdir().unwrap() };
        for program in [WRAPPER, CRUN] {
            image.write(program, b"#!/bin/sh\n");
            fs::set_permissions(image.at(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir_all(image.at("/etc")).unwrap();
        image
    }

    /// Returns an image with one more file.
    pub(crate) fn with(path: &str, contents: &str) -> Self {
        let image = Self::new();
        image.write(path, contents.as_bytes());
        image
    }

    /// Returns the path on the host of a file in the image.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn write(&self, path: &str, contents: &[u8]) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), contents).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Replaces the only occurrence of a text in a file, as an administrator does.
    pub(crate) fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {text}");
        self.write(path, text.replace(from, to).as_bytes());
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }

    /// Runs nrictl on the image.
    pub(crate) fn run(&self, arguments: &str) -> CommandResult {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nrictl"));
        command.args(arguments.split_whitespace()).arg("--root").arg(self.dir.path());
        command.env_remove("NRI_CONTAINER_RUNTIME_CONFIG");
        CommandResult::from(command.output().unwrap())
    }

    /// Runs nrictl, which must succeed. Returns its output.
    #[track_caller]
    pub(crate) fn run_ok(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, 0, "{arguments}: {output:?}");
        output.out
    }

    /// Runs nrictl, which must refuse the command and change nothing. Returns its error.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &str) -> String {
        let before = self.snapshot();
        let output = self.run(arguments);
        assert_eq!(output.code, 4, "{arguments}: {output:?}");
        assert_eq!(self.snapshot(), before, "{arguments}: refused, but files changed");
        output.err
    }

    /// Returns all files and directories of the image.
    pub(crate) fn snapshot(&self) -> Snapshot {
        fn walk(top: &Path, dir: &Path, found: &mut Snapshot) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                let contents = match &meta {
                    m if m.is_symlink() => {
                        fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                    }
                    m if m.is_file() => fs::read(&path).unwrap(),
                    _ => Vec::new(),
                };
                let contents = String::from_utf8_lossy(&contents).into_owned();
                found.insert(
                    path.strip_prefix(top).unwrap().to_owned(),
                    (meta.mode(), meta.uid(), contents),
                );
                if meta.is_dir() {
                    walk(top, &path, found);
                }
            }
        }
        let mut found = Snapshot::new();
        walk(self.dir.path(), self.dir.path(), &mut found);
        found
    }
}

impl From<Output> for CommandResult {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// Returns a snapshot whose files are alike if they have the same values: the layout of JSON and
/// the kind of quotation marks may change.
pub(crate) fn values(mut snapshot: Snapshot) -> Snapshot {
    for (path, (.., contents)) in &mut snapshot {
        let text = contents.trim_start_matches('\u{feff}');
        *contents = match serde_json::from_str::<serde_json::Value>(text) {
            Ok(value) => value.to_string(),
            Err(_) if text.is_empty() && path.ends_with("daemon.json") => "{}".to_owned(),
            Err(_) => contents.trim_end().replace('\'', "\""),
        };
    }
    snapshot
}

/// Checks an installation for an engine: a dry run changes nothing, a second installation changes
/// nothing, and `uninstall` restores all values. `check` checks the installed files.
#[track_caller]
pub(crate) fn check_install_and_uninstall(
    image: &Image,
    engine: &str,
    options: &str,
    check: impl Fn(&Image),
) {
    let before = image.snapshot();
    let install = format!("install {engine} {options}");
    let shown = image.run_ok(&format!("{install} --dry-run"));
    assert!(shown.contains("would be"), "{shown}");
    assert_eq!(image.snapshot(), before, "the dry run changed files");
    image.run_ok(&install);
    let installed = image.snapshot();
    assert_ne!(installed, before);
    check(image);
    let output = image.run_ok(&install);
    assert!(output.contains("nothing to do"), "{output}");
    assert_eq!(image.snapshot(), installed, "the second installation changed files");
    // A request without --default and without further runtimes removes nothing that is installed.
    let output = image.run_ok(&format!("install {engine}"));
    assert!(output.contains("nothing to do"), "{output}");
    image.run_ok(&format!("uninstall {engine} --dry-run"));
    assert_eq!(image.snapshot(), installed, "the dry run changed files");
    image.run_ok(&format!("uninstall {engine}"));
    assert_eq!(values(image.snapshot()), values(before), "uninstall did not restore the files");
    let output = image.run_ok(&format!("uninstall {engine}"));
    assert!(output.contains("nothing to do"), "{output}");
}

/// Reports a skipped test and the reason; `integration/run-tests.sh` counts it.
pub(crate) fn skipped(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}\n");
    // The test harness would capture `print!`.
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    // The program is `target/PROFILE/nrictl`.
    let target = Path::new(env!("CARGO_BIN_EXE_nrictl")).ancestors().nth(2).unwrap();
    let file = fs::File::options().append(true).create(true).open(target.join("skipped.txt"));
    file.unwrap().write_all(line.as_bytes()).unwrap();
}
