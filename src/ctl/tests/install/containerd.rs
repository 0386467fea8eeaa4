//! containerd: files of every version, in every layout that administrators use.

use crate::image::{CRUN, Image, WRAPPER, check_install_and_uninstall};
use toml_edit::{DocumentMut, Item};

pub(crate) const FILE: &str = "/etc/containerd/config.toml";
const DROP_IN: &str = "/etc/containerd/conf.d/zz-nri-container-runtime.toml";

const V1: &str = "cri";
pub(crate) const V2: &str = "io.containerd.grpc.v1.cri";
pub(crate) const V3: &str = "io.containerd.cri.v1.runtime";

/// Files: description, name of the CRI plugin, default runtime, text.
pub(crate) const FILES: &[(&str, &str, Option<&str>, &str)] = &[
    (
        "Docker's package",
        V1,
        None,
        "#   Copyright\n\ndisabled_plugins = [\"cri\"]\n\n#root = \"/var/lib/containerd\"\n\
         #[debug]\n#  level = \"info\"\n",
    ),
    (
        "version 1 with a comment at its end",
        V1,
        None,
        "oom_score = -999\n[plugins.cri]\n  sandbox_image = \"p:1\" # ours\n  \
         [plugins.cri.containerd.runtimes.runc]\n    runtime_type = \"io.containerd.runc.v2\"\n    \
         [plugins.cri.containerd.runtimes.runc.options]\n      SystemdCgroup = true\n      # \
         BinaryName = \"crun\"\n",
    ),
    (
        "version 1 with a name that it does not know",
        V1,
        None,
        "[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"p:1\"\n",
    ),
    ("empty", V1, None, ""),
    ("version 2 and nothing else", V2, None, "version = 2\n"),
    (
        "Debian's",
        V2,
        None,
        "version = 2\n\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    \
         [plugins.\"io.containerd.grpc.v1.cri\".cni]\n      bin_dir = \"/usr/lib/cni\"\n      \
         conf_dir = \"/etc/cni/net.d\"\n  [plugins.\"io.containerd.internal.v1.opt\"]\n    path \
         = \"/var/lib/containerd/opt\"\n",
    ),
    (
        "kubeadm's",
        V2,
        Some("runc"),
        "version = 2\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    sandbox_image \
         = \"localhost/pause:3.9\"\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n      \
         default_runtime_name = \"runc\" # as ever\n      snapshotter = \"overlayfs\"\n      \
         [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes]\n        \
         [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n          \
         base_runtime_spec = \"\"\n          privileged_without_host_devices = false\n          \
         runtime_engine = \"\"\n          runtime_type = \"io.containerd.runc.v2\"\n          \
         [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n            \
         BinaryName = \"\"\n            SystemdCgroup = true\n    \
         [plugins.\"io.containerd.grpc.v1.cri\".registry]\n      config_path \
         = \"/etc/containerd/certs.d\"\n# the end\n",
    ),
    (
        "nvidia's",
        V2,
        Some("nvidia"),
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  default_runtime_name \
         = \"nvidia\"\n  [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\n    \
         privileged_without_host_devices = false\n    runtime_type \
         = \"io.containerd.runc.v2\"\n    \
         [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia.options]\n      \
         BinaryName = \"/usr/bin/nvidia-container-runtime\"\n      SystemdCgroup = true\n",
    ),
    (
        "CRLF",
        V2,
        Some("runc"),
        "# ein Gruß\r\nversion = 2\r\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\r\n  \
         default_runtime_name = 'runc'\r\n\r\n[timeouts]\r\n  \"io.containerd.timeout.shim.load\" \
         = \"5s\"\r\n",
    ),
    (
        "no newline at the end",
        V2,
        None,
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"p:1\"",
    ),
    (
        "a comment and no newline at the end",
        V2,
        None,
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"p:1\"\n\
         # sandbox_image = \"p:2\"",
    ),
    (
        "dotted keys",
        V2,
        None,
        "version = 2\nplugins.\"io.containerd.grpc.v1.cri\".sandbox_image = \"p:1\"\n\
         plugins.\"io.containerd.grpc.v1.cri\".containerd.ignore_blockio_not_enabled_errors = \
         true\n",
    ),
    (
        "inline tables",
        V2,
        Some("runc"),
        "version = 2\n[plugins]\n\"io.containerd.grpc.v1.cri\" = { sandbox_image = \"p:1\", \
         containerd = { default_runtime_name = \"runc\", runtimes = { runc = { runtime_type \
         = \"io.containerd.runc.v2\", options = { SystemdCgroup = true } } } } }\n",
    ),
    (
        "mixed",
        V2,
        None,
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  runtimes.runc = { \
         runtime_type = \"io.containerd.runc.v2\" } # inline\n\
         [proxy_plugins.stargz]\n  type = \"snapshot\"\n  address = \"/run/x.sock\"\n",
    ),
    (
        "version 2 that imports nothing yet",
        V2,
        None,
        "imports = [\"/etc/containerd/conf.d/*.toml\"]\nversion = 2\n",
    ),
    (
        "version 3",
        V3,
        None,
        "version = 3\nroot = '/var/lib/containerd'\n\
         [plugins]\n  [plugins.'io.containerd.cri.v1.images'.pinned_images]\n    sandbox = \
         'p:1'\n  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n    \
         runtime_type = 'io.containerd.runc.v2'\n    sandboxer = 'podsandbox'\n    \
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n      \
         SystemdCgroup = true\n\n[stream_processors]\n",
    ),
    (
        "version 4",
        V3,
        Some("runc"),
        "version = 4\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\n\
         default_runtime_name = 'runc'\n",
    ),
];

fn value_at(image: &Image, file: &str, path: &[&str]) -> Option<String> {
    let document: DocumentMut = image.read(file).parse().unwrap();
    let mut item = document.as_item();
    for name in path {
        item = item.get(name)?;
    }
    Some(match item {
        Item::Value(value) => value.clone().decorated("", "").to_string().replace('\'', "\""),
        other => other.to_string(),
    })
}

fn check_handler(image: &Image, file: &str, plugin: &str, name: &str, binary: &str) {
    let get = |path: &[&str]| {
        let path: Vec<&str> = ["plugins", plugin, "containerd", "runtimes", name]
            .iter()
            .chain(path)
            .copied()
            .collect();
        value_at(image, file, &path)
    };
    assert_eq!(get(&["runtime_type"]).as_deref(), Some("\"io.containerd.runc.v2\""));
    assert_eq!(get(&["options", "BinaryName"]), Some(format!("{binary:?}")));
    for annotations in ["pod_annotations", "container_annotations"] {
        assert_eq!(get(&[annotations]).as_deref(), Some("[\"*\", \"*/*\"]"));
    }
    // Options are copied from the existing handler.
    let systemd = image.read(file).matches("SystemdCgroup = true").count() > 0;
    assert_eq!(get(&["options", "SystemdCgroup"]).is_some(), systemd);
}

fn default_runtime(image: &Image, file: &str, plugin: &str) -> Option<String> {
    value_at(image, file, &["plugins", plugin, "containerd", "default_runtime_name"])
}

#[test]
fn every_containerd_file_is_restored() {
    for (what, plugin, default, text) in FILES {
        println!("{what}");
        check_install_and_uninstall(&Image::with(FILE, text), "containerd", "", |image| {
            check_handler(image, FILE, plugin, "nri", WRAPPER);
            assert_eq!(
                default_runtime(image, FILE, plugin),
                default.map(|name| format!("{name:?}"))
            );
            if !what.contains("inline") {
                // Only whole lines are added; all earlier lines stay.
                let now = image.read(FILE);
                let mut lines = now.lines();
                assert!(text.lines().all(|line| lines.any(|l| l == line)), "{now}");
                // New lines end as the earlier lines do.
                assert_eq!(
                    now.matches('\n').count() == now.matches("\r\n").count(),
                    text.contains('\r')
                );
            }
        });
        let options = format!("--default --nri ours --runtime nri-crun={CRUN}");
        check_install_and_uninstall(&Image::with(FILE, text), "containerd", &options, |image| {
            check_handler(image, FILE, plugin, "nri", WRAPPER);
            check_handler(image, FILE, plugin, "nri-crun", "/usr/local/bin/nri-crun");
            assert_eq!(default_runtime(image, FILE, plugin).as_deref(), Some("\"nri\""));
            let name = if *plugin == V1 { "nri" } else { "io.containerd.nri.v1.nri" };
            let own = value_at(image, FILE, &["plugins", name, "disable"]);
            assert_eq!(own.as_deref(), Some("true"));
            for comment in text.lines().filter(|line| line.trim_start().starts_with('#')) {
                assert!(image.read(FILE).contains(comment));
            }
            assert!(
                image.read(crate::image::CONFIG).contains("[engines]\ncontainerd = \"ours\"\n")
            );
        });
    }
}

#[test]
fn uninstall_removes_a_containerd_file_that_install_created() {
    for (options, version, plugin) in
        [("", 2, V2), ("--engine-version 1.6", 2, V2), ("--engine-version 2.1.9", 3, V3)]
    {
        check_install_and_uninstall(&Image::new(), "containerd", options, |image| {
            check_handler(image, FILE, plugin, "nri", WRAPPER);
            assert_eq!(value_at(image, FILE, &["version"]), Some(version.to_string()));
        });
    }
}

#[test]
fn version_3_with_imports_gets_a_drop_in() {
    for imports in ["'/etc/containerd/conf.d/*.toml'", "\"conf.d/*.toml\", \"/x/y.toml\""] {
        let text = format!(
            "version = 3\nimports = [{imports}]\n[plugins.'{V3}'.containerd]\n  \
             default_runtime_name = 'runc'\n"
        );
        let image = Image::with(FILE, &text);
        check_install_and_uninstall(&image, "containerd", "--default --nri ours", |image| {
            assert_eq!(image.read(FILE), text);
            check_handler(image, DROP_IN, V3, "nri", WRAPPER);
            assert_eq!(default_runtime(image, DROP_IN, V3).as_deref(), Some("\"nri\""));
            assert_eq!(value_at(image, DROP_IN, &["version"]).as_deref(), Some("3"));
        });
        // With another drop-in in the same directory.
        image.write("/etc/containerd/conf.d/99-nvidia.toml", b"version = 3\n");
        check_install_and_uninstall(&image, "containerd", "", |image| {
            check_handler(image, DROP_IN, V3, "nri", WRAPPER)
        });
    }
}

/// containerd 2.0 and newer merge imported files of version 2, too. A file of version 2 does not
/// tell which containerd reads it, so `nrictl` learns it from `--engine-version`.
#[test]
fn version_2_with_imports_gets_a_drop_in_if_containerd_is_known_to_be_2() {
    let text = format!(
        "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n[plugins.\"{V2}\"]\n  x = 1\n"
    );
    let image = Image::with(FILE, &text);
    check_install_and_uninstall(&image, "containerd", "--default --engine-version 2.1", |image| {
        assert_eq!(image.read(FILE), text);
        check_handler(image, DROP_IN, V2, "nri", WRAPPER);
        assert_eq!(default_runtime(image, DROP_IN, V2).as_deref(), Some("\"nri\""));
        assert_eq!(value_at(image, DROP_IN, &["version"]).as_deref(), Some("2"));
    });
    for options in ["", "--engine-version 1.7"] {
        check_install_and_uninstall(&image, "containerd", options, |image| {
            assert!(!image.exists(DROP_IN))
        });
    }
    // After an installation in the main file, a later installation edits the main file too.
    image.run_ok("install containerd --engine-version 1.7");
    image.run_ok("install containerd --engine-version 2.1 --default");
    assert!(!image.exists(DROP_IN));
    assert_eq!(default_runtime(&image, FILE, V2).as_deref(), Some("\"nri\""));
    image.run_ok("uninstall containerd");
    assert_eq!(image.read(FILE), text);
}

/// An older containerd uses the CRI plugin's table only from the last file that has this table.
#[test]
fn version_2_is_edited_in_the_file_with_the_effective_table() {
    let other = "/etc/containerd/conf.d/50-cri.toml";
    let image = Image::with(
        FILE,
        &format!("version = 2\nimports = [\"conf.d/*.toml\"]\n[plugins.\"{V2}\".containerd]\n"),
    );
    image.write(
        other,
        format!("version = 2\n[plugins.\"{V2}\"]\n  sandbox_image = \"p:1\"\n").as_bytes(),
    );
    image.write(
        "/etc/containerd/conf.d/60-other.toml",
        b"version = 2\n[metrics]\n  address = \"[::1]:1338\"\n",
    );
    check_install_and_uninstall(&image, "containerd", "--default", |image| {
        check_handler(image, other, V2, "nri", WRAPPER);
        assert_eq!(default_runtime(image, other, V2).as_deref(), Some("\"nri\""));
        assert!(!image.read(FILE).contains("nri"));
    });
    // The same holds for the table of containerd's own NRI.
    let nri = "/etc/containerd/conf.d/70-nri.toml";
    image.write(
        nri,
        b"version = 2\n[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = false\n  \
                       socket_path = \"/run/x\"\n",
    );
    check_install_and_uninstall(&image, "containerd", "--nri ours", |image| {
        assert!(image.read(nri).contains("  disable = true\n"));
        assert!(!image.read(other).contains("io.containerd.nri.v1.nri"));
    });
}

#[test]
fn install_reports_and_switches_containerds_own_nri() {
    let own = |disable: &str| {
        format!("version = 2\n[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = {disable}\n")
    };
    for (text, options, state) in [
        ("version = 2\n", "", "unknown"),
        ("version = 2\n", "--engine-version 1.6.20", "none"),
        ("version = 2\n", "--engine-version 1.7.24", "off"),
        ("version = 2\n", "--engine-version v2.0", "on"),
        ("version = 3\n", "", "on"),
        ("version = 3\ndisabled_plugins = [\"io.containerd.nri.v1.nri\"]\n", "", "off"),
        (&own("false"), "--engine-version 1.7.24", "on"),
        (&own("true"), "--engine-version 2.1.9", "off"),
    ] {
        let image = Image::with(FILE, text);
        let output = image.run_ok(&format!("install containerd --json --dry-run {options}"));
        assert!(output.contains(&format!("\"engine_nri\":\"{state}\"")), "{text}: {output}");
        image.run_ok(&format!("install containerd --nri ours {options}"));
        let disabled = value_at(&image, FILE, &["plugins", "io.containerd.nri.v1.nri", "disable"]);
        // An NRI that is or may be on is switched off. The last text has `disable = true` already.
        let expected = matches!(state, "on" | "unknown") || text.contains("= true");
        assert_eq!(disabled.as_deref() == Some("true"), expected, "{text} {options}");
        // A later choice replaces the earlier choice.
        image.run_ok(&format!("install containerd --nri engine {options}"));
        assert!(image.read(crate::image::CONFIG).contains("containerd = \"engine\""));
        let disabled = value_at(&image, FILE, &["plugins", "io.containerd.nri.v1.nri", "disable"]);
        assert_eq!(
            disabled.as_deref() == Some("true"),
            text.contains("= true"),
            "{text} {options}"
        );
        image.run_ok(&format!("install containerd --nri auto {options}"));
        image.run_ok("uninstall containerd");
        assert_eq!(image.read(FILE), text);
        assert!(!image.exists("/etc/nri-container-runtime"));
    }
}

#[test]
fn unusable_containerd_files_and_options_are_refused() {
    let check = |text: &str, options: &str, expected: &str| {
        let output = Image::with(FILE, text).refused(&format!("install containerd {options}"));
        assert!(output.contains(expected), "{output}");
    };
    check("version = 2\n[plugins\n", "", "config.toml: line 2, column ");
    check("version = 2\nversion = 2\n", "", "line 2, column 1: duplicate key");
    check("version = 2\nplugins = 3\n", "", "config.toml: plugins is not a table or object");
    check(
        "version = 2\n",
        "--runtime runc=/usr/bin/crun",
        "containerd has a runtime \"runc\" of its own",
    );
    check(
        "version = 1\n",
        "--engine-version 2.0",
        "is of version 1, from which containerd 2 takes no CRI settings",
    );
    check(
        "version = 3\nimports = ['/etc/*/x.toml']\n",
        "",
        "unsupported pattern in imports: \"/etc/*/x.toml\"",
    );
    let taken = format!(
        "version = 2\n[plugins.\"{V2}\".containerd.runtimes.nri]\n\
         runtime_type = \"io.containerd.kata.v2\"\n"
    );
    check(&taken, "", "runtimes.nri exists and is not ours");
    let image = Image::with(FILE, "version = 2\nimports = [\"conf.d/*.toml\"]\n");
    image.write("/etc/containerd/conf.d/a.toml", b"x = \n");
    assert!(image.refused("install containerd").contains("conf.d/a.toml: line 1, column 5"));
}

#[test]
fn edits_in_containerd_files_since_installation_stay() {
    let (_, plugin, _, text) = FILES.iter().find(|(what, ..)| *what == "kubeadm's").unwrap();
    let image = Image::with(FILE, text);
    image.run_ok("install containerd --default --nri ours");
    image.edit(FILE, "pause:3.9", "pause:3.10");
    image.edit(FILE, "# the end\n", "# the end\n# and a remark\n");
    image.run_ok("uninstall containerd");
    assert_eq!(image.read(FILE), text.replace("pause:3.9", "pause:3.10") + "# and a remark\n");
    // Next case: an administrator has changed the default and added a handler.
    image.write(FILE, b"version = 2\n");
    image.run_ok("install containerd --default");
    image.edit(FILE, "default_runtime_name = \"nri\"", "default_runtime_name = \"kata\"");
    let kata = format!(
        "[plugins.{plugin:?}.containerd.runtimes.kata]\nruntime_type = \"io.containerd.kata.v2\"\n"
    );
    image.write(FILE, (image.read(FILE) + &kata).as_bytes());
    image.run_ok("uninstall containerd");
    let now = image.read(FILE);
    assert_eq!(default_runtime(&image, FILE, plugin).as_deref(), Some("\"kata\""), "{now}");
    assert!(now.contains(&kata) && !now.contains("nri"), "{now}");
    // containerd 1.x needs it beside other handlers.
    assert!(now.contains("runtimes.runc]"), "{now}");
}

#[test]
fn a_containerd_handler_is_recognized_without_a_record() {
    for (what, plugin, _, text) in FILES {
        let image = Image::with(FILE, text);
        image.run_ok(&format!("install containerd --default --runtime nri-crun={CRUN}"));
        std::fs::remove_file(image.at(crate::image::RECORD)).unwrap();
        image.run_ok("uninstall containerd");
        assert_eq!(default_runtime(&image, FILE, plugin), None, "{what}");
        assert!(!image.read(FILE).contains("nri"), "{what}: {}", image.read(FILE));
        assert!(
            text.lines()
                .filter(|line| line.starts_with('#'))
                .all(|line| image.read(FILE).contains(line))
        );
        assert!(!image.exists("/usr/local/bin/nri-crun"));
    }
}

#[test]
fn install_prints_notes_and_commands_for_containerd() {
    let check = |text: &str, expected: &str| {
        let output = Image::with(FILE, text).run_ok("install containerd --dry-run");
        assert!(output.contains(expected), "{output}");
    };
    check(
        "disabled_plugins = [\"cri\"]\n",
        "config.toml disables the CRI plugin: handlers have no effect",
    );
    check("", "is of version 1: containerd 2 takes no CRI settings from such a file");
    check(
        "version = 2\n",
        "ctr run --rm --runc-binary /usr/local/bin/nri-container-runtime IMAGE ID",
    );
    check("version = 2\n", "a RuntimeClass with handler: nri");
    check("version = 2\n", "systemctl restart containerd");
}
