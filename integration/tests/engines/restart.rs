//! Tests of restarts of containerd and of `nrid` while containers run.

use crate::{
    cri::{Pod, WAIT, member_events, remove},
    ctr::{SET_ENV_A, delete_task, kill_and_delete, pid, run},
};
use nri_integration::{engines::*, *};
use rustix::process::Signal;
use serde_json::json;

#[test]
fn containers_survive_a_restart_of_containerd_and_each_stop_is_notified_once() {
    for_each_suite("containerd restarts, ctr", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch("10-adjust", &Program::Adjust, SET_ENV_A);
        let (running, exited) = (containerd.id("running"), containerd.id("exited"));
        run(&containerd, &["--detach"], &running, &["/bin/sleep", "1000"]).success();
        run(&containerd, &["--detach"], &exited, &["/bin/sleep", "1000"]).success();
        let (running_pid, exited_pid) = (pid(&containerd, &running), pid(&containerd, &exited));
        containerd.halt();
        assert!(Process(running_pid).is_alive(), "the container ended with containerd");
        // This container exits while containerd does not run.
        Process(exited_pid).signal(Signal::KILL);
        journal.wait_for("StopContainer", &exited);
        containerd.resume();
        delete_task(&containerd, &exited);
        journal.wait_for("RemovePodSandbox", &exited);
        assert_eq!(journal.events(&exited), life_cycle(&[]));
        assert_eq!(pid(&containerd, &running), running_pid);
        kill_and_delete(&containerd, &journal, &running);
        journal.wait_for("RemovePodSandbox", &running);
        assert_eq!(journal.events(&running), life_cycle(&[]));
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}

#[test]
fn pods_survive_a_restart_of_containerd_and_nrid() {
    if !Containerd::has_cri("containerd restarts, cri") {
        return;
    }
    for_each_suite("containerd restarts, cri", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let config = "[create.resources]\nmemory = 100663296\n";
        let journal = containerd.launch("10-adjust", &Program::Adjust, config);
        let pod = Pod::run(&containerd, "web");
        let id = pod.start("one", &json!({"memory_limit_in_bytes": 67_108_864}), &WAIT);
        let process = containerd.process(crate::cri::pid(&containerd, &id));
        containerd.halt();
        containerd.ctl(&["stop"]).success();
        containerd.resume();
        // The wrapper's call for this update starts the next nrid, which reads the records.
        // containerd sends all resources of the container, including the memory limit of 64 MiB
        // from the creation. A value that the engine only repeats is not a change, so the plugin's
        // limit must stay.
        let request =
            json!({"container_id": id, "linux": {"cpu_quota": 20000, "cpu_period": 100_000}});
        containerd.cri("UpdateContainerResources", &request);
        assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), "100663296");
        assert!(process.limit("cpu", "cpu.cfs_quota_us", "cpu.max").starts_with("20000"));
        let another = pod.start("two", &json!({}), &WAIT);
        remove(&containerd, &id);
        let pod_id = pod.id.clone();
        pod.remove();
        journal.wait_for("RemovePodSandbox", &pod_id);
        let between = ["Synchronize", "UpdateContainer", "PostUpdateContainer"];
        assert_eq!(journal.events(&id), member_events(&between));
        assert_eq!(journal.events(&another), member_events(&[]));
        let of_pod: Vec<_> =
            journal.events(&pod_id).into_iter().filter(|e| e.contains("Pod")).collect();
        assert_eq!(of_pod, ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}
