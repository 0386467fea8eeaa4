//! What the recipes of the cookbook that keep containers from the host let pass, by `nri-rules
//! test`: containers as the engines write them, and ways to get past a recipe.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the `config.json` of a sample.
fn sample(name: &str) -> Value {
    let text = fs::read(file(&format!("containers/{name}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Applies a recipe to a container, and returns what is printed.
fn try_out(recipe: &str, config: &Value, options: &[&str]) -> String {
    let bundle = tempfile::tempdir().unwrap();
    fs::write(bundle.path().join("config.json"), config.to_string()).unwrap();
    let recipe = file(&format!("cookbook/{recipe}.yaml"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_nri-rules"));
    command.arg("test").arg(recipe).arg("--bundle").arg(bundle.path()).args(options);
    let output = command.output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(if text.contains("refused: ") { 4 } else { 0 }));
    text
}

/// Whether a recipe refuses a container by what it says, and not because an expression fails.
fn is_refused(recipe: &str, config: &Value, options: &[&str]) -> bool {
    let text = try_out(recipe, config, options);
    let is_refused = text.contains("refused: ");
    assert!(
        !is_refused
            || text.contains("this host allow")
            || text.contains("not on the list")
            || text.contains("this host does not allow"),
        "{text}"
    );
    is_refused
}

/// A change of a `config.json`.
type Change<'a> = &'a dyn Fn(&mut Value);

#[test]
fn containers_with_the_rights_of_docker_are_not_privileged() {
    for name in ["docker", "podman"] {
        assert!(!is_refused("privileged", &sample(name), &[]), "{name}");
    }
    let mut fewer = sample("docker");
    fewer["process"]["capabilities"] = json!({"bounding": ["CAP_KILL"]});
    assert!(!is_refused("privileged", &fewer, &[]));
    let all = sample("docker-privileged");
    for (image, expected) in [
        ("registry.example.com/node-agent:1", false),
        ("registry.example.com/node-agent", false),
        ("registry.example.com/backup@sha256:0", false),
        ("registry.example.com/node-agent-of-mine", true),
        ("busybox", true),
        ("", true),
    ] {
        assert_eq!(is_refused("privileged", &all, &["--image", image]), expected, "{image}");
    }
}

/// The fact `privileged`, in one spelling, was all that the recipe looked at.
#[test]
fn no_part_of_a_privileged_container_passes() {
    let rule = |value: Value| {
        move |config: &mut Value| {
            let rules = config["linux"]["resources"]["devices"].as_array_mut().unwrap();
            rules.push(value.clone());
        }
    };
    let allow = |kind: &str| rule(json!({"allow": true, "type": kind, "access": "rwm"}));
    let disk = rule(json!({"allow": true, "type": "b", "major": 8, "minor": 0, "access": "r"}));
    let memory = rule(json!({"allow": true, "type": "c", "major": 1, "minor": 1, "access": "rw"}));
    let capability = |set: &'static str| {
        move |config: &mut Value| {
            config["process"]["capabilities"][set] = json!(["CAP_SYS_ADMIN"]);
        }
    };
    let namespace = |kind: &'static str| {
        move |config: &mut Value| {
            let all = config["linux"]["namespaces"].as_array_mut().unwrap();
            all.retain(|own| own["type"] != kind);
        }
    };
    let changes: &[(&str, Change<'_>)] = &[
        ("all block devices", &allow("b")),
        ("all character devices", &allow("c")),
        ("all devices", &allow("a")),
        ("a disk", &disk),
        ("/dev/mem", &memory),
        ("in the bounding set", &capability("bounding")),
        ("in the ambient set", &capability("ambient")),
        ("in the inheritable set", &capability("inheritable")),
        ("no seccomp", &|config| drop(config["linux"]["seccomp"].take())),
        ("a filter that allows all", &|config| {
            config["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW"});
        }),
        ("processes of the host", &namespace("pid")),
        ("network of the host", &namespace("network")),
        ("host names of the host", &namespace("uts")),
        ("IPC of the host", &namespace("ipc")),
        ("mounts of the host", &namespace("mount")),
    ];
    for name in ["docker", "podman"] {
        for (what, change) in changes {
            let mut config = sample(name);
            change(&mut config);
            assert!(is_refused("privileged", &config, &[]), "{name}: {what}");
        }
    }
    let mut filtered = sample("docker-privileged");
    filtered["linux"]["seccomp"] = sample("docker")["linux"]["seccomp"].clone();
    assert!(is_refused("privileged", &filtered, &[]));
}

/// Returns a sample with one more mount.
fn with_mount(name: &str, mount: &Value) -> Value {
    let mut config = sample(name);
    config["mounts"].as_array_mut().unwrap().push(mount.clone());
    config
}

fn bind(source: &str) -> Value {
    json!({"destination": "/x", "type": "bind", "source": source, "options": ["rbind"]})
}

#[test]
fn mounts_of_allowed_directories_and_of_the_engine_pass() {
    for name in ["docker", "podman", "docker-privileged"] {
        assert!(!is_refused("host-mounts", &sample(name), &[]), "{name}");
        let id = "0".repeat(64);
        for source in [
            "/srv/shared",
            "/srv/shared/a/b",
            "/var/lib/docker/volumes/data/_data",
            "/var/lib/containers/storage/volumes/data/_data",
            &format!("/var/lib/docker/containers/{id}/mounts/shm"),
            &format!("/run/containers/storage/overlay-containers/{id}/userdata/run/secrets"),
        ] {
            let config = with_mount(name, &bind(source));
            assert!(!is_refused("host-mounts", &config, &[]), "{name} {source}");
        }
        // For `docker run --init`.
        let mut init = bind("/usr/bin/docker-init");
        assert!(is_refused("host-mounts", &with_mount(name, &init), &[]));
        init["options"] = json!(["rbind", "ro"]);
        assert!(!is_refused("host-mounts", &with_mount(name, &init), &[]));
    }
}

/// The recipe compared texts of sources with those of directories that it knew.
#[test]
fn no_spelling_of_another_directory_passes() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    symlink("/etc", &link).unwrap();
    let link = link.display().to_string();
    let id = "0".repeat(64);
    for source in [
        "/",
        "/etc",
        "//etc",
        "/home/../etc",
        "/proc/self/root/etc",
        "/proc/self/root",
        &link,
        "/srv",
        "/srv/sharedx",
        "/opt",
        "/dev",
        "/dev/null",
        "/proc",
        "/sys",
        "/run",
        "/run/nri-container-runtime",
        "/run/nri-container-runtime/plugins",
        "/run/nri-container-runtime/plugins/nri.sock",
        "/run/docker.sock",
        "/run/user/1000/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/var/lib/docker",
        "/var/lib/docker/volumes",
        "/var/lib/docker/volumes/a",
        "/var/lib/docker/overlay2/a/merged",
        "/var/lib/docker/containers",
        &format!("/var/lib/docker/containers/{id}/config.v2.json"),
        "/var/lib/containers/storage",
        &format!("/var/lib/containers/storage/overlay-containers/{id}/userdata/config.json"),
    ] {
        let config = with_mount("docker", &bind(source));
        assert!(is_refused("host-mounts", &config, &[]), "{source}");
    }
    for option in ["lowerdir=/etc", "lowerdir=/srv/shared:/etc", "upperdir=/etc"] {
        let mount = json!({"destination": "/x", "type": "overlay", "source": "overlay",
            "options": [option]});
        assert!(is_refused("host-mounts", &with_mount("podman", &mount), &[]), "{option}");
    }
    let mut root = sample("podman");
    root["root"]["path"] = "/".into();
    assert!(is_refused("host-mounts", &root, &[]));
    root["root"]["path"] = "/etc".into();
    assert!(is_refused("host-mounts", &root, &[]));
}

/// With `--oom-score-adj`, a container was killed last without the label.
#[test]
fn what_the_kernel_kills_first_is_only_chosen_by_label() {
    for (requested, label, expected) in [
        (json!(-1000), "web", "+ oom_score_adj: 0"),
        (json!(-1000), "critical", "+ oom_score_adj: -500"),
        (json!(-1000), "batch", "+ oom_score_adj: 900"),
        (json!(300), "web", "unchanged"),
        (Value::Null, "web", "unchanged"),
    ] {
        let mut config = sample("docker");
        let process = config["process"].as_object_mut().unwrap();
        process.remove("oomScoreAdj");
        if !requested.is_null() {
            process.insert("oomScoreAdj".to_owned(), requested.clone());
        }
        let label = format!("example.com/priority={label}");
        let text = try_out("oom-priority", &config, &["--label", &label]);
        assert!(text.contains(expected), "{requested} {label}: {text}");
    }
}
