//! A pod of a sandbox container and two others, as containerd's CRI writes them, followed by all
//! versions at once.

use crate::{named, runc};
use nri_integration::*;
use serde_json::json;

/// What is expected of a journal's entries about a pod: event and container.
type Told<'a> = (&'a str, &'a str);

fn made(node: &Node, id: &str, sandbox: &str) -> Bundle {
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

fn birth<'a>(version: &Version, id: &'a str) -> Vec<Told<'a>> {
    let events = [
        "CreateContainer",
        "ValidateContainerAdjustment",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
    ];
    let reported = events.into_iter().filter(|e| version.validates || !e.starts_with("Validate"));
    reported.map(|event| (event, id)).collect()
}

#[track_caller]
fn check(version: &Version, plugin: &External, pod: &str, expected: &[Told<'_>]) {
    let text = |e: &serde_json::Value, key: &str| e[key].as_str().unwrap_or_default().to_owned();
    let reported: Vec<_> = plugin
        .journal
        .about(pod)
        .iter()
        .map(|e| (text(e, "event"), text(e, "container_id")))
        .collect();
    let expected: Vec<_> =
        expected.iter().map(|(e, c)| ((*e).to_owned(), (*c).to_owned())).collect();
    assert_eq!(reported, expected, "{}", version.name);
}

#[test]
fn a_pod_with_several_containers_reaches_each_version() {
    let Some(runtime) = runc("pods of several containers") else { return };
    if versions("pods of several containers").is_empty() {
        return;
    }
    let node = Node::new(runtime);
    node.ctl(&["start"]).success();
    let connect = |round: &str| -> Vec<_> {
        named(round).map(|(v, name)| (v, node.connect(&name, &v.program, "{}"))).collect()
    };
    let first = connect("first");
    let (pod, a, b) = (node.id("pod"), node.id("a"), node.id("b"));
    let created = |id: &str| {
        node.create(&made(&node, id, &pod), id).success();
    };
    let end = |id: &str, events: [&str; 2]| {
        let received =
            |event| first.iter().for_each(|(_, plugin)| drop(plugin.journal.wait_for(event, id)));
        node.call(&["kill", id, "TERM"]).success();
        received(events[0]);
        node.call(&["delete", id]).success();
        received(events[1]);
    };
    created(&pod);
    // Between create and start of its sandbox a pod is nothing that anybody was told of, so nothing
    // to be synchronized with either.
    let between = connect("between");
    for (version, plugin) in &between {
        let synchronized = plugin.journal.wait_for_own("Synchronize");
        assert_eq!(
            synchronized["pods"],
            json!(null),
            "{}: the pod is told at its start",
            version.name
        );
    }
    node.call(&["start", &pod]).success();
    for id in [&a, &b] {
        created(id);
        node.call(&["start", id]).success();
        // Post-events do not hold up the caller.
        let all = first.iter().chain(&between);
        all.for_each(|(_, plugin)| drop(plugin.journal.wait_for("PostStartContainer", id)));
    }
    let second = connect("second");
    for (version, plugin) in &second {
        let synchronized = plugin.journal.wait_for_own("Synchronize");
        assert_eq!(synchronized["pods"], json!([pod]), "{}", version.name);
        assert_eq!(synchronized["containers"], json!([a, b]), "{}", version.name);
    }
    end(&a, ["StopContainer", "RemoveContainer"]);
    end(&b, ["StopContainer", "RemoveContainer"]);
    end(&pod, ["StopPodSandbox", "RemovePodSandbox"]);
    let death = [
        ("StopContainer", a.as_str()),
        ("RemoveContainer", &a),
        ("StopContainer", &b),
        ("RemoveContainer", &b),
        ("StopPodSandbox", ""),
        ("RemovePodSandbox", ""),
    ];
    for (version, plugin) in first.iter().chain(&between) {
        plugin.journal.wait_for("RemovePodSandbox", &pod);
        let whole =
            [vec![("RunPodSandbox", "")], birth(version, &a), birth(version, &b), death.to_vec()]
                .concat();
        check(version, plugin, &pod, &whole);
    }
    for (version, plugin) in &second {
        plugin.journal.wait_for("RemovePodSandbox", &pod);
        check(version, plugin, &pod, &death);
    }
}
