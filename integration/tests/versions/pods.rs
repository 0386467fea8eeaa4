//! Test that plugins on all stub versions receive the events of a pod as containerd's CRI creates
//! it: with a sandbox container and two other containers.

use crate::{runc, versions_with_names};
use nri_integration::*;
use serde_json::json;

/// Expected entry of a journal: event, and id of the container; the id is empty for events of the
/// pod.
type Entry<'a> = (&'a str, &'a str);

fn make_bundle(node: &Node, id: &str, sandbox: &str) -> Bundle {
    let kind = if id == sandbox { "sandbox" } else { "container" };
    let bundle = node
        .bundle(id)
        .annotation(&format!("io.kubernetes.cri.container-type={kind}"))
        .annotation(&format!("io.kubernetes.cri.sandbox-id={sandbox}"))
        .annotation("io.kubernetes.cri.sandbox-name=web")
        .annotation("io.kubernetes.cri.sandbox-namespace=default")
        .annotation(&format!("io.kubernetes.cri.container-name={id}"));
    bundle.arguments(&["/probe", "wait"]).make()
}

/// Returns the events from the creation to the start of a container.
fn creation_events<'a>(version: &Version, id: &'a str) -> Vec<Entry<'a>> {
    let events = [
        "CreateContainer",
        "ValidateContainerAdjustment",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
    ];
    let reported =
        events.into_iter().filter(|e| version.has_validation || !e.starts_with("Validate"));
    reported.map(|event| (event, id)).collect()
}

/// Checks the events of the pod and its containers that a plugin received.
#[track_caller]
fn check(version: &Version, plugin: &External, pod: &str, expected: &[Entry<'_>]) {
    let text = |e: &serde_json::Value, key: &str| e[key].as_str().unwrap_or_default().to_owned();
    let reported: Vec<_> = plugin
        .journal
        .entries_about(pod)
        .iter()
        .map(|e| (text(e, "event"), text(e, "container_id")))
        .collect();
    let expected: Vec<_> =
        expected.iter().map(|(e, c)| ((*e).to_owned(), (*c).to_owned())).collect();
    assert_eq!(reported, expected, "{}", version.name);
}

#[test]
fn each_stub_version_receives_the_events_of_a_pod_with_several_containers() {
    let Some(runtime) = runc("pods of several containers") else { return };
    if versions("pods of several containers").is_empty() {
        return;
    }
    let node = Node::new(runtime);
    node.ctl(&["start"]).success();
    let connect = |round: &str| -> Vec<_> {
        versions_with_names(round)
            .map(|(v, name)| (v, node.connect(&name, &v.program, "{}")))
            .collect()
    };
    let first = connect("first");
    let (pod, a, b) = (node.id("pod"), node.id("a"), node.id("b"));
    let create = |id: &str| {
        node.create(&make_bundle(&node, id, &pod), id).success();
    };
    let end = |id: &str, events: [&str; 2]| {
        let received =
            |event| first.iter().for_each(|(_, plugin)| drop(plugin.journal.wait_for(event, id)));
        node.call(&["kill", id, "TERM"]).success();
        received(events[0]);
        node.call(&["delete", id]).success();
        received(events[1]);
    };
    create(&pod);
    // Plugins are notified of a pod when its sandbox container starts. Before the start, a
    // synchronization does not contain the pod either.
    let between = connect("between");
    for (version, plugin) in &between {
        let synchronized = plugin.journal.wait_for_plugin_event("Synchronize");
        assert_eq!(
            synchronized["pods"],
            json!(null),
            "{}: the synchronization contains a pod that has not started",
            version.name
        );
    }
    node.call(&["start", &pod]).success();
    for id in [&a, &b] {
        create(id);
        node.call(&["start", id]).success();
        // The wrapper returns before plugins have received the events that follow the verb.
        let connected = first.iter().chain(&between);
        connected.for_each(|(_, plugin)| drop(plugin.journal.wait_for("PostStartContainer", id)));
    }
    let second = connect("second");
    for (version, plugin) in &second {
        let synchronized = plugin.journal.wait_for_plugin_event("Synchronize");
        assert_eq!(synchronized["pods"], json!([pod]), "{}", version.name);
        assert_eq!(synchronized["containers"], json!([a, b]), "{}", version.name);
    }
    end(&a, ["StopContainer", "RemoveContainer"]);
    end(&b, ["StopContainer", "RemoveContainer"]);
    end(&pod, ["StopPodSandbox", "RemovePodSandbox"]);
    let removal = [
        ("StopContainer", a.as_str()),
        ("RemoveContainer", &a),
        ("StopContainer", &b),
        ("RemoveContainer", &b),
        ("StopPodSandbox", ""),
        ("RemovePodSandbox", ""),
    ];
    for (version, plugin) in first.iter().chain(&between) {
        plugin.journal.wait_for("RemovePodSandbox", &pod);
        let expected = [
            vec![("RunPodSandbox", "")],
            creation_events(version, &a),
            creation_events(version, &b),
            removal.to_vec(),
        ]
        .concat();
        check(version, plugin, &pod, &expected);
    }
    for (version, plugin) in &second {
        plugin.journal.wait_for("RemovePodSandbox", &pod);
        check(version, plugin, &pod, &removal);
    }
}
