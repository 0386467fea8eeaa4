//! Tests that one release uninstalls the installations of another release: `nrictl uninstall`
//! restores every value in the files of the engine.

use super::{Release, for_each_direction};
use nri_integration::write_program;
use std::{
    collections::BTreeMap,
    fs,
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

/// Reads the values in all files below a directory. Files without values do not count: releases
/// differ in what they leave of a file, a directory or our own configuration.
fn values(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        if meta.is_symlink() {
            found.insert(path.clone(), fs::read_link(path).unwrap().display().to_string());
        } else if meta.is_dir() && !path.ends_with("etc/nri-container-runtime") {
            found.extend(values(&path));
        } else if meta.is_file() {
            let text = fs::read_to_string(&path).unwrap();
            let text = match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(value) => value.to_string(),
                Err(_) => text.replace('\'', "\""),
            };
            let is_value = |line: &&str| {
                !line.is_empty() && *line != "{}" && !line.starts_with("# Made by `nrictl")
            };
            let lines: Vec<&str> = text.lines().filter(is_value).collect();
            if lines.iter().any(|line| !line.starts_with("version = ")) {
                found.insert(path, lines.join("\n"));
            }
        }
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
fn an_installation_is_uninstalled_by_the_other_release() {
    for_each_direction("install and uninstall", |from, to| {
        for (engine, files, options) in INSTALLATIONS {
            let image = make_image(files);
            let before = values(image.path());
            nrictl(from, image.path(), &format!("install {engine} {options}"));
            assert_ne!(values(image.path()), before, "{engine} {options}: nothing was installed");
            nrictl(to, image.path(), &format!("uninstall {engine}"));
            assert_eq!(
                values(image.path()),
                before,
                "{engine} {options} {files:?}: installed by the {} release",
                from.name
            );
        }
    });
}

#[test]
fn an_installation_repeated_by_the_other_release_is_uninstalled() {
    for_each_direction("install again and uninstall", |from, to| {
        for (engine, files, options) in INSTALLATIONS {
            let image = make_image(files);
            let before = values(image.path());
            for release in [from, to] {
                nrictl(release, image.path(), &format!("install {engine} {options}"));
            }
            nrictl(to, image.path(), &format!("uninstall {engine}"));
            assert_eq!(
                values(image.path()),
                before,
                "{engine} {options} {files:?}: installed by the {} release",
                from.name
            );
        }
    });
}
