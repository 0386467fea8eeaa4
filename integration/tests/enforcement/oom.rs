//! Plugins are notified that the kernel's OOM killer ended a container.

use nri_integration::*;
use serde_json::{Value, json};

/// Command that uses more and more memory, as it reads a line without an end.
const GROWS: [&str; 2] = ["/bin/tail", "/dev/zero"];
/// Memory limit that the command reaches soon.
const SMALL: u64 = 24 << 20;
/// Memory limit that other commands do not reach.
const LARGE: u64 = 64 << 20;

/// Creates a bundle with a memory limit and no swap, so that the limit is reached soon.
fn limited(node: &Node, id: &str, limit: u64, arguments: &[&str]) -> Bundle {
    let resources = json!({"memory": {"limit": limit, "swap": limit}});
    node.bundle(id).resources(&resources.to_string()).arguments(arguments).make()
}

/// Creates and starts a container and waits until it has ended; returns the container of the
/// plugin's StopContainer.
fn end_of(node: &Node, name: &str, limit: u64, arguments: &[&str], journal: &Journal) -> Value {
    let id = node.id(name);
    node.create(&limited(node, &id, limit, arguments), &id).success();
    node.call(&["start", &id]).success();
    let stopped = journal.wait_for("StopContainer", &id)["container"].clone();
    node.call(&["delete", &id]).success();
    stopped
}

/// Runs a container in the foreground to its end, and returns the container of StopContainer. The
/// runtime reaps the process, so that the kernel reports its exit code (since Linux 6.15).
fn end_of_run(node: &Node, name: &str, limit: u64, script: &str, journal: &Journal) -> Value {
    let id = node.id(name);
    let bundle = limited(node, &id, limit, &["/bin/sh", "-c", script]);
    let mut run = node.wrapper();
    run.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
    node.run(run);
    journal.wait_for("StopContainer", &id)["container"].clone()
}

#[test]
fn an_oom_kill_is_notified_to_plugins() {
    let Some(go) = go("OOM kill") else { return };
    for_each_runtime("OOM kill", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go, "{}");
        let killed = end_of(&node, "killed", SMALL, &GROWS, &journal);
        assert_eq!(killed["statusReason"], "OOMKilled", "{killed}");
        // Other ends are no OOM kills.
        for (name, arguments) in
            [("sigkilled", &["/bin/sh", "-c", "kill -9 $$"][..]), ("failed", &["/bin/false"])]
        {
            let ended = end_of(&node, name, LARGE, arguments, &journal);
            assert_ne!(ended["statusReason"], "OOMKilled", "{ended}");
        }
    });
}

#[test]
fn an_oom_kill_of_a_run_container_is_notified() {
    let Some(go) = go("OOM kill, run") else { return };
    for_each_runtime("OOM kill, run", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go, "{}");
        let killed = end_of_run(&node, "killed", SMALL, "exec tail /dev/zero", &journal);
        assert_eq!(killed["statusReason"], "OOMKilled", "{killed}");
        let failed = end_of_run(&node, "failed", LARGE, "exit 3", &journal);
        assert_ne!(failed["statusReason"], "OOMKilled", "{failed}");
        if failed["exitCode"] != 3 {
            return limitation("OOM kill, run", "this kernel does not report exit codes");
        }
        // The kernel kills another process of the container; the first one exits with 0.
        let survived = end_of_run(&node, "survived", SMALL, "tail /dev/zero; exit 0", &journal);
        assert_eq!(survived["statusReason"], "Completed", "{survived}");
    });
}

#[test]
fn an_oom_kill_by_a_plugins_limit_is_notified() {
    let Some(go) = go("OOM kill, by a plugin's limit") else { return };
    for_each_runtime("OOM kill, by a plugin's limit", |runtime| {
        let node = Node::new(runtime);
        let limit = json!({"limit": {"value": SMALL}});
        let rules = json!([{"adjust": {"linux": {"resources": {"memory": limit}}}}]);
        let journal = node.launch("10-go", &go, &json!({"rules": rules}).to_string());
        let killed = end_of(&node, "killed", 1 << 30, &GROWS, &journal);
        assert_eq!(killed["statusReason"], "OOMKilled", "{killed}");
    });
}

#[test]
fn an_oom_kill_without_nrid_is_notified_by_the_next_one() {
    let Some(go) = go("OOM kill, without nrid") else { return };
    for_each_runtime("OOM kill, without nrid", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go, "{}");
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
        // The next nrid reads the OOM kill from the cgroup, unless systemd, which removes a scope
        // with its last process, has removed it.
        node.ctl(&["start"]).success();
        node.call(&["delete", &id]).success();
        let removed = journal.wait_for("RemoveContainer", &id)["container"].clone();
        let cgroup_exists = !systemd();
        assert_eq!(removed["statusReason"] == "OOMKilled", cgroup_exists, "{removed}");
    });
}
