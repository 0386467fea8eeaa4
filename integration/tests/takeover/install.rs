//! Tests that one release uninstalls the installations of another release: `nrictl uninstall`
//! restores every file of the engine byte for byte.

use super::{Release, for_each_direction};
use nri_integration::write_program;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

/// Paths and contents of files.
type Files = [(&'static str, &'static str)];

/// Installations to test: engine, the engine's configuration files, and options of
/// `nrictl install`.
const INSTALLATIONS: &[(&str, &Files, &str)] = &[
    ("docker", &[], ""),
    (
        "docker",
        &[(
            "etc/docker/daemon.json",
            "{\n    \"live-restore\": true,\n    \"labels\": [ \"a=b\" ]\n}\n",
        )],
        "--default",
    ),
    ("docker", &[("etc/docker/daemon.json", "{}")], "--runtime nri-crun=/usr/bin/crun"),
    ("isulad", &[("etc/isulad/daemon.json", "{\n  \"group\": \"isula\"\n}\n")], "--default"),
    ("containerd", &[], ""),
    (
        "containerd",
        &[(
            "etc/containerd/config.toml",
            "version = 2 # a comment\n\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  \
             default_runtime_name = \"runc\"\n",
        )],
        "--default --runtime nri-crun=/usr/bin/crun",
    ),
    (
        "containerd",
        &[(
            "etc/containerd/config.toml",
            "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n",
        )],
        "--default --nri ours",
    ),
    ("podman", &[], "--default"),
    (
        "podman",
        &[("etc/containers/containers.conf", "# kept\n[engine]\nruntime = \"crun\"\n")],
        "--default",
    ),
    (
        "crio",
        &[("etc/crio/crio.conf", "[crio.runtime]\ndefault_runtime = \"runc\"\n")],
        "--default",
    ),
    ("crio", &[], ""),
];

/// Creates a root directory with the wrapper, crun and an engine's configuration files.
fn make_image(files: &Files) -> tempfile::TempDir {
    let image = tempfile::tempdir().unwrap();
    for dir in ["etc", "usr/bin", "usr/local/bin"] {
        fs::create_dir_all(image.path().join(dir)).unwrap();
    }
    for program in ["usr/local/bin/nri-container-runtime", "usr/bin/crun"] {
        write_program(&image.path().join(program), "#!/bin/sh\n");
    }
    for (path, text) in files {
        let path = image.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    image
}

/// Reads mode and contents of all files and directories below a directory.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let contents = if meta.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if meta.is_dir() {
            found.extend(snapshot(&path));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        found.insert(path, (meta.mode(), contents));
    }
    found
}

/// Runs `nrictl` of a release, which must succeed, on a root directory. Returns its output.
#[track_caller]
fn nrictl(release: &Release, image: &Path, arguments: &str) -> String {
    let mut command = Command::new(release.dir.join("nrictl"));
    command.args(arguments.split_whitespace()).arg("--root").arg(image);
    let output = command.env_remove("NRI_CONTAINER_RUNTIME_CONFIG").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments} by the {} release: {err}", release.name);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_installation_is_uninstalled_byte_for_byte_by_the_other_release() {
    for_each_direction("install and uninstall", |from, to| {
        for (engine, files, options) in INSTALLATIONS {
            let image = make_image(files);
            let before = snapshot(image.path());
            nrictl(from, image.path(), &format!("install {engine} {options}"));
            assert_ne!(snapshot(image.path()), before, "{engine} {options}: nothing was installed");
            nrictl(to, image.path(), &format!("uninstall {engine}"));
            assert_eq!(
                snapshot(image.path()),
                before,
                "{engine} {options} {files:?}: installed by the {} release",
                from.name
            );
        }
    });
}

#[test]
fn an_installation_repeated_by_the_other_release_is_uninstalled_byte_for_byte() {
    for_each_direction("install again and uninstall", |from, to| {
        for (engine, files, options) in INSTALLATIONS {
            let image = make_image(files);
            let before = snapshot(image.path());
            for release in [from, to] {
                nrictl(release, image.path(), &format!("install {engine} {options}"));
            }
            nrictl(to, image.path(), &format!("uninstall {engine}"));
            assert_eq!(
                snapshot(image.path()),
                before,
                "{engine} {options} {files:?}: installed by the {} release",
                from.name
            );
        }
    });
}
