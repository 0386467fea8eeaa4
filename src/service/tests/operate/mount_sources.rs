//! Tests of the probe that resolves sources of mounts, in a mount namespace with volumes, overlays
//! and bind mounts as engines make them.

use rustix::process::geteuid;
use serde_json::{Value, json};
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// Makes mounts below a directory, in a mount namespace of the test's own; `$D` is the directory.
const MOUNTS: &str = "
    set -e
    D=$1
    mount -t tmpfs host $D/host
    cd $D/host
    mkdir -p etc srv/shared srv/mnt/inner volumes/bind/_data volumes/disk/_data \\
        volumes/layers/_data volumes/kernel/_data volumes/memory/_data volumes/s/_data \\
        volumes/ov/_data credentials/of/a/service \\
        storage/a/diff storage/b/diff storage/c/diff storage/c/work storage/c/merged storage/l \\
        over/up over/work over/merge foreign rootfs plain
    ln -s ../a/diff storage/l/A
    touch etc/passwd storage/a/diff/file
    mount --bind etc volumes/bind/_data
    mount -t devpts server:/export volumes/disk/_data
    mount -t devpts $D/host/srv/shared volumes/kernel/_data
    mount -t tmpfs tmpfs volumes/memory/_data
    mount -t tmpfs secrets credentials/of/a/service
    mkdir credentials/of/a/service/key
    mount --bind credentials/of/a/service volumes/s/_data
    mount --bind etc srv/mnt/inner
    mount -t overlay overlay -o lowerdir=$D/host/etc,upperdir=$D/host/over/up,\
workdir=$D/host/over/work $D/host/over/merge
    mount --bind over/merge volumes/layers/_data
    cd storage
    mount -t overlay overlay -o \
lowerdir=l/A:b/diff,upperdir=c/diff,workdir=c/work $D/host/storage/c/merged
    cd ..
    cp -r etc $D/etc
    mkdir -p srv/x/up srv/x/work
    (cd $D && mount -t overlay overlay -o \
lowerdir=etc,upperdir=$D/host/srv/x/up,workdir=$D/host/srv/x/work $D/host/volumes/ov/_data)
    mount -t tmpfs other foreign
    mkdir -p foreign/up foreign/work
    mount -t overlay overlay -o lowerdir=$D/host/etc,upperdir=$D/host/foreign/up,\
workdir=$D/host/foreign/work $D/host/rootfs
    exec \"$2\" --probe
";

/// Resolves sources, each a path with its way and access.
fn resolve(dir: &Path, sources: &[(&str, &str, &str)]) -> Vec<Value> {
    let source = |(path, way, access): &(&str, &str, &str)| {
        let path = format!("{}/host/{path}", dir.display());
        json!({"path": path, "way": way, "access": access})
    };
    let request = json!({
        "sources": [], "nodes": [], "infra": null, "namespaces": [],
        "mount_sources": sources.iter().map(source).collect::<Vec<_>>(),
    });
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", MOUNTS, "sh"])
        .arg(dir)
        .arg(env!("CARGO_BIN_EXE_nrid"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It may enter all file systems: each permission is a line.
    let input = format!("{request}{}", "\n".repeat(4096));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let asked = said.lines().filter(|line| line.starts_with("{\"Enters\":")).count();
    // Each source is on a file system of the test's own, below that of its directory.
    assert!(asked > sources.len(), "{said}");
    let reply: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    reply["Replies"]["mount_sources"].as_array().unwrap().clone()
}

#[test]
fn a_source_is_followed_through_mounts_to_where_its_files_are() {
    if !geteuid().is_root() {
        println!("skipped: only root can make mounts");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    std::fs::create_dir(dir.join("host")).unwrap();
    let sources = [
        ("volumes/bind/_data", "RecursiveBind", "Write"),
        ("volumes/bind/_data/passwd", "Bind", "Read"),
        ("volumes/disk/_data", "RecursiveBind", "Write"),
        ("volumes/kernel/_data", "RecursiveBind", "Write"),
        ("volumes/memory/_data", "RecursiveBind", "Write"),
        ("volumes/s/_data/key", "Bind", "Write"),
        ("credentials", "RecursiveBind", "Read"),
        ("over/merge", "RecursiveBind", "Write"),
        ("volumes/layers/_data", "RecursiveBind", "Read"),
        ("srv/mnt", "RecursiveBind", "Read"),
        ("srv/mnt", "Bind", "Read"),
        ("srv", "RecursiveBind", "ReadBelow"),
        ("storage/c/merged", "Root", "Write"),
        ("storage/c/merged", "Bind", "Write"),
        ("rootfs", "Root", "Write"),
        ("plain", "Root", "Write"),
        ("volumes/bind/_data", "Root", "Write"),
    ];
    let found = resolve(&dir, &sources);
    let at = |path: &str| format!("{}/host/{path}", dir.display());
    let of = |kind: &str, files: &[(&str, bool)]| -> Vec<Value> {
        let files = files.iter().map(|(path, writable)| {
            let name = if path.ends_with("passwd") { "file" } else { "directory" };
            json!({"real": at(path), "writable": writable, "kind": kind, "type": name})
        });
        files.collect()
    };
    let layers =
        |writable| of("overlay", &[("etc", false), ("over/up", writable), ("over/work", writable)]);
    let device = |name: &str| json!({"real": name, "writable": true, "kind": "device", "type": ""});
    let image = ["storage/a/diff", "storage/b/diff"].map(|layer| (layer, false));
    let own = ["storage/c/diff", "storage/c/work"].map(|layer| (layer, true));
    let expected = [
        of("bind", &[("etc", true)]),
        of("bind", &[("etc/passwd", false)]),
        vec![device("server:/export")],
        vec![device("devpts")],
        of("bind", &[("volumes/memory/_data", true)]),
        of("bind", &[("credentials/of/a/service/key", true)]),
        of("bind", &[("credentials", true)]),
        layers(true),
        layers(false),
        of("bind", &[("srv/mnt", true), ("etc", true)]),
        of("bind", &[("srv/mnt", false)]),
        of("bind", &[("srv", false), ("etc", false)]),
        Vec::new(),
        of("overlay", &[image, own].concat()),
        of("overlay", &[("etc", false), ("foreign/up", true), ("foreign/work", true)]),
        of("root", &[("plain", true)]),
        of("root", &[("etc", true)]),
    ];
    for ((source, found), expected) in sources.iter().zip(&found).zip(expected) {
        assert_eq!(*found, json!({"Ok": expected}), "{source:?}");
    }
    // Relative to the working directory of whoever has mounted it.
    for way in ["RecursiveBind", "Root"] {
        let found = resolve(&dir, &[("volumes/ov/_data", way, "Write")]);
        let error = found[0]["Err"].as_str().unwrap();
        assert!(error.contains("unknown layers"), "{error}");
    }
}
