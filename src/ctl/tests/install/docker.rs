//! Docker, iSulad and nerdctl: files in every layout that administrators use, repeated
//! installations, and refused files and options.

use crate::image::{CONFIG, CRUN, Image, RECORD, WRAPPER, check_install_and_uninstall};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};

pub(crate) const FILE: &str = "/etc/docker/daemon.json";

/// Files as administrators write them.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("empty", ""),
    ("an empty object", "{}"),
    ("an empty object and a newline", "{}\n"),
    ("an empty object over two lines", "{\n}\n"),
    ("one line", r#"{"debug":true,"log-driver":"json-file"}"#),
    ("one line with spaces", "{ \"debug\": true }\n"),
    ("two spaces", "{\n  \"debug\": true,\n  \"storage-driver\": \"overlay2\"\n}\n"),
    ("four spaces, no newline at the end", "{\n    \"debug\": true,\n    \"mtu\": 1400\n}"),
    (
        "tabs",
        "{\n\t\"exec-opts\": [\"native.cgroupdriver=systemd\"],\n\t\"log-opts\": {\n\
         \t\t\"max-size\": \"10m\"\n\t}\n}\n",
    ),
    ("CRLF", "{\r\n  \"debug\": true,\r\n  \"dns\": [\"1.1.1.1\"]\r\n}\r\n"),
    ("a byte order mark", "\u{feff}{\n  \"debug\": true\n}\n"),
    ("blank lines", "\n\n{\n\n  \"debug\" : true\n\n}\n\n\n"),
    ("colons without spaces", "{\n \"debug\":true,\n \"iptables\":false\n}\n"),
    ("unicode", "{\n  \"labels\": [\"ort=Zürich\", \"\\u00e9\\\"}\"],\n  \"☃\": {}\n}\n"),
    (
        "numbers as they were written",
        "{\n  \"mtu\": 1.4e3,\n  \"big\": 123456789012345678901234567890,\n  \"neg\": -0.0\n}\n",
    ),
    ("an empty object of runtimes", "{\n  \"runtimes\": {},\n  \"debug\": false\n}\n"),
    (
        "nvidia's",
        "{\n    \"runtimes\": {\n        \"nvidia\": {\n            \"args\": \
         [],\n            \"path\": \"nvidia-container-runtime\"\n        }\n    }\n}",
    ),
    (
        "nvidia's as the default",
        "{\n  \"default-runtime\": \"nvidia\",\n  \"runtimes\": {\n    \"nvidia\": \
         { \"path\": \"/usr/bin/nvidia-container-runtime\", \"runtimeArgs\": [] \
         },\n    \"sysbox-runc\": { \"path\": \"/usr/bin/sysbox-runc\" }\n  },\n  \"nri-opts\": \
         { \"enable\": false }\n}\n",
    ),
    (
        "a runtime by type",
        "{\"runtimes\": {\"gvisor\": {\"runtimeType\": \"io.containerd.runsc.v1\", \"options\": \
         {\"TypeUrl\": \"io.containerd.runsc.v1.options\"}}}, \"default-runtime\": \"runc\"}\n",
    ),
    (
        "nested values",
        "{\n  \"default-address-pools\": [\n    {\"base\": \"172.30.0.0/16\", \"size\": 24},\n    \
         {\"base\": \"172.31.0.0/16\", \"size\": 24}\n  ],\n  \"builder\": {\"gc\": {\"enabled\": \
         true, \"policy\": [{\"keepStorage\": \"10GB\", \"filter\": [\"unused-for=2200h\"]}]}}\n\
         }\n",
    ),
];

/// Returns the values in `daemon.json`.
pub(crate) fn value(image: &Image) -> Value {
    serde_json::from_str(image.read(FILE).trim_start_matches('\u{feff}')).unwrap()
}

