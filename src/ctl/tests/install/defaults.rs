//! `uninstall` restores a default runtime only if the engine still has that runtime: an engine does
//! not start with a default runtime that is missing.

use crate::image::{CRUN, Image};

const DOCKER: &str = "/etc/docker/daemon.json";
const CONTAINERD: &str = "/etc/containerd/config.toml";
const CRI: &str = "plugins.\"io.containerd.grpc.v1.cri\".containerd";
const CRIO: &str = "/etc/crio/crio.conf.d/50-nvidia.conf";
const PODMAN: &str = "/etc/containers/containers.conf";

/// Returns the path and the text of a file whose default runtime is `nvidia`, and the part of the
/// text that defines this runtime.
fn with_nvidia(engine: &str) -> (&'static str, String, String) {
    let json = |file| {
        let runtime = "\n    \"nvidia\": {\"path\": \"/n\"}\n  ";
        let text = format!(
            "{{\n  \"default-runtime\": \"nvidia\",\n  \"runtimes\": {{{runtime}}},\n  \"x\": 1\n\
             }}\n"
        );
        (file, text, runtime.to_owned())
    };
    let toml =
        |file, head: String, runtime: &str| (file, format!("{head}{runtime}"), runtime.to_owned());
    match engine {
        "docker" => json(DOCKER),
        "isulad" => json("/etc/isulad/daemon.json"),
        "containerd" => toml(
            CONTAINERD,
            format!("version = 2\n[{CRI}]\n  default_runtime_name = \"nvidia\"\n"),
            &format!("[{CRI}.runtimes.nvidia]\n  runtime_type = \"io.containerd.runc.v2\"\n"),
        ),
        "crio" => toml(
            CRIO,
            "[crio.runtime]\ndefault_runtime = \"nvidia\"\n".to_owned(),
            "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/n\"\n",
        ),
        _ => toml(
            PODMAN,
            "[engine]\nruntime = \"nvidia\"\n".to_owned(),
            "[engine.runtimes]\nnvidia = [\"/n\"]\n",
        ),
    }
}

const ENGINES: [&str; 5] = ["docker", "isulad", "containerd", "crio", "podman"];

#[test]
fn a_default_is_restored_only_with_its_runtime() {
    for engine in ENGINES {
        let (file, text, runtime) = with_nvidia(engine);
        let install = format!("install {engine} --default --engine-config {file}");
        let image = Image::with(file, &text);
        image.run_ok(&install);
        image.run_ok(&format!("uninstall {engine}"));
        assert_eq!(image.read(file), text, "{engine}");
        image.run_ok(&install);
        let removed = match runtime.trim().strip_suffix('}') {
            Some(json) => format!("{json}}},"),
            // In Podman's file, our runtime is in the same table, so the table's header stays.
            None => runtime.trim_start_matches("[engine.runtimes]\n").to_owned(),
        };
        image.edit(file, &removed, "");
        let output = image.run_ok(&format!("uninstall {engine}"));
        assert!(
            output.contains("replaced \"nvidia\", which no longer exists: removed"),
            "{engine}: {output}"
        );
        assert!(!image.read(file).contains("nvidia"), "{engine}: {}", image.read(file));
        assert!(!image.read(file).contains("nri"), "{engine}: {}", image.read(file));
    }
}

/// One file names the default runtime, and stays as it is. Another file defines this runtime, until
/// the administrator removes it there.
#[test]
fn a_default_is_restored_with_a_runtime_of_another_file() {
    let file = "/etc/containerd/conf.d/50-default.toml";
    let default = "  default_runtime_name = \"nvidia\"\n";
    let text = format!("version = 2\n[{CRI}]\n{default}");
    for is_removed in [false, true] {
        let head = "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n";
        let runtime = format!("[{CRI}.runtimes.nvidia]\nruntime_type = \"x\"\n");
        let image = Image::with(CONTAINERD, &format!("{head}{runtime}"));
        image.write(file, text.as_bytes());
        image.run_ok("install containerd --default");
        assert!(image.read(file).contains("default_runtime_name = \"nri\""));
        if is_removed {
            image.write(CONTAINERD, head.as_bytes());
        }
        image.run_ok("uninstall containerd");
        let expected = if is_removed { text.replace(default, "") } else { text.clone() };
        assert_eq!(image.read(file), expected);
    }
}

/// Engines accept built-in runtimes, shims and paths as defaults without an entry in a file.
#[test]
fn a_default_that_needs_no_entry_is_restored() {
    for (engine, name) in [
        ("docker", "runc"),
        ("docker", "io.containerd.kata.v2"),
        ("docker", "/opt/containerd-shim-x-v1"),
        ("docker", ""),
        ("podman", "crun"),
        ("podman", CRUN),
        ("crio", "crun"),
        ("containerd", "runc"),
    ] {
        let (file, text, runtime) = with_nvidia(engine);
        let text = text.replace(&runtime, "").replace("\"nvidia\"", &format!("{name:?}"));
        let image = Image::with(file, &text);
        image.run_ok(&format!("install {engine} --default --engine-config {file}"));
        image.run_ok(&format!("uninstall {engine}"));
        assert_eq!(image.read(file).trim_end(), text.trim_end(), "{engine} {name}");
    }
}

#[test]
fn a_default_that_was_deleted_stays_deleted() {
    for engine in ENGINES {
        let (file, text, _) = with_nvidia(engine);
        let install = format!("install {engine} --default --engine-config {file}");
        let image = Image::with(file, &text);
        image.run_ok(&install);
        let now = image.read(file);
        let line =
            |l: &&str| l.contains("untime") && l.ends_with("\"nri\"") || l.ends_with("\"nri\",");
        let line = now.lines().find(line).unwrap();
        image.edit(file, &format!("{line}\n"), "");
        image.run_ok(&install);
        assert!(
            image.read(file).contains(line.trim_end_matches(',').trim_start()),
            "{engine}: {}",
            image.read(file)
        );
        image.run_ok(&format!("uninstall {engine}"));
        // Not even the one of before the first installation.
        let now = image.read(file);
        assert!(!now.contains("default") && !now.contains("\nruntime = "), "{engine}: {now}");
        assert!(now.contains("nvidia") && !now.contains("nri"), "{engine}: {now}");
    }
}
