//! Odd places and odd moments: devices, pipes, umasks, other working directories, edits beside
//! several runtimes.

use crate::image::{CRUN, Image, WRAPPER, comes_and_goes, skipped};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    process::Command,
};

const DOCKER: &str = "/etc/docker/daemon.json";
const CONTAINERD: &str = "/etc/containerd/config.toml";
const NO_FILE: &str = "not a regular file; nothing has changed";

/// A command that must fail without a change; what it says.
#[track_caller]
fn fails(image: &Image, arguments: &str) -> String {
    let before = image.snapshot();
    let said = image.run(arguments);
    assert_eq!(said.code, 1, "{arguments}: {said:?}");
    assert_eq!(image.snapshot(), before, "{arguments}");
    said.err
}

/// Who masks a file by a link to `/dev/null` does not want the device to become one.
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
        assert!(fails(&image, &arguments).ends_with(&format!("{file}: {NO_FILE}\n")));
        fs::remove_file(image.at(file)).unwrap();
    }
    // Another's file that is masked is an empty one.
    fs::create_dir_all(image.at("/etc/containers/containers.conf.d")).unwrap();
    symlink("/dev/null", image.at("/etc/containers/containers.conf.d/10-vendor.conf")).unwrap();
    image.done("install podman");
    // Ours that was masked since.
    image.done("install docker");
    fs::remove_file(image.at(DOCKER)).unwrap();
    symlink("/dev/null", image.at(DOCKER)).unwrap();
    fails(&image, "uninstall docker");
    assert!(null.metadata().unwrap().file_type().is_char_device());
}

#[test]
fn nobody_waits_at_a_pipe() {
    let image = Image::new();
    fs::create_dir_all(image.at("/etc/docker")).unwrap();
    mknodat(CWD, image.at(DOCKER), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    assert!(fails(&image, "install docker").contains("daemon.json: not a regular file"));
}

/// Podman is everybody's: what is made in /etc can be read by all, and written by root alone.
#[test]
fn directories_do_not_depend_on_the_umask() {
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
fn a_relative_file_is_the_one_of_the_working_directory() {
    let image = Image::with("/elsewhere/daemon.json", "{}\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nrictl"));
    command.args(["install", "isulad", "--dry-run", "--engine-config", "daemon.json", "--wrapper"]);
    let output =
        command.arg(image.at(WRAPPER)).current_dir(image.at("/elsewhere")).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let expected = format!("{}: would be changed", image.at("/elsewhere/daemon.json").display());
    assert!(out.contains(&expected), "{out} {:?}", output.stderr);
    let said = image.refused("install docker --engine-config daemon.json");
    assert!(
        said.contains("daemon.json: with --root, a file is named by its absolute path inside"),
        "{said}"
    );
}

/// Tables that several values of ours share go with the last of them.
#[test]
fn nothing_is_left_of_several_runtimes_after_an_edit() {
    let check = |engine: &str, file: &str, text: &str| {
        let image = Image::with(file, text);
        image.done(&format!("install {engine} --default --runtime nri-crun={CRUN}"));
        image.edit(file, "999", "998");
        image.done(&format!("uninstall {engine}"));
        assert_eq!(image.read(file), text.replace("999", "998"));
    };
    check("docker", DOCKER, "{\n  \"mtu\": 999\n}\n");
    check("docker", DOCKER, "{\"mtu\":999}");
    check("docker", DOCKER, "{\n  \"mtu\": 999,\n  \"runtimes\": {}\n}\n");
    for (version, plugin) in [(2, "io.containerd.grpc.v1.cri"), (3, "io.containerd.cri.v1.runtime")]
    {
        let head = format!("version = {version}\noom_score = -999\n");
        check("containerd", CONTAINERD, &head);
        check(
            "containerd",
            CONTAINERD,
            &format!("{head}\n[plugins.\"{plugin}\"]\n  x = 1 # one\n"),
        );
        check("containerd", CONTAINERD, &format!("{head}plugins.\"{plugin}\".x = 1\n"));
    }
}

/// As `containerd config default` of 1.x writes it.
#[test]
fn an_empty_deprecated_default_decides_nothing() {
    let text = "version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  default_runtime_name = \"runc\"\n\n  [plugins.\"io.containerd.grpc.v1.cri\".containerd.default_runtime]\n    runtime_engine = \"\"\n    runtime_type = \"\"\n\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd.default_runtime.options]\n";
    comes_and_goes(&Image::with(CONTAINERD, text), "containerd", "--default", |image| {
        assert!(image.read(CONTAINERD).contains("default_runtime_name = \"nri\"\n"));
    });
}

/// Who switched an engine's NRI off is known to the manifest alone.
#[test]
fn without_a_manifest_what_may_be_ours_is_told() {
    let kept = "kept, nrictl has no record of setting it";
    for (engine, file, text, at) in [
        (
            "containerd",
            CONTAINERD,
            "version = 3\n",
            "plugins.io.containerd.nri.v1.nri.disable is true",
        ),
        (
            "crio",
            "/etc/crio/crio.conf.d/zz-nri-container-runtime.conf",
            "",
            "crio.nri.enable_nri is false",
        ),
        ("docker", DOCKER, "{\"nri-opts\": {\"enable\": true}}", "nri-opts.enable is false"),
    ] {
        let image = Image::new();
        if !text.is_empty() {
            image.write(file, text.as_bytes());
        }
        let before = image.snapshot();
        image.done(&format!("install {engine} --nri ours --engine-version 30.0"));
        let installed = image.snapshot();
        assert!(!image.done(&format!("uninstall {engine}")).contains(kept));
        assert_eq!(image.snapshot(), before);
        image.done(&format!("install {engine} --nri ours --engine-version 30.0"));
        assert_eq!(image.snapshot(), installed);
        fs::remove_file(image.at(crate::image::MANIFEST)).unwrap();
        let said = image.done(&format!("uninstall {engine}"));
        assert!(said.contains(&format!("note: {file}: {at}: {kept}\n")), "{said}");
        let own = format!("note: {}: engines.{engine} is \"ours\": {kept}\n", crate::image::CONFIG);
        assert!(said.contains(&own), "{said}");
    }
}

/// CRI-O reads every file of its directory; what a killed call left there must not stay.
#[test]
fn what_a_killed_call_left_is_removed() {
    let image = Image::new();
    let left = "/etc/crio/crio.conf.d/.nri-aB3xYz";
    for command in ["install crio", "install crio", "uninstall crio"] {
        image.write(left, b"[crio.runtime]\n");
        let before = image.snapshot();
        image.done(&format!("{command} --dry-run"));
        assert_eq!(image.snapshot(), before, "a dry run");
        image.write(left, b"[crio.runtime]\ndefault_");
        let said = image.done(command);
        assert!(said.contains("left by a command that was interrupted: removed"), "{said}");
        assert!(!image.exists(left));
    }
}
