//! Tests of the life cycles of containers that `ctr` starts: the events that plugins receive, and
//! the adjusted values in the kernel.

use super::{delete_task, kill_and_delete, pid, run};
use nri_integration::{engines::*, *};
use serde_json::{Value, json};

/// Returns the configuration of a plugin that sets a variable, a mount, an rlimit and resources,
/// each of which can be read from the kernel or in the container.
fn plugin_configuration(node: &Node) -> String {
    let data = node.path("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("file"), "from a plugin\n").unwrap();
    format!(
        "[create]
env = {{ set = {{ A = 'b' }} }}
[[create.mounts]]
destination = '/data'
source = {data:?}
type = 'bind'
options = ['rbind', 'ro']
[[create.rlimits]]
type = 'RLIMIT_NOFILE'
hard = 1024
soft = 512
[create.resources]
memory = 67108864
pids = 66
{}",
        if has_cpusets() { "cpus = '0'\nmems = '0'\n" } else { "" }
    )
}

/// Returns the members of a JSON object.
fn members(value: &Value) -> Vec<(String, Value)> {
    value.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[test]
fn a_ctr_container_is_adjusted_and_its_events_arrive_in_order() {
    for_each_suite("ctr life cycle", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal =
            containerd.launch("10-adjust", &Program::Adjust, &plugin_configuration(&containerd));
        containerd.ctl(&["start"]).success();
        let go_plugin = go_plugin("ctr life cycle, Go plugin")
            .map(|go_plugin| containerd.connect("05-go", &go_plugin, "{}"));
        let id = containerd.id("c");
        let limits = ["--memory-limit", "50331648", "--label", "app=web", "--env", "OWN=1"];
        let options = [&["--detach"], &limits[..]].concat();
        run(&containerd, &options, &id, &["/bin/sleep", "1000"]).success();

        let process = containerd.process(pid(&containerd, &id));
        assert_eq!(process.env("A").as_deref(), Some("b"));
        assert_eq!(process.env("OWN").as_deref(), Some("1"));
        assert_eq!(process.rlimit("Max open files"), Some(("512".to_owned(), "1024".to_owned())));
        let mount = process.mount("/data").expect("the plugin's mount");
        assert!(mount.contains("ro"), "{mount}");
        assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), "67108864");
        assert_eq!(process.limit("pids", "pids.max", "pids.max"), "66");
        if has_cpusets() {
            assert_eq!(process.limit("cpuset", "cpuset.cpus", "cpuset.cpus"), "0");
        }
        let script = "test \"$(cat /data/file)\" = 'from a plugin' && exit 9";
        let inside =
            containerd.ctr(&["tasks", "exec", "--exec-id", "e", &id, "/bin/sh", "-c", script]);
        assert_eq!(inside.code, Some(9), "{}", inside.err());
        containerd.ctr(&["tasks", "pause", &id]).success();
        containerd.ctr(&["tasks", "resume", &id]).success();

        kill_and_delete(&containerd, &journal, &id);
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
        containerd.ctr(&["containers", "delete", &id]).success();

        let Some(go_plugin) = go_plugin else { return };
        go_plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(go_plugin.journal.events(&id), life_cycle(&[]));
        let requested = go_plugin.journal.wait_for("CreateContainer", &id);
        let (container, pod) = (&requested["container"], &requested["pod"]);
        assert_eq!((&container["id"], &pod["id"]), (&json!(id), &json!(id)));
        let memory = &container["linux"]["resources"]["memory"]["limit"]["value"];
        assert_eq!(memory, "50331648", "the limit that the engine requested");
        for labels in [&container["labels"], &pod["labels"]] {
            assert!(members(labels).contains(&("app".to_owned(), json!("web"))), "{labels}");
        }
        assert!(container["args"].to_string().contains("/bin/sleep"), "{container}");
        let started = go_plugin.journal.wait_for("PostStartContainer", &id);
        assert_eq!(started["pid"], process.0.0);
        let stopped = go_plugin.journal.wait_for("StopContainer", &id);
        assert_eq!(stopped["container"]["state"], "CONTAINER_STOPPED");
    });
}

#[test]
fn a_ctr_task_that_exits_can_be_started_again() {
    for_each_suite("ctr restart", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal =
            containerd.launch("10-adjust", &Program::Adjust, &plugin_configuration(&containerd));
        let id = containerd.id("c");
        run(&containerd, &["--detach"], &id, &["/bin/sh", "-c", "echo A=$A; exec sleep 0.5"])
            .success();
        // nrid detects the exit by itself: containerd calls the runtime only for the deletion.
        journal.wait_for("StopPodSandbox", &id);
        assert_eq!(journal.events(&id)[TO_START.len()..], ["StopContainer", "StopPodSandbox"]);
        delete_task(&containerd, &id);
        journal.wait_for("RemovePodSandbox", &id);
        // containerd writes a new bundle for each task of a container, so the new task has all
        // events of a new container.
        containerd.ctr(&["tasks", "start", "--detach", &id]).success();
        let twice = [life_cycle(&[]), life_cycle(&[])].concat();
        wait_until("the second StopContainer", || {
            (journal.events(&id).iter().filter(|e| *e == "StopContainer").count() == 2)
                .then_some(())
        });
        delete_task(&containerd, &id);
        wait_until("the events of the second removal", || {
            (journal.events(&id).len() >= twice.len()).then_some(())
        });
        assert_eq!(journal.events(&id), twice);
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}
