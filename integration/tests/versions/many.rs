//! Test of the synchronization with three pods and up to 500 containers, which fit into one message
//! or need several messages. Stubs of v0.7 and later accept several messages. `nrid` disconnects
//! plugins on older stubs and logs the reason; other plugins stay connected.

use crate::versions_with_names;
use nri_integration::*;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, thread};

const PODS: usize = 3;
/// Number of containers with a small `config.json`.
const SMALL: usize = 450;
/// Number of containers with a large `config.json`.
const LARGE: usize = 50;
/// Bytes of environment and annotations in a small and in a large `config.json`. All small
/// files together fit into one message, which is limited to 4 MiB; all large files together do not.
const SIZES: [usize; 2] = [1000, 100_000];

/// Creates a container in the pod `sandbox`, with `size` bytes of environment and annotations.
fn create(node: &Node, id: &str, sandbox: &str, size: usize) {
    let kind = if id == sandbox { "sandbox" } else { "container" };
    let fill = format!("FILL={}", "e".repeat(size / 2));
    let config = json!({
        "ociVersion": "1.0.2",
        "process": {"args": ["true"], "cwd": "/", "env": [fill]},
        "root": {"path": "rootfs"},
        "annotations": {
            "io.kubernetes.cri.container-type": kind,
            "io.kubernetes.cri.sandbox-id": sandbox,
            "example.org/fill": "a".repeat(size / 2),
        },
        "linux": {},
    });
    let bundle = node.path("bundles").join(id);
    fs::create_dir(&bundle).unwrap();
    fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    node.call(&["create", "--bundle", bundle.to_str().unwrap(), id]).success();
}

/// Creates containers in all pods, four at a time.
fn create_all(node: &Node, ids: &[String], pods: &[String], size: usize) {
    thread::scope(|scope| {
        for part in ids.chunks(ids.len().div_ceil(4)) {
            scope.spawn(move || {
                for (n, id) in part.iter().enumerate() {
                    create(node, id, &pods[n % pods.len()], size);
                }
            });
        }
    });
}

/// Returns the texts of a list, which must have no text twice.
fn unique_texts(list: &Value) -> BTreeSet<String> {
    let texts = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let found: BTreeSet<_> = texts.iter().map(|t| t.as_str().unwrap().to_owned()).collect();
    assert_eq!(found.len(), texts.len(), "the synchronization contains an id twice");
    found
}

#[test]
fn each_stub_version_gets_a_synchronization_in_several_messages_or_is_disconnected() {
    if versions("500 containers").is_empty() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&fake_runtime(dir.path()));
    node.ctl(&["start"]).success();
    let pods: Vec<_> = (0..PODS).map(|n| node.id(&format!("pod{n}"))).collect();
    for pod in &pods {
        create(&node, pod, pod, SIZES[0]);
        node.call(&["start", pod]).success();
    }
    let ids: Vec<_> = (0..SMALL + LARGE).map(|n| node.id(&n.to_string())).collect();
    create_all(&node, &ids[..SMALL], &pods, SIZES[0]);
    let check = |version: &Version, plugin: &External, known: &[String]| {
        let reported = plugin.journal.wait_for_plugin_event("Synchronize");
        assert!(
            unique_texts(&reported["pods"]).iter().eq(pods.iter()),
            "{}: {}",
            version.name,
            reported["pods"]
        );
        let expected: BTreeSet<_> = known.iter().cloned().collect();
        assert_eq!(unique_texts(&reported["containers"]), expected, "{}", version.name);
    };
    for (version, name) in versions_with_names("one-message") {
        check(version, &node.connect(&name, &version.program, "{}"), &ids[..SMALL]);
    }

    create_all(&node, &ids[SMALL..], &pods, SIZES[1]);
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for (version, name) in versions_with_names("several-messages") {
        let plugin = node.connect(&name, &version.program, "{}");
        if version.accepts_split_synchronization {
            check(version, &plugin, &ids);
            accepted.push((version, name, plugin));
        } else {
            plugin.journal.wait_for_plugin_event("Closed");
            wait_until(format_args!("the reason in the log for {name}"), || {
                let is_reason =
                    |l: &str| l.contains(&name) && l.contains("too old for more than one");
                node.log().lines().any(is_reason).then_some(())
            });
            refused.push((name, plugin));
        }
    }
    let active: BTreeSet<_> = wait_until("the plugins to be active", || {
        let status = node.status().unwrap();
        let plugins = status["plugins"].as_array().unwrap().clone();
        let active = plugins.iter().filter(|p| p["state"] == "active");
        let names: BTreeSet<_> = active.map(|p| p["name"].as_str().unwrap().to_owned()).collect();
        (names.len() == accepted.len()).then_some(names)
    });
    assert_eq!(active, accepted.iter().map(|(_, name, _)| name.clone()).collect());
    let last = node.id("last");
    create(&node, &last, &pods[0], SIZES[0]);
    for (_, _, plugin) in &accepted {
        plugin.journal.wait_for("CreateContainer", &last);
    }
    for (name, plugin) in &refused {
        assert_eq!(
            plugin.journal.events(&last),
            [""; 0],
            "the disconnected {name} received events"
        );
    }
}
