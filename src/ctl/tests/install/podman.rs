//! Podman: our drop-in, its lists of runtimes, and refused files and options.

use crate::image::{CRUN, Image, WRAPPER, check_install_and_uninstall};
use std::os::unix::fs::PermissionsExt;

const DROP_IN: &str = "/etc/containers/containers.conf.d/zz-nri-container-runtime.conf";
/// Runtimes that Podman lists in `runtime_supports_json` by itself.
const KNOWN: &str = "\"crun\", \"runc\", \"kata\", \"runsc\", \"youki\", \"krun\", \"ocijail\"";

#[test]
fn install_creates_a_podman_drop_in_and_uninstall_removes_it() {
    let files = [
        "",
        "[containers]\n# default_ulimits = []\npids_limit = 2048\n\n[engine]\n\
         cgroup_manager = \"systemd\"\n#runtime = \"crun\"\n",
        "[engine]\nruntime = \"runc\"\n[engine.runtimes]\n\
         runc = [\n  \"/usr/bin/runc\",\n  \"/usr/sbin/runc\",\n]\n",
        "[engine]\r\nevents_logger = \"file\"\r\n",
        "[containers]\nenv = [\"A=b\", {append=true}]\n[engine.runtimes]\n\
         nvidia = [\"/usr/bin/nvidia-container-runtime\"]\n",
    ];
    for text in files {
        let main = "/etc/containers/containers.conf";
        let image = if text.is_empty() { Image::new() } else { Image::with(main, text) };
        check_install_and_uninstall(&image, "podman", "", |image| {
            let expected = format!(
                "# Made by `nrictl install podman`; `nrictl uninstall podman` removes it.\n\n\
                     [engine]\n\
                 runtime_supports_json = [{KNOWN}, \"nri\", \"nri-container-runtime\"]\n\
                 runtime_supports_nocgroup = [\"crun\", \"krun\", \"nri\", \
                 \"nri-container-runtime\"]\n\n[engine.runtimes]\nnri = [\"{WRAPPER}\"]\n"
            );
            assert_eq!(image.read(DROP_IN), expected);
        });
        check_install_and_uninstall(
            &image,
            "podman",
            &format!("--default --runtime fast={CRUN}"),
            |image| {
                let now = image.read(DROP_IN);
                assert!(now.contains("\nruntime = \"nri\"\n"), "{now}");
                assert!(now.contains("\nfast = [\"/usr/local/bin/nri-fast\"]\n"), "{now}");
                assert!(
                    now.contains(&format!(
                        "{KNOWN}, \"nri\", \"nri-container-runtime\", \"fast\", \"nri-fast\"]"
                    )),
                    "{now}"
                );
            },
        );
        // If --engine-config names the main file, that file is edited, and no drop-in is created.
        if !text.is_empty() {
            let option = format!("--engine-config {main}");
            image.run_ok(&format!("install podman --default {option}"));
            assert!(!image.exists(DROP_IN) && image.read(main).contains(WRAPPER));
            image.run_ok("uninstall podman");
            assert_eq!(image.read(main), text);
        }
    }
}

/// A list in a later file replaces the lists of earlier files, so ours repeats their items.
#[test]
fn lists_of_earlier_podman_files_are_kept() {
    let image = Image::with(
        "/usr/share/containers/containers.conf",
        "[engine]\nruntime_supports_json = [\"mine\", {append=true}]\n",
    );
    image.write(
        "/etc/containers/containers.conf.d/10-x.conf",
        b"[engine]\nruntime_supports_json = [\"crun\", \"other\"]\n",
    );
    image.write("/etc/containers/containers.conf.d/20-not-read", b"x =\n");
    check_install_and_uninstall(&image, "podman", "", |image| {
        let now = image.read(DROP_IN);
        assert!(now.contains(&format!("{KNOWN}, \"mine\", \"other\", \"nri\"")), "{now}");
    });
}

/// It is a file of ours alone, and says so in its first line.
#[test]
fn a_podman_drop_in_is_removed_with_its_edits() {
    let image = Image::new();
    let before = image.snapshot();
    image.run_ok("install podman --default");
    image.edit(DROP_IN, "runtime = \"nri\"\n", "runtime = \"crun\"\nnum_locks = 4096\n");
    image.run_ok("uninstall podman");
    assert_eq!(image.snapshot(), before);
}

#[test]
fn a_note_names_a_file_with_a_later_default() {
    let image =
        Image::with("/etc/containers/containers.conf.d/zzz.conf", "[engine]\nruntime = \"crun\"\n");
    let output = image.run_ok("install podman --default");
    assert!(
        output.contains("zzz.conf is read later and makes \"crun\" the default runtime"),
        "{output}"
    );
}

#[test]
fn unusable_podman_files_and_options_are_refused() {
    let check = |text: &str, options: &str, expected: &str| {
        let image = Image::with("/etc/containers/containers.conf.d/10-x.conf", text);
        let output = image.refused(&format!("install podman {options}"));
        assert!(output.contains(expected), "{output}");
    };
    check("", "--runtime crun=/usr/bin/crun", "podman has a runtime \"crun\" of its own");
    check(
        "[engine.runtimes]\nnri = [\"/opt/x\"]\n",
        "",
        "engine.runtimes.nri exists and is not ours ([\"/opt/x\"])",
    );
    check("[engine\n", "", "10-x.conf: line 1, column ");
    check("", "--nri ours", "podman has no NRI of its own");
}

/// Podman passes `--cgroup-manager disabled` only to runtimes that support it: crun does, runc does
/// not.
#[test]
fn only_crun_supports_disabled_cgroups() {
    let key = "runtime_supports_nocgroup = ";
    let check = |image: &Image, options: &str, expected: Option<&str>| {
        check_install_and_uninstall(image, "podman", options, |image| {
            let now = image.read(DROP_IN);
            let line = now.lines().find_map(|line| line.strip_prefix(key));
            assert_eq!(line, expected, "{now}");
        });
    };
    // The wrapper finds crun, since the image has no runc.
    let ours = "\"nri\", \"nri-container-runtime\"";
    check(&Image::new(), "", Some(&format!("[\"crun\", \"krun\", {ours}]")));
    let runc = Image::with("/usr/sbin/runc", "#!/bin/sh\n");
    std::fs::set_permissions(runc.at("/usr/sbin/runc"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    check(&runc, "", None);
    check(
        &runc,
        &format!("--runtime fast={CRUN} --runtime slow=/usr/sbin/runc"),
        Some("[\"crun\", \"krun\", \"fast\", \"nri-fast\"]"),
    );
    for text in ["candidates = [\"crun\", \"runc\"]", "path = \"/usr/bin/crun\""] {
        runc.write(crate::image::CONFIG, format!("[runtime]\n{text}\n").as_bytes());
        check(&runc, "", Some(&format!("[\"crun\", \"krun\", {ours}]")));
    }
    let theirs = format!("[engine]\n{key}[\"mine\"]\n");
    let image = Image::with("/etc/containers/containers.conf.d/10-x.conf", &theirs);
    check(&image, "", Some(&format!("[\"crun\", \"krun\", \"mine\", {ours}]")));
}