#[test]
fn every_daemon_json_is_restored() {
    for (what, text) in FILES {
        println!("{what}");
        let before: Value =
            serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_else(|_| json!({}));
        check_install_and_uninstall(&Image::with(FILE, text), "docker", "", |image| {
            let mut expected = before.clone();
            expected["runtimes"]["nri"] = json!({"path": WRAPPER});
            assert_eq!(value(image), expected);
            let now = image.read(FILE);
            assert_eq!(now.contains('\r'), text.contains('\r'), "{now}");
            assert_eq!(now.contains('\u{feff}'), text.contains('\u{feff}'), "{now}");
        });
        let options = format!("--default --runtime nri-crun={CRUN} --runtime fast={CRUN}");
        check_install_and_uninstall(&Image::with(FILE, text), "docker", &options, |image| {
            let mut expected = before.clone();
            expected["runtimes"]["nri"] = json!({"path": WRAPPER});
            expected["runtimes"]["nri-crun"] = json!({"path": "/usr/local/bin/nri-crun"});
            expected["runtimes"]["fast"] = json!({"path": "/usr/local/bin/nri-fast"});
            expected["default-runtime"] = json!("nri");
            assert_eq!(value(image), expected);
            for link in ["nri-crun", "nri-fast"] {
                let target = std::fs::read_link(image.at("/usr/local/bin").join(link)).unwrap();
                assert_eq!(target.to_str(), Some("nri-container-runtime"));
                assert!(
                    image
                        .read(CONFIG)
                        .contains(&format!("[runtime.names.{link}]\npath = \"{CRUN}\"\n"))
                );
            }
        });
    }
}

/// Files in the usual layout, with a member a line, are what they were, byte by byte.
#[test]
fn the_usual_layout_of_a_daemon_json_stays() {
    let mut usual = 0;
    for (what, text) in FILES.iter().filter(|(_, text)| text.matches('\n').count() > 1) {
        if ["\n}", "empty"].iter().all(|part| !text.contains("\n\n") && !what.contains(part)) {
            usual += 1;
            let image = Image::with(FILE, text);
            image.run_ok("install docker --default");
            image.run_ok("uninstall docker");
            assert_eq!(image.read(FILE), *text, "{what}");
        }
    }
    assert!(usual > 5, "{usual}");
}

#[test]
fn uninstall_removes_a_daemon_json_that_install_created() {
    check_install_and_uninstall(&Image::new(), "docker", "--default", |image| {
        let expected = "{\n  \"runtimes\": {\n    \"nri\": {\n      \"path\": \"/usr/local/bin/\
                        nri-container-runtime\"\n    }\n  },\n  \"default-runtime\": \"nri\"\n}\n";
        assert_eq!(image.read(FILE), expected);
    });
}

#[test]
fn isulad_has_runtimes_in_its_own_daemon_json() {
    let file = "/etc/isulad/daemon.json";
    let texts = [
        "{\n    \"group\": \"isula\",\n    \"default-runtime\": \"runc\",\n    \"log-opts\": \
         {\n        \"max-size\": \"30KB\"\n    },\n    \"registry-mirrors\": [\n    \
         ],\n    \"cri-runtimes\": {\n        \"kata\": \"io.containerd.kata.v2\"\n    }\n}\n",
        "{\n\t\"runtimes\": {\n\t\t\"runc\": {\n\t\t\t\"path\": \"/usr/local/sbin/runc\",\n\
         \t\t\t\"runtime-args\": [\n\t\t\t]\n\t\t}\n\t}\n}\n",
    ];
    for text in texts {
        check_install_and_uninstall(&Image::with(file, text), "isulad", "--default", |image| {
            let now: Value = serde_json::from_str(&image.read(file)).unwrap();
            assert_eq!(now["runtimes"]["nri"], json!({"path": WRAPPER}));
            assert_eq!(now["default-runtime"], "nri");
        });
    }
    let output = Image::with(file, texts[0]).refused("install isulad --runtime lcr=/usr/bin/crun");
    assert!(output.contains("isulad has a runtime \"lcr\" of its own"), "{output}");
}

#[test]
fn the_nri_of_isulad_is_switched_off_on_request() {
    let file = "/etc/isulad/daemon.json";
    let text = "{\n  // NRI of its own\n  \"nri-support\": true,\n  \"enable-cri-v1\": true\n}\n";
    let image = Image::with(file, text);
    let output = image.run_ok("install isulad --dry-run");
    let on = "isulad has NRI of its own, which is on; while it is on, the wrapper passes the";
    assert!(output.contains(on), "{output}");
    check_install_and_uninstall(&image, "isulad", "--nri ours", |image| {
        assert!(image.read(file).contains("\"nri-support\": false"), "{}", image.read(file));
        let own = image.read("/etc/nri-container-runtime/config.toml");
        assert!(own.contains("isulad = \"ours\""), "{own}");
    });
}

