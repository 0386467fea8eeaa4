//! Restarts of containerd and `nrid` while containers run.

use crate::{
    cri::{Pod, WAIT, member, remove},
    ctr::{A_IS_B, delete_task, end, pid, run},
};
use nri_integration::{engines::*, *};
use rustix::process::Signal;
use serde_json::json;

#[test]
fn containers_survive_a_restart_of_containerd_and_stop_once() {
    for_each_suite("containerd restarts, ctr", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch("10-adjust", &Program::Adjust, A_IS_B);
        let (stays, ends) = (containerd.id("stays"), containerd.id("ends"));
        run(&containerd, &["--detach"], &stays, &["/bin/sleep", "1000"]).success();
        run(&containerd, &["--detach"], &ends, &["/bin/sleep", "1000"]).success();
        let (stays_as, ends_as) = (pid(&containerd, &stays), pid(&containerd, &ends));
        containerd.halt();
        assert!(Process(stays_as).is_alive());
        // The container exits while no containerd runs.
        Process(ends_as).signal(Signal::KILL);
        journal.wait_for("StopContainer", &ends);
        containerd.resume();
        delete_task(&containerd, &ends);
        journal.wait_for("RemovePodSandbox", &ends);
        assert_eq!(journal.events(&ends), life_cycle(&[]));
        assert_eq!(pid(&containerd, &stays), stays_as);
        end(&containerd, &journal, &stays);
        journal.wait_for("RemovePodSandbox", &stays);
        assert_eq!(journal.events(&stays), life_cycle(&[]));
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
        // The next call of the wrapper starts the next nrid, which reads the records. containerd
        // sends all resources again, also the memory limit of its own request.
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
        assert_eq!(journal.events(&id), member(&between));
        assert_eq!(journal.events(&another), member(&[]));
        let of_pod: Vec<_> =
            journal.events(&pod_id).into_iter().filter(|e| e.contains("Pod")).collect();
        assert_eq!(of_pod, ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}
