//! Plugins are notified when the kernel's OOM killer has ended a container.

use nri_integration::*;
use serde_json::{Value, json};

/// Command that uses more and more memory, because it reads a line that does not end.
const GROWS: [&str; 2] = ["/bin/tail", "/dev/zero"];
/// Memory limit that [`GROWS`] reaches soon.
const SMALL: u64 = 24 << 20;
/// Memory limit that commands other than [`GROWS`] do not reach.
const LARGE: u64 = 64 << 20;

/// Creates a bundle with a memory limit and no swap, so that the limit is reached soon.
fn limited(node: &Node, id: &str, limit: u64, arguments: &[&str]) -> Bundle {
    let resources = json!({"memory": {"limit": limit, "swap": limit}});
    node.bundle(id).resources(&resources.to_string()).arguments(arguments).make()
}

/// Creates and starts a container and waits until it has ended. Returns the container from the
/// StopContainer event that the plugin received.
fn stopped_after_start(
    node: &Node,
    name: &str,
    limit: u64,
    arguments: &[&str],
    journal: &Journal,
) -> Value {
    let id = node.id(name);
    node.create(&limited(node, &id, limit, arguments), &id).success();
    node.call(&["start", &id]).success();
    let stopped = journal.wait_for("StopContainer", &id)["container"].clone();
    node.call(&["delete", &id]).success();
    stopped
}

/// Runs a container in the foreground until it has ended. Returns the container from the
/// StopContainer event that the plugin received. The event has the exit code only on Linux 6.15 and
/// newer, which reports the code to `nrid` even after the runtime has reaped the process.
fn stopped_after_run(
    node: &Node,
    name: &str,
    limit: u64,
    script: &str,
    journal: &Journal,
) -> Value {
    let id = node.id(name);
    let bundle = limited(node, &id, limit, &["/bin/sh", "-c", script]);
    let mut run = node.wrapper();
    run.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
    node.run(run);
    journal.wait_for("StopContainer", &id)["container"].clone()
}

#[test]
fn plugins_are_notified_of_an_oom_kill() {
    let Some(go_plugin) = go_plugin("OOM kill") else { return };
    for_each_runtime("OOM kill", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go_plugin, "{}");
        let killed = stopped_after_start(&node, "killed", SMALL, &GROWS, &journal);
        assert_eq!(killed["statusReason"], "OOMKilled", "{killed}");
        // SIGKILL by a process and a failed command are not reported as OOM kills.
        for (name, arguments) in
            [("sigkilled", &["/bin/sh", "-c", "kill -9 $$"][..]), ("failed", &["/bin/false"])]
        {
            let ended = stopped_after_start(&node, name, LARGE, arguments, &journal);
            assert_ne!(ended["statusReason"], "OOMKilled", "{ended}");
        }
    });
}

#[test]
fn plugins_are_notified_of_an_oom_kill_in_a_foreground_run() {
    let Some(go_plugin) = go_plugin("OOM kill, run") else { return };
    for_each_runtime("OOM kill, run", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go_plugin, "{}");
        let killed = stopped_after_run(&node, "killed", SMALL, "exec tail /dev/zero", &journal);
        assert_eq!(killed["statusReason"], "OOMKilled", "{killed}");
        let failed = stopped_after_run(&node, "failed", LARGE, "exit 3", &journal);
        assert_ne!(failed["statusReason"], "OOMKilled", "{failed}");
        if failed["exitCode"] != 3 {
            return limitation("OOM kill, run", "this kernel does not report exit codes");
        }
        // The OOM killer ends a child of the container's first process, which then exits with 0.
        let survived =
            stopped_after_run(&node, "survived", SMALL, "tail /dev/zero; exit 0", &journal);
        // Before Linux 6.15, nrid may read the exit code too late.
        if survived["exitCode"] == 255 {
            return limitation("OOM kill, run", "this kernel does not report exit codes");
        }
        assert_eq!(survived["statusReason"], "Completed", "{survived}");
    });
}

#[test]
fn plugins_are_notified_of_an_oom_kill_at_a_limit_set_by_a_plugin() {
    let Some(go_plugin) = go_plugin("OOM kill, by a plugin's limit") else { return };
    for_each_runtime("OOM kill, by a plugin's limit", |runtime| {
        let node = Node::new(runtime);
        let limit = json!({"limit": {"value": SMALL}});
        let rules = json!([{"adjust": {"linux": {"resources": {"memory": limit}}}}]);
        let journal = node.launch("10-go", &go_plugin, &json!({"rules": rules}).to_string());
        // The engine's limit of 1 GiB is not effective, because the plugin lowers it.
        let killed = stopped_after_start(&node, "killed", 1 << 30, &GROWS, &journal);
        assert_eq!(killed["statusReason"], "OOMKilled", "{killed}");
    });
}

#[test]
fn the_next_nrid_notifies_plugins_of_an_oom_kill_while_no_nrid_ran() {
    let Some(go_plugin) = go_plugin("OOM kill, without nrid") else { return };
    for_each_runtime("OOM kill, without nrid", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go_plugin, "{}");
        let id = node.id("c");
        let grows =
            ["/bin/sh", "-c", "while ! test -e /tmp/go; do sleep 0.05; done; exec tail /dev/zero"];
        node.create(&limited(&node, &id, SMALL, &grows), &id).success();
        node.call(&["start", &id]).success();
        let pid = node.state(&id).expect("the runtime knows the container")["pid"]
            .as_u64()
            .expect("pid is a number");
        node.ctl(&["stop"]).success();
        node.bare(&["exec", &id, "/bin/touch", "/tmp/go"]).success();
        let process = Process(u32::try_from(pid).expect("pid is a number"));
        wait_until("the end of the container", || (!process.is_alive()).then_some(()));
        // The next nrid reads the OOM kill from the cgroup. With systemd the cgroup does not exist
        // any more, because systemd removes a scope when its last process ends.
        node.ctl(&["start"]).success();
        node.call(&["delete", &id]).success();
        let removed = journal.wait_for("RemoveContainer", &id)["container"].clone();
        let cgroup_exists = !uses_systemd();
        assert_eq!(removed["statusReason"] == "OOMKilled", cgroup_exists, "{removed}");
    });
}
