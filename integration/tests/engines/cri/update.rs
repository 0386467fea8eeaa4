//! Tests of updates by CRI calls. For each update, containerd sends all resources of the container
//! to the runtime, including resources that the CRI request does not contain.

use super::{Pod, WAIT, member_events, pid, remove};
use nri_integration::{engines::*, *};
use serde_json::json;

#[test]
fn a_cri_update_of_one_field_keeps_what_plugins_set() {
    if !Containerd::has_cri("cri update") {
        return;
    }
    for_each_suite("cri update", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let cpuset = if has_cpusets() { "cpus = '0'\n" } else { "" };
        let config = format!("[create.resources]\npids = 66\n{cpuset}");
        let journal = containerd.launch("10-adjust", &Program::Adjust, &config);
        let pod = Pod::run(&containerd, "web");
        let id = pod.start(
            "one",
            &json!({"memory_limit_in_bytes": 67_108_864, "cpu_shares": 512}),
            &WAIT,
        );
        let process = containerd.process(pid(&containerd, &id));
        let check = |memory: &str, quota: &str| {
            assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), memory);
            assert!(process.limit("cpu", "cpu.cfs_quota_us", "cpu.max").starts_with(quota));
            assert_eq!(process.limit("pids", "pids.max", "pids.max"), "66");
            if has_cpusets() {
                assert_eq!(process.limit("cpuset", "cpuset.cpus", "cpuset.cpus"), "0");
            }
        };
        let unlimited = if is_cgroup_v2() { "max" } else { "-1" };
        check("67108864", unlimited);
        let update = |resources: serde_json::Value| {
            let request = json!({"container_id": id, "linux": resources});
            containerd.cri("UpdateContainerResources", &request);
        };
        update(json!({"memory_limit_in_bytes": 50_331_648}));
        check("50331648", unlimited);
        update(json!({"cpu_quota": 20000, "cpu_period": 100_000}));
        check("50331648", "20000");
        remove(&containerd, &id);
        journal.wait_for("RemoveContainer", &id);
        let updated = ["UpdateContainer", "PostUpdateContainer"];
        assert_eq!(journal.events(&id), member_events(&[updated, updated].concat()));
        pod.remove();
    });
}

#[test]
fn a_plugin_can_update_a_running_cri_container() {
    let Some(go_plugin) = go_plugin("cri plugin's update") else { return };
    if !Containerd::has_cri("cri plugin's update") {
        return;
    }
    for_each_suite("cri plugin's update", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        containerd.ctl(&["start"]).success();
        let mut plugin = containerd.connect("10-go", &go_plugin, "{}");
        let pod = Pod::run(&containerd, "web");
        let id = pod.start("one", &json!({"memory_limit_in_bytes": 67_108_864}), &WAIT);
        let process = containerd.process(pid(&containerd, &id));
        let resources = json!({"memory": {"limit": {"value": 33_554_432}}, "pids": {"limit": 44}});
        plugin.send(&json!({"update": [{"containerId": id, "linux": {"resources": resources}}]}));
        let done = plugin.journal.wait_for_plugin_event("UpdateContainers");
        assert!(done["failed"].is_null() && done["error"].is_null(), "{done}");
        assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), "33554432");
        // The plugin's values stay effective after an engine's update of another field.
        let request = json!({"container_id": id, "linux": {"cpu_shares": 512}});
        containerd.cri("UpdateContainerResources", &request);
        assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), "33554432");
        assert_eq!(process.limit("pids", "pids.max", "pids.max"), "44");
        pod.remove();
    });
}
