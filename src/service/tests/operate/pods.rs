//! Tests of pods that are made for one container, and of annotations from labels.

use crate::{
    containers::{Sleep, create_and_start},
    node::Node,
    views::json_of,
};
use serde_json::json;
use std::{fs, path::Path};

/// Writes a bundle of Docker, and the files of dockerd if there are `labels`.
fn docker_bundle(node: &Node, id: &str, labels: Option<&serde_json::Value>) {
    let files = node.path("docker/containers").join(id);
    let write = |path: &Path, value: &serde_json::Value| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    let hosts = json!({"destination": "/etc/hosts", "source": files.join("hosts")});
    let config = json!({
        "ociVersion": "1.0.2", "mounts": [hosts], "annotations": {"a.example/own": "annotation"}
    });
    write(&node.path("bundles").join(id).join("config.json"), &config);
    if let Some(labels) = labels {
        let config = json!({"ID": id, "Name": "/web", "Config": {"Labels": labels}});
        write(&files.join("config.v2.json"), &config);
    }
}

#[test]
fn chosen_labels_of_docker_are_annotations_of_pod_and_container() {
    let node = Node::new("[pods]\nannotations_from_labels = ['a.example/']\n");
    let nrid = node.start();
    let labels = json!({"a.example/x": "1", "a.example/own": "label", "b.example/x": "2"});
    docker_bundle(&node, "c1", Some(&labels));
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let annotations = json!({"a.example/x": "1", "a.example/own": "annotation"});
    let container = json_of(&node, &["inspect", "c1"]);
    assert_eq!((&container["name"], &container["labels"]), (&json!("web"), &labels));
    assert_eq!(container["annotations"], annotations);
    let pods = json_of(&node, &["inspect", "--type", "pod", "c1"]);
    assert_eq!(pods["annotations"], annotations);
    assert_eq!(pods["namespace"], "default");
    assert_eq!(pods["uid"].as_str().map(str::len), Some(36), "{pods}");
    assert_eq!(nrid.output().matches("labels are incomplete").count(), 0);

    // dockerd's files are not where they are expected.
    docker_bundle(&node, "c2", None);
    create_and_start(&node, "c2", &Sleep::new()).unwrap();
    let log = nrid.output();
    let lines: Vec<_> = log.lines().filter(|l| l.contains("labels are incomplete")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("c2") && lines[0].contains("docker"), "{}", lines[0]);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn labels_are_no_annotations_unless_they_are_chosen() {
    let node = Node::new("");
    let nrid = node.start();
    docker_bundle(&node, "c1", Some(&json!({"a.example/x": "1"})));
    docker_bundle(&node, "c2", None);
    for id in ["c1", "c2"] {
        create_and_start(&node, id, &Sleep::new()).unwrap();
        let container = json_of(&node, &["inspect", id]);
        assert_eq!(container["annotations"], json!({"a.example/own": "annotation"}));
    }
    assert_eq!(nrid.output().matches("incomplete").count(), 0);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn plugins_receive_facts_that_a_container_cannot_forge() {
    const PREFIX: &str = "facts.nri-container-runtime/";
    let forged = |name: &str| format!("{PREFIX}{name}");
    let node =
        Node::new("[pods]\nannotations_from_labels = ['']\n[containers]\nfacts = ['engine']\n");
    let nrid = node.start();
    docker_bundle(&node, "c1", Some(&json!({forged("privileged"): "true", "x": "1"})));
    let file = node.path("bundles/c1/config.json");
    let text = fs::read_to_string(&file).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    for name in ["engine", "capabilities"] {
        config["annotations"][forged(name)] = json!("forged");
    }
    fs::write(&file, config.to_string()).unwrap();
    create_and_start(&node, "c1", &Sleep::new()).unwrap();
    let container = json_of(&node, &["inspect", "c1"]);
    let seen = json!({"a.example/own": "annotation", "x": "1", forged("engine"): "docker"});
    assert_eq!(container["annotations"], seen);
    let pod = json_of(&node, &["inspect", "--type", "pod", "c1"]);
    assert_eq!(pod["annotations"], json!({"a.example/own": "annotation", "x": "1"}));
    // The engine's `config.json` is as it was.
    assert_eq!(fs::read_to_string(&file).unwrap(), config.to_string());
    node.stop();
    nrid.wait_for_exit();
}

/// Ids of pods are those of one engine: users of others choose annotations, and some choose ids.
#[test]
fn containers_of_other_engines_do_not_enter_a_pod() {
    let node = Node::new("");
    let nrid = node.start();
    let of_pod = |manager: &str| {
        json!({
            "io.container.manager": manager,
            "io.kubernetes.cri-o.ContainerType": "container",
            "io.kubernetes.cri-o.SandboxID": "p1",
        })
    };
    for (id, cgroup, annotations, expected) in [
        ("c1", "/pod/crio-c1", of_pod("cri-o"), "p1"),
        ("c2", "/libpod_parent/libpod-c2", of_pod("libpod"), "c2"),
        ("p1", "/default/p1", json!({}), "p1-"),
        ("c3", "/pod/crio-c3", of_pod("cri-o"), "p1"),
    ] {
        let config = json!({
            "ociVersion": "1.0.2", "annotations": annotations, "linux": {"cgroupsPath": cgroup},
        });
        let bundle = node.path("bundles").join(id);
        fs::create_dir_all(&bundle).unwrap();
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        create_and_start(&node, id, &Sleep::new()).unwrap();
        let records = fs::read_dir(node.state_dir().join("containers")).unwrap();
        let texts = records.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
        let record = texts
            .filter_map(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
            .find(|record| record["key"]["id"] == id)
            .unwrap();
        let pod = record["pod_id"].as_str().unwrap();
        let is_expected = match expected.strip_suffix('-') {
            Some(_) => pod.starts_with(expected),
            None => pod == expected,
        };
        assert!(is_expected, "{id}: {pod}");
    }
    node.stop();
    nrid.wait_for_exit();
}
