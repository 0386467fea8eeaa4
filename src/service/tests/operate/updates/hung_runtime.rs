//! Tests of a low-level runtime whose calls do not end: requests that do not need such a call are
//! not delayed.

use crate::{
    containers::{Sleep, begin, create_and_start, perform, wait_for_status},
    node::{Node, wait_until},
    wire_plugin::{UpdatesAtCreation, connect, wait_until_active},
};
use nri_api::{
    opt,
    proto::{ContainerUpdate, LinuxCPU, LinuxContainerUpdate, LinuxResources},
};
use nri_control::{Reply, Request, Verb};
use std::{fs, os::unix::fs::PermissionsExt, sync::Arc};
use tokio::task::spawn_blocking;

/// Updates the container `hung` at the creation of the container `updater`.
fn updates(id: &str) -> Vec<ContainerUpdate> {
    if id != "updater" {
        return Vec::new();
    }
    let cpu = LinuxCPU { shares: opt(Some(512)), ..Default::default() };
    let resources = LinuxResources { cpu: Some(cpu).into(), ..Default::default() };
    let linux = LinuxContainerUpdate { resources: Some(resources).into(), ..Default::default() };
    let linux = Some(linux).into();
    vec![ContainerUpdate { container_id: "hung".into(), linux, ..Default::default() }]
}

/// Writes a runtime whose first `update` and first `state` do not end. Both calls write their
/// process ids to files with the names of the verbs.
fn write_runtime(node: &Node) -> String {
    let path = node.path("runtime");
    let dir = node.path("");
    let script = format!(
        "#!/bin/sh\nfor verb in update state; do\n  case \" $* \" in\n  *\" $verb \"*)\n    \
         cd {dir:?}\n    [ -e $verb ] && exit 0\n    echo $$ >$verb.new && mv $verb.new $verb\n    \
         exec sleep 100000;;\n  esac\ndone\necho runc version 1.2.3\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_runtime_that_does_not_end_delays_no_other_request() {
    let node = Arc::new(Node::new(""));
    let nrid = node.start();
    let _plugin = connect(&node, Arc::new(UpdatesAtCreation(updates))).await;
    let checked = node.clone();
    let check = move || {
        let node = checked;
        wait_until_active(&node);
        let runtime = write_runtime(&node);
        let process = Sleep::new();
        perform(&node, Verb::Create, "hung", &runtime, Some(process.pid())).unwrap();
        perform(&node, Verb::Start, "hung", &runtime, None).unwrap();
        let exiting = Sleep::new();
        create_and_start(&node, "other", &process).unwrap();
        create_and_start(&node, "exiting", &exiting).unwrap();
        // Without a pid, nrid calls `state`.
        perform(&node, Verb::Create, "no-pid", &runtime, None).unwrap();
        let wait_for_call = |verb: &str| {
            let pid = || fs::read_to_string(node.path(verb)).ok()?.trim().parse::<i32>().ok();
            wait_until(verb, pid)
        };
        wait_for_call("state");
        let hung_pid = std::thread::scope(|scope| {
            let creation = scope.spawn(|| begin(&node, Verb::Create, "updater", "/bin/false").0);
            let pid = wait_for_call("update");
            assert_eq!(node.call(&Request::Ping), Reply::Done);
            // The four containers above, and `updater`.
            assert_eq!(node.status().containers, 5);
            perform(&node, Verb::Delete, "other", "/bin/false", None).unwrap();
            assert!(!creation.is_finished());
            let refused = creation.join().unwrap();
            let Reply::Refused { message } = refused else { panic!("{refused:?}") };
            assert!(message.contains("hung") && message.contains("did not end"), "{message}");
            pid
        });
        // The runtime is not called again at once, so that later events do not wait for it.
        let again = begin(&node, Verb::Create, "updater", "/bin/false").0;
        let Reply::Refused { message } = again else { panic!("{again:?}") };
        assert!(message.contains("last update of the container did not end"), "{message}");
        let is_killed = || !fs::exists(format!("/proc/{hung_pid}")).unwrap();
        wait_until("the end of the hung call", || is_killed().then_some(()));
        drop(exiting);
        wait_for_status(&node, "stopped", &["exiting"]);
        perform(&node, Verb::Delete, "hung", &runtime, None).unwrap();
        perform(&node, Verb::Delete, "no-pid", &runtime, None).unwrap();
        node.stop();
    };
    spawn_blocking(check).await.unwrap();
    nrid.wait_for_exit();
}
