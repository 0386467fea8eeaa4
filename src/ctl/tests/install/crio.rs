//! CRI-O: our drop-in, CRI-O's own NRI, and refused files and names.

use crate::image::{CONFIG, CRUN, Image, WRAPPER, check_install_and_uninstall};

const DROP_IN: &str = "/etc/crio/crio.conf.d/zz-nri-container-runtime.conf";
const OTHER: &str = "/etc/crio/crio.conf.d/10-crun.conf";

#[test]
fn install_creates_a_crio_drop_in_and_uninstall_removes_it() {
    let crun = "[crio.image]\nsignature_policy = \"/etc/crio/policy.json\"\n\n[crio.runtime]\n\
                default_runtime = \"crun\" # packaged\n\n[crio.runtime.runtimes.crun]\n\
                runtime_path = \"/usr/libexec/crio/crun\"\nruntime_root = \"/run/crun\"\n\
                monitor_path = \"/usr/libexec/crio/conmon\"\n\
                allowed_annotations = [\n    \"io.containers.trace-syscall\",\n    \
                \"io.kubernetes.cri-o.userns-mode\",\n]\n";
    let texts = [
        "",
        crun,
        "[crio]\n  [crio.runtime]\n    default_runtime = \"nvidia\"\n    \
         [crio.runtime.runtimes.nvidia]\n      runtime_path = \"/usr/bin/\
         nvidia-container-runtime\"\n      runtime_type = \"oci\"\n",
        "[crio.nri]\nenable_nri = true\n",
    ];
    for text in texts {
        let image = if text.is_empty() { Image::new() } else { Image::with(OTHER, text) };
        check_install_and_uninstall(&image, "crio", "", |image| {
            let now = image.read(DROP_IN);
            assert!(
                now.contains(&format!(
                    "\n[crio.runtime.runtimes.nri]\n\
                                           runtime_path = \"{WRAPPER}\"\n\
                                           runtime_root = \"/run/crio-nri\"\n\
                                           runtime_type = \"oci\"\n"
                )),
                "{now}"
            );
            let conmon = "monitor_path = \"/usr/libexec/crio/conmon\"\n";
            assert_eq!(now.contains(conmon), text.contains(conmon));
            assert_eq!(now.contains("userns-mode"), text.contains("userns-mode"));
            assert!(
                now.contains("allowed_annotations = [") && now.contains("monitor_env = [\"PATH="),
                "{now}"
            );
        });
        check_install_and_uninstall(
            &image,
            "crio",
            &format!("--default --nri ours --runtime nri-crun={CRUN}"),
            |image| {
                let now = image.read(DROP_IN);
                assert!(now.contains("\n[crio.runtime]\ndefault_runtime = \"nri\"\n"), "{now}");
                assert!(now.contains("runtime_path = \"/usr/local/bin/nri-crun\"\n"), "{now}");
                assert!(now.contains("\n[crio.nri]\nenable_nri = false\n"), "{now}");
                assert!(image.read(CONFIG).contains("[engines]\ncrio = \"ours\"\n"));
            },
        );
    }
}

#[test]
fn install_reports_crios_own_nri() {
    for (text, options, state) in [
        ("", "", "unknown"),
        ("", "--engine-version 1.25", "none"),
        ("", "--engine-version 1.29", "off"),
        ("", "--engine-version 1.30", "on"),
        ("[crio.nri]\nenable_nri = true\n", "--engine-version 1.29", "on"),
        ("[crio.nri]\nenable_nri = false\n", "--engine-version 1.35", "off"),
    ] {
        let output =
            Image::with(OTHER, text).run_ok(&format!("install crio --dry-run --json {options}"));
        assert!(
            output.contains(&format!("\"engine_nri\":\"{state}\"")),
            "{text} {options}: {output}"
        );
    }
}

#[test]
fn unusable_crio_files_and_names_are_refused() {
    let check = |text: &str, options: &str, expected: &str| {
        let output = Image::with(OTHER, text).refused(&format!("install crio {options}"));
        assert!(output.contains(expected), "{output}");
    };
    check("", "--name crun", "crio has a runtime \"crun\" of its own");
    check(
        "[crio.runtime.runtimes.nri]\nruntime_path = \"/x\"\n",
        "",
        "crio.runtime.runtimes.nri exists and is not ours",
    );
    check("[crio]\n[crio]\n", "", "10-crun.conf: line 2, column 2: duplicate key");
}

/// CRI-O reads every file of its directory, whatever its name is.
#[test]
fn nothing_else_is_left_among_crios_drop_ins() {
    let text = "[crio.runtime]\nlog_level = \"info\"\n";
    let image = Image::with(OTHER, text);
    std::fs::create_dir_all(image.at("/etc/crio/crio.conf.d/folder.conf")).unwrap();
    let before = image.snapshot();
    image.run_ok(&format!("install crio --engine-config {OTHER}"));
    assert!(image.read(OTHER).contains(WRAPPER));
    let names = std::fs::read_dir(image.at("/etc/crio/crio.conf.d")).unwrap().count();
    assert_eq!(names, 2, "only the edited file and the folder");
    image.run_ok("uninstall crio");
    assert_eq!(image.snapshot(), before);
}

#[test]
fn a_note_says_that_no_nri_adapts_crios_containers() {
    for (version, expected) in
        [("1.25", "no NRI of its own in this version"), ("1.29", "no plugin adapts its containers")]
    {
        let output =
            Image::new().run_ok(&format!("install crio --nri engine --engine-version {version}"));
        assert!(output.contains(expected), "{output}");
    }
}
