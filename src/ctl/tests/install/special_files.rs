//! Installation with unusual files and environments: devices, pipes, umasks, other working
//! directories, temporary files of an interrupted command.

use crate::image::{CRUN, Image, WRAPPER, skipped};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    process::Command,
};

const DOCKER: &str = "/etc/docker/daemon.json";
const CONTAINERD: &str = "/etc/containerd/config.toml";
const NOT_REGULAR: &str = "not a regular file; nothing has changed";

/// Runs a command that must fail and change nothing. Returns its error.
#[track_caller]
fn failed(image: &Image, arguments: &str) -> String {
    let before = image.snapshot();
    let output = image.run(arguments);
    assert_eq!(output.code, 1, "{arguments}: {output:?}");
    assert_eq!(image.snapshot(), before, "{arguments}");
    output.err
}

/// A link to `/dev/null` masks a file. `install` must not replace the device by a file.
#[test]
fn devices_are_not_replaced() {
    let image = Image::new();
    fs::create_dir_all(image.at("/dev")).unwrap();
    let null = image.at("/dev/null");
    let made =
        mknodat(CWD, &null, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3));
    if let Err(e) = made {
        return skipped("devices_are_not_replaced", &format!("no device can be made: {e}"));
    }
    for (file, arguments) in [
        (DOCKER, "install docker".to_owned()),
        (
            "/etc/nri-container-runtime/config.toml",
            format!("install docker --runtime nri-crun={CRUN}"),
        ),
        (CONTAINERD, "install containerd".to_owned()),
    ] {
        fs::create_dir_all(image.at(file).parent().unwrap()).unwrap();
        symlink("/dev/null", image.at(file)).unwrap();
        assert!(failed(&image, &arguments).ends_with(&format!("{file}: {NOT_REGULAR}\n")));
        fs::remove_file(image.at(file)).unwrap();
    }
    // A masked drop-in of another program is read as an empty file.
    fs::create_dir_all(image.at("/etc/containers/containers.conf.d")).unwrap();
    symlink("/dev/null", image.at("/etc/containers/containers.conf.d/10-vendor.conf")).unwrap();
    image.run_ok("install podman");
    // `uninstall` does not replace the device either, if a file was masked after `install`.
    image.run_ok("install docker");
    fs::remove_file(image.at(DOCKER)).unwrap();
    symlink("/dev/null", image.at(DOCKER)).unwrap();
    failed(&image, "uninstall docker");
    assert!(null.metadata().unwrap().file_type().is_char_device());
}

#[test]
fn install_refuses_a_pipe_without_blocking() {
    let image = Image::new();
    fs::create_dir_all(image.at("/etc/docker")).unwrap();
    mknodat(CWD, image.at(DOCKER), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    assert!(failed(&image, "install docker").contains("daemon.json: not a regular file"));
}

/// Any user may run Podman. So every user must be able to read new directories in /etc, but only
/// root may write to them.
#[test]
fn modes_of_new_directories_are_independent_of_the_umask() {
    for umask in ["000", "077"] {
        let image = Image::new();
        let script = format!("umask {umask}; exec \"$@\"");
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            &script,
            "sh",
            env!("CARGO_BIN_EXE_nrictl"),
            "install",
            "podman",
            "--root",
        ]);
        assert!(command.arg(image.at("/")).output().unwrap().status.success());
        for dir in
            ["/etc/containers", "/etc/containers/containers.conf.d", "/etc/nri-container-runtime"]
        {
            let mode = image.at(dir).metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode, 0o755, "{dir} with {umask}");
        }
    }
}

#[test]
fn a_relative_engine_file_is_in_the_working_directory() {
    let image = Image::with("/elsewhere/daemon.json", "{}\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nrictl"));
    command.args(["install", "isulad", "--dry-run", "--engine-config", "daemon.json", "--wrapper"]);
    let output =
        command.arg(image.at(WRAPPER)).current_dir(image.at("/elsewhere")).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let expected = format!("{}: would be changed", image.at("/elsewhere/daemon.json").display());
    assert!(out.contains(&expected), "{out} {:?}", output.stderr);
    let output = image.refused("install docker --engine-config daemon.json");
    assert!(
        output
            .contains("daemon.json: with --root, a file must be named by its absolute path inside"),
        "{output}"
    );
}

/// CRI-O reads every file of its directory; files of a killed command must not stay there.
#[test]
fn files_of_a_killed_command_are_removed() {
    let image = Image::new();
    let leftover = "/etc/crio/crio.conf.d/.zz-nri-container-runtime.conf.nri-new";
    for command in ["install crio", "install crio --default", "uninstall crio"] {
        image.write(leftover, b"[crio.runtime]\ndefault_");
        let before = image.snapshot();
        image.run_ok(&format!("{command} --dry-run"));
        assert_eq!(image.snapshot(), before, "the dry run changed files");
        image.run_ok(command);
        assert!(!image.exists(leftover), "{command}");
    }
}
