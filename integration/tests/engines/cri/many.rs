//! Test of pods that are created and removed concurrently.

use super::{Pod, WAIT, member_events, remove};
use nri_integration::{engines::*, *};
use serde_json::json;
use std::thread;

#[test]
fn concurrent_pods_have_separate_events() {
    if !Containerd::has_cri("cri many") {
        return;
    }
    for_each_suite("cri many", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch(
            "10-adjust",
            &Program::Adjust,
            "[create]\nenv = { set = { A = 'b' } }\n",
        );
        let names = ["web", "db", "cache", "queue"];
        thread::scope(|scope| {
            for name in names {
                let (containerd, journal) = (&containerd, &journal);
                scope.spawn(move || {
                    let pod = Pod::run(containerd, name);
                    let ids = ["one", "two"].map(|c| pod.start(c, &json!({}), &WAIT));
                    for id in &ids {
                        let script = format!("test $(hostname).$A = {name}.b && exit 5");
                        let exec = json!({"container_id": id, "cmd": ["/bin/sh", "-c", script]});
                        assert_eq!(containerd.cri("ExecSync", &exec)["exit_code"], 5);
                        remove(containerd, id);
                    }
                    let pod_id = pod.id.clone();
                    pod.remove();
                    journal.wait_for("RemovePodSandbox", &pod_id);
                    for id in &ids {
                        assert_eq!(journal.events(id), member_events(&[]));
                    }
                    let received = journal.events(&pod_id);
                    // Three events of the pod, and those of its two containers.
                    assert_eq!(received.len(), 3 + 2 * member_events(&[]).len(), "{received:?}");
                    assert_eq!(
                        (received.first(), received.last()),
                        (Some(&"RunPodSandbox".to_owned()), Some(&"RemovePodSandbox".to_owned()))
                    );
                });
            }
        });
        assert_eq!(containerd.status().unwrap()["containers"], 0);
        wait_until("the last pod to be removed", || {
            (containerd.status()?["pods"] == 0).then_some(())
        });
    });
}
