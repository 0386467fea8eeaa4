//! Tests of the errors of CRI calls when a plugin refuses a container or a pod.

use super::{Pod, WAIT};
use nri_integration::{engines::*, *};
use serde_json::json;

#[test]
fn a_refused_container_does_not_affect_its_pod() {
    let Some(go_plugin) = go_plugin("cri refusal") else { return };
    if !Containerd::has_cri("cri refusal") {
        return;
    }
    for_each_suite("cri refusal", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let config = json!({"rules": [{"name": "bad", "error": "not today"}]});
        let journal = containerd.launch("10-strict", &go_plugin, &config.to_string());
        let pod = Pod::run(&containerd, "web");
        let good = pod.start("good", &json!({}), &WAIT);
        let bad = pod.create("bad", &json!({}), &WAIT);
        let refused = containerd.try_cri("StartContainer", &json!({"container_id": bad}));
        assert_eq!(refused.code, Some(1));
        for part in ["10-strict", "not today"] {
            assert!(refused.err().contains(part), "{part:?} is not in: {}", refused.err());
        }
        containerd.cri("RemoveContainer", &json!({"container_id": bad}));
        let status = containerd.cri("ContainerStatus", &json!({"container_id": good}));
        // State 1 is CONTAINER_RUNNING.
        assert_eq!(
            status["status"]["state"], 1,
            "the other container of the pod does not run: {status}"
        );
        let pod_id = pod.id.clone();
        pod.remove();
        journal.wait_for("RemovePodSandbox", &pod_id);
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}

#[test]
fn a_refused_pod_is_removed() {
    let Some(go_plugin) = go_plugin("cri refused pod") else { return };
    if !Containerd::has_cri("cri refused pod") {
        return;
    }
    for_each_suite("cri refused pod", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let config = json!({"rules": [{"event": "RunPodSandbox", "error": "no room"}]});
        containerd.launch("10-strict", &go_plugin, &config.to_string());
        let config = json!({
            "metadata": {"name": "web", "uid": "u", "namespace": "team"},
            "linux": {"cgroup_parent": format!("/{}/web", containerd.prefix())}
        });
        let refused = containerd.try_cri("RunPodSandbox", &json!({"config": config}));
        assert_eq!(refused.code, Some(1));
        assert!(refused.err().contains("no room"), "{}", refused.err());
        wait_until("nrid to remove the record", || {
            (containerd.status().unwrap()["containers"] == 0).then_some(())
        });
        // State 0 is SANDBOX_READY.
        let pods = containerd.cri("ListPodSandbox", &json!({"filter": {"state": {"state": 0}}}));
        assert!(pods["items"].as_array().is_none_or(Vec::is_empty), "{pods}");
    });
}