#[test]
fn nerdctl_needs_no_file() {
    let image = Image::new();
    let before = image.snapshot();
    let output = image.run_ok("install nerdctl");
    assert!(output.contains(&format!("nerdctl run --rm --runtime {WRAPPER} IMAGE")), "{output}");
    let mut installed = image.snapshot();
    installed.retain(|path, _| !path.starts_with("etc/nri-container-runtime"));
    assert_eq!(installed, before);
    image.run_ok("uninstall nerdctl");
    assert_eq!(image.snapshot(), before);
    assert!(
        image
            .refused("install nerdctl --default")
            .contains("nerdctl has no default runtime in any file")
    );
    check_install_and_uninstall(&image, "nerdctl", &format!("--runtime crun={CRUN}"), |image| {
        assert!(image.exists("/usr/local/bin/nri-crun"))
    });
}

#[test]
fn later_installations_add_to_earlier_installations() {
    let text = "{\n  \"debug\": true,\n  \"default-runtime\": \"runc\"\n}\n";
    let image = Image::with(FILE, text);
    image.run_ok("install docker");
    image.run_ok(&format!("install docker --runtime nri-crun={CRUN}"));
    image.run_ok("install docker --default");
    image.run_ok("install docker --nri ours");
    assert_eq!(value(&image)["default-runtime"], "nri");
    assert_eq!(value(&image)["runtimes"]["nri-crun"]["path"], "/usr/local/bin/nri-crun");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(FILE), text);
    assert!(
        !image.exists("/etc/nri-container-runtime") && !image.exists("/usr/local/bin/nri-crun")
    );
    // An edit between two installations is kept; the third installation has nothing to add.
    image.run_ok("install docker");
    image.edit(FILE, "true", "false");
    image.run_ok("install docker --default");
    let installed = image.snapshot();
    assert!(image.run_ok("install docker").contains("nothing to do"));
    assert_eq!(image.snapshot(), installed);
    image.run_ok("uninstall docker");
    assert_eq!(image.read(FILE), text.replace("true", "false"));
}

#[test]
fn install_updates_the_path_of_a_moved_wrapper() {
    let image = Image::with(FILE, "{}");
    image.run_ok("install docker --default");
    std::fs::create_dir_all(image.at("/opt")).unwrap();
    std::fs::rename(image.at(WRAPPER), image.at("/opt/nri-container-runtime")).unwrap();
    image.run_ok("install docker --wrapper /opt/nri-container-runtime");
    assert_eq!(value(&image)["runtimes"]["nri"]["path"], "/opt/nri-container-runtime");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(FILE), "{}");
}

