//! containerd 2 with files of version 3 that import files of version 2: containerd applies the
//! version of the last file to all files.

use crate::{
    image::{Image, WRAPPER, check_install_and_uninstall, skipped},
    real_containerd::{containerds, dump},
};
use std::process::Command;

const FILE: &str = "/etc/containerd/config.toml";
const KATA: &str = "/etc/containerd/conf.d/10-kata.toml";
const LATER: &str = "/etc/containerd/conf.d/50-later.toml";
const DROP_IN: &str = "/etc/containerd/conf.d/zz-nri-container-runtime.toml";

/// A main file that imports a directory.
const IMPORTS_DIRECTORY: &str = "version = 3\nimports = [\"conf.d/*.toml\"]\n";
/// A main file that imports one file.
const IMPORTS_ONE_FILE: &str = "version = 3\nimports = [\"conf.d/10-kata.toml\"]\n";
const V2_KATA: &str = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image \
                       = \"localhost/pause:9\"\n\
                       [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  \
                       default_runtime_name = \"kata\"\n\
                       [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\n  \
                       runtime_type = \"io.containerd.kata.v2\"\n";
const V3_KATA: &str = "version = 3\n\
                       [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.kata]\n  \
                       runtime_type = \"io.containerd.kata.v2\"\n";
const V3_DEFAULT: &str =
    "[plugins.\"io.containerd.cri.v1.runtime\".containerd]\n  default_runtime_name = \"runc\"\n";
const V3_HANDLER: &str = "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.foo]\n  \
                          runtime_type = \"io.containerd.foo.v2\"\n";

/// Returns cases: the main file, an imported file, a later file, and the path and the version of
/// the file that must get our handler.
fn cases() -> Vec<(String, &'static str, &'static str, &'static str, i64)> {
    let main = |head: &str, more: &str| format!("{head}{more}");
    vec![
        (main(IMPORTS_DIRECTORY, ""), V2_KATA, "", DROP_IN, 2),
        (main(IMPORTS_DIRECTORY, ""), V2_KATA, "oom_score = 1\n", DROP_IN, 2),
        (main(IMPORTS_DIRECTORY, ""), V2_KATA, "version = 3\noom_score = 1\n", DROP_IN, 3),
        (main(IMPORTS_DIRECTORY, ""), V3_KATA, "version = 2\noom_score = 1\n", KATA, 3),
        (main(IMPORTS_DIRECTORY, ""), V3_KATA, "", DROP_IN, 3),
        (main(IMPORTS_DIRECTORY, V3_DEFAULT), V2_KATA, "", DROP_IN, 2),
        (main(IMPORTS_DIRECTORY, V3_HANDLER), V2_KATA, "", FILE, 3),
        (main(IMPORTS_ONE_FILE, ""), V2_KATA, "", KATA, 2),
        (main(IMPORTS_ONE_FILE, V3_DEFAULT), V2_KATA, "", KATA, 2),
        (main(IMPORTS_ONE_FILE, ""), V3_KATA, "", FILE, 3),
    ]
}

fn image(main: &str, kata: &str, later: &str) -> Image {
    let image = Image::with(FILE, main);
    image.write(KATA, kata.as_bytes());
    if !later.is_empty() {
        image.write(LATER, later.as_bytes());
    }
    image
}

#[test]
fn our_handler_is_written_in_the_effective_version() {
    for (main, kata, later, destination, version) in cases() {
        println!("{main} {kata} {later}");
        for options in ["", "--default --nri ours"] {
            check_install_and_uninstall(
                &image(&main, kata, later),
                "containerd",
                options,
                |image| {
                    let now = image.read(destination);
                    assert!(
                        now.contains(WRAPPER) && now.contains(&format!("version = {version}\n")),
                        "{now}"
                    );
                    let plugin = if version == 2 {
                        "io.containerd.grpc.v1.cri"
                    } else {
                        "io.containerd.cri.v1.runtime"
                    };
                    let handler = format!("plugins.\"{plugin}\".containerd.runtimes.nri]");
                    assert!(now.contains(&handler), "{now}");
                },
            );
        }
    }
}

#[test]
fn a_note_names_a_drop_in_that_hides_files_of_version_2() {
    let image = Image::with(FILE, IMPORTS_DIRECTORY);
    image.run_ok("install containerd");
    image.write(KATA, V2_KATA.as_bytes());
    assert!(
        image.run_ok("install containerd").contains(
            "hides the CRI settings of files of version 2; uninstall, then install again"
        )
    );
    image.run_ok("uninstall containerd");
    image.run_ok("install containerd");
    assert!(image.read(DROP_IN).contains("version = 2\n"));
    assert!(!image.run_ok("install containerd").contains("hides the CRI settings"));
}

#[test]
fn a_real_containerd_keeps_its_settings_of_mixed_versions() {
    let is_containerd_2 = |path: &&std::path::PathBuf| {
        let version = Command::new(path).arg("--version").output().unwrap().stdout;
        String::from_utf8_lossy(&version)
            .split(' ')
            .nth(2)
            .is_some_and(|v| v.starts_with("v2") || v.starts_with('2'))
    };
    let all = containerds();
    let containerds: Vec<_> = all.iter().filter(is_containerd_2).collect();
    if containerds.is_empty() {
        skipped("a_real_containerd_keeps_its_settings_of_mixed_versions", "no containerd 2");
    }
    for containerd in containerds {
        for (main, kata, later, ..) in cases() {
            for default in [false, true] {
                let image = image(&main, kata, later);
                let before = dump(containerd, &image.at(FILE)).unwrap();
                image.run_ok(&format!(
                    "install containerd{}",
                    if default { " --default" } else { "" }
                ));
                let after = dump(containerd, &image.at(FILE)).unwrap();
                assert!(
                    after.contains(&format!("BinaryName = {WRAPPER:?}\n")),
                    "{main}{kata}{later}{after}"
                );
                assert_eq!(after.contains("default_runtime_name = \"nri\"\n"), default, "{after}");
                let lost = before.lines().filter(|line| !after.contains(line));
                let lost: Vec<&str> = lost
                    .filter(|line| !(default && line.contains("default_runtime_name")))
                    .collect();
                assert!(lost.is_empty(), "{main}{kata}{later}{lost:#?}");
            }
        }
    }
}

/// A pattern of `imports` may match every name in a directory.
#[test]
fn nothing_else_is_left_in_imported_directories() {
    let extra = "/etc/containerd/extra";
    let image = Image::with(FILE, "version = 2\nimports = [\"/etc/containerd/extra/*\"]\n");
    image.write(&format!("{extra}/10-cri.toml"), V2_KATA.as_bytes());
    check_install_and_uninstall(&image, "containerd", "--default", |image| {
        let names: Vec<_> =
            std::fs::read_dir(image.at(extra)).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["10-cri.toml"]);
        assert!(image.read(&format!("{extra}/10-cri.toml")).contains(WRAPPER));
    });
}