#[test]
fn two_engines_share_a_runtime() {
    let image = Image::with(FILE, "{}\n");
    let before = image.snapshot();
    let option = format!("--runtime nri-crun={CRUN}");
    image.run_ok(&format!("install docker {option}"));
    let config = image.read(CONFIG);
    image.run_ok(&format!("install isulad {option}"));
    assert_eq!(image.read(CONFIG), config);
    let error =
        image.refused("install podman --runtime nri-crun=/usr/local/bin/nri-container-runtime");
    assert!(error.contains("this is the wrapper itself"), "{error}");
    image.write("/usr/bin/youki", b"#!/bin/sh\n");
    std::fs::set_permissions(image.at("/usr/bin/youki"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let error = image.refused("install podman --runtime nri-crun=/usr/bin/youki");
    assert!(
        error.contains(
            "nri-crun already runs /usr/bin/crun for docker, isulad; choose another name"
        ),
        "{error}"
    );
    std::fs::remove_file(image.at("/usr/bin/youki")).unwrap();
    image.run_ok("uninstall docker");
    assert_eq!(image.read(CONFIG), config);
    assert!(image.exists("/usr/local/bin/nri-crun"));
    image.run_ok("uninstall isulad");
    assert_eq!(image.snapshot(), before);
}

#[test]
fn our_configuration_keeps_its_comments() {
    let text = "# site\nunreachable = \"pass\" # for now\n\n[runtime]\n# path = \"/x\"\n\
                candidates = [\"crun\"]\n\n[log]\nlevel = \"debug\"\n# the end\n";
    let image = Image::with(CONFIG, text);
    let options = format!("--nri engine --runtime nri-crun={CRUN}");
    check_install_and_uninstall(&image, "docker", &options, |image| {
        let now = image.read(CONFIG);
        let added = "\n[runtime.names.nri-crun]\npath = \"/usr/bin/crun\"\n\n[engines]\ndocker = \
             \"engine\"\n";
        assert_eq!(now, format!("{text}{added}"));
    });
    image.run_ok(&format!("install docker {options}"));
    image.edit(CONFIG, "\"debug\"", "\"info\"");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(CONFIG), text.replace("debug", "info"));
    // A configuration that the programs would refuse is not changed.
    image.write(CONFIG, b"no_such_key = 1\n");
    let output = image.refused("install docker");
    assert!(output.contains("config.toml: line 1, column 1: unknown key"), "{output}");
    image.write(CONFIG, b"[runtime.names.nri-crun]\npath = '/opt/crun'\n");
    let output = image.refused(&format!("install docker --runtime nri-crun={CRUN}"));
    assert!(
        output.contains("runtime.names.nri-crun.path exists and is not ours (/opt/crun)"),
        "{output}"
    );
}

#[test]
fn owner_mode_and_links_of_files_stay() {
    let image = Image::with("/srv/docker.json", "{}\n");
    std::fs::set_permissions(image.at("/srv/docker.json"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        // Any user and group other than root.
        std::os::unix::fs::chown(image.at("/srv/docker.json"), Some(7), Some(8)).unwrap();
    }
    std::fs::create_dir_all(image.at("/etc/docker")).unwrap();
    symlink("/srv/docker.json", image.at(FILE)).unwrap();
    check_install_and_uninstall(&image, "docker", "", |image| {
        let now = image.snapshot();
        let (mode, owner, contents) = &now[std::path::Path::new("srv/docker.json")];
        assert_eq!(
            (mode & 0o777, *owner),
            (0o600, if is_root { 7 } else { rustix::process::geteuid().as_raw() })
        );
        assert!(contents.contains(WRAPPER));
        assert!(image.at(FILE).is_symlink());
    });
}

#[test]
fn unusable_docker_files_and_options_are_refused() {
    let check = |text: &str, options: &str, expected: &str| {
        let output = Image::with(FILE, text).refused(&format!("install docker {options}"));
        assert!(output.contains(expected), "{text} {options}: {output}");
    };
    let start = "dockerd does not start with comments or mistakes in this file";
    check("{\n  // no\n}", "", start);
    check("{\"a\": 1,}", "", "daemon.json: key must be a string at line 1 column 9; dockerd");
    check("{\"a\": 1", "", "daemon.json: line 1, column 1: unterminated object");
    check("[]", "", "line 1, column 1: not an object");
    check("{\"runtimes\": {}, \"runtimes\": {}}", "", "daemon.json: \"runtimes\" occurs twice");
    check(
        "{\"runtimes\": {\"nri\": {}, \"nri\": {}}}",
        "",
        "daemon.json: runtimes.nri exists and is not ours ({})",
    );
    check(
        "{\"Runtimes\": {}}",
        "",
        "daemon.json: \"runtimes\" occurs twice, or in another letter case",
    );
    check("{\"runtimes\": [\"nri\"]}", "", "daemon.json: runtimes is not a table or object");
    check(
        "{\"runtimes\": {\"nri\": {\"path\": \"/opt/x\"}}}",
        "",
        "runtimes.nri exists and is not ours ({\"path\":\"/opt/x\"})",
    );
    check(
        "{\"runtimes\": {\"nri\": {\"runtimeType\": \"x\"}}}",
        "",
        "runtimes.nri exists and is not ours",
    );
    check("{}", "--runtime runc=/usr/bin/crun", "docker has a runtime \"runc\" of its own");
    check("{}", "--name runc", "docker has a runtime \"runc\" of its own");
    check("{}", "--name a/b", "\"a/b\" is not a name for a runtime");
    check("{}", "--runtime nri=/usr/bin/crun", "two runtimes are called \"nri\"");
    check(
        "{}",
        "--runtime x=/usr/bin/crun --runtime nri-x=/usr/bin/crun",
        "two runtimes are called \"nri-x\"",
    );
    check("{}", "--runtime x=crun", "crun: a runtime must be named by its absolute path");
    check("{}", "--runtime x=/usr/bin/none", "/usr/bin/none: not an executable file");
    check("{}", "--runtime x=/usr/local/bin/nri-container-runtime", "this is the wrapper itself");
    check("{}", "--wrapper /usr/bin/none", "/usr/bin/none: not an executable file");
    check("{}", "--wrapper ./x", "./x: a runtime must be named by its absolute path");
    let image = Image::with("/usr/local/bin/nri-crun", "another file");
    let output = image.refused(&format!("install docker --runtime nri-crun={CRUN}"));
    assert!(
        output.contains("/usr/local/bin/nri-crun exists and is not a link to the wrapper"),
        "{output}"
    );
    std::fs::remove_file(image.at(WRAPPER)).unwrap();
    assert!(image.refused("install docker").contains("name it with --wrapper"));
    let image = Image::new();
    image.write(RECORD, b"{");
    for command in ["install docker", "uninstall docker"] {
        assert!(image.refused(command).contains("installed.json"));
    }
    image.write(FILE, b"\xff\xfe{\0}\0");
    std::fs::remove_file(image.at(RECORD)).unwrap();
    assert!(image.refused("install docker").contains("daemon.json: not UTF-8"));
    assert!(image.refused("install docker --json").contains("not UTF-8"));
    // Exit code 2: the command line is wrong.
    assert_eq!(image.run("install docker --runtime x").code, 2);
    assert_eq!(image.run("install emacs").code, 2);
}

/// dockerd does not start when a key is in its file and in its flags.
#[test]
fn flags_of_dockerd_that_conflict_are_refused() {
    let unit = "/etc/systemd/system/docker.service.d/x.conf";
    let image = Image::with(
        unit,
        "[Service]\n# --default-runtime=x\nExecStart=\n\
         ExecStart=/usr/bin/dockerd --default-runtime=nvidia\n",
    );
    check_install_and_uninstall(&image, "docker", "", |_| {});
    let output = image.refused("install docker --default");
    assert!(
        output.contains("docker.service.d/x.conf: --default-runtime is a flag of dockerd there"),
        "{output}"
    );
    image.write("/etc/default/docker", b"DOCKER_OPTS=\"--add-runtime x=/y\"\n");
    assert!(
        image.refused("install docker").contains("/etc/default/docker: --add-runtime is a flag")
    );
}

#[test]
fn install_reports_and_switches_dockers_own_nri() {
    let text = "{\n  \"nri-opts\": {\"enable\": true, \"socket-path\": \"/run/x.sock\"}\n}\n";
    let image = Image::with(FILE, text);
    let output = image.run_ok("install docker --dry-run --json");
    assert!(
        output.contains("\"engine_nri\":\"on\"")
            && output.contains("ours adapts its containers as well; --nri ours"),
        "{output}"
    );
    check_install_and_uninstall(&image, "docker", "--nri ours", |image| {
        assert_eq!(
            value(image)["nri-opts"],
            json!({"enable": false, "socket-path": "/run/x.sock"})
        );
        assert!(image.read(CONFIG).contains("[engines]\ndocker = \"ours\"\n"));
    });
    image.run_ok("install docker --nri ours");
    image.run_ok("install docker --nri engine");
    assert_eq!(value(&image)["nri-opts"]["enable"], true);
    assert!(image.read(CONFIG).contains("docker = \"engine\""));
    image.run_ok("uninstall docker");
    assert_eq!(image.read(FILE), text);
    for (version, state) in [("28.5", "none"), ("29.0", "off")] {
        let output = Image::new()
            .run_ok(&format!("install docker --dry-run --json --engine-version {version}"));
        assert!(output.contains(&format!("\"engine_nri\":\"{state}\"")), "{output}");
    }
}

#[test]
fn the_output_names_files_and_commands() {
    let image = Image::with(FILE, "{\n  \"debug\": true\n}\n");
    let output = image.run_ok("install docker --dry-run");
    for part in [
        "/etc/docker/daemon.json: would be changed\n--- /etc/docker/daemon.json\n\
         +++ /etc/docker/daemon.json\n",
        " {\n-  \"debug\": true\n+  \"debug\": true,\n+  \"runtimes\": {\n",
        "systemctl reload docker",
        "nrictl start",
        "docker run --rm --runtime nri IMAGE",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    image.write("/usr/lib/systemd/system/nri-container-runtime.socket", b"[Socket]\n");
    let output: Value =
        serde_json::from_str(&image.run_ok("install docker --json --default")).unwrap();
    assert_eq!(output["changed"], true);
    assert_eq!(output["start"], "systemctl enable --now nri-container-runtime.socket");
    assert_eq!(output["reload"], "systemctl reload docker");
    let removed: Value =
        serde_json::from_str(&image.run_ok("uninstall docker --json --dry-run")).unwrap();
    assert_eq!(removed["reload"], "systemctl restart docker");
    assert_eq!(output["usage"], json!(["docker run --rm IMAGE"]));
    let changed = |path: &str, how: &str| json!({"path": path, "how": how});
    let files = [(RECORD, "created"), (FILE, "changed"), (CONFIG, "created")]
        .map(|(path, how)| changed(path, how));
    assert_eq!(output["files"], json!(files));
}
