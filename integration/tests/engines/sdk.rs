//! Plugins of the Rust SDK under containerd's own NRI, without the wrapper: launched by containerd,
//! and connected to its socket.

use crate::{
    cri::{Pod, WAIT, member_events, pid, remove},
    own_nri::for_each_with_nri,
};
use nri_integration::{engines::*, *};
use serde_json::{Value, json};

/// Configuration of a plugin that adjusts the containers of this name.
fn configuration(container: &str) -> String {
    format!(
        "[filter]\nname = '{container}'\n\
         [create]\nenv = {{ set = {{ ADJUSTED = '{container}' }} }}\n\
         [[create.mounts]]\ndestination = '/nri-{container}'\nsource = '/proc/version'\n\
         type = 'bind'\noptions = ['bind', 'ro']\n\
         [create.resources]\nmemory = 100663296\n\
         [update]\nshares = 256\n"
    )
}

fn memory(process: ContainerProcess) -> String {
    process.limit("memory", "memory.limit_in_bytes", "memory.max")
}

/// Checks what [`configuration`] changes, in the container's process and in its cgroups.
#[track_caller]
fn check_adjusted(process: ContainerProcess, container: &str) {
    assert_eq!(process.env("ADJUSTED").as_deref(), Some(container));
    assert_eq!(process.env("OWN").as_deref(), Some("1"), "a variable of the engine");
    let mount = process.mount(&format!("/nri-{container}")).expect("the mount of the plugin");
    assert!(mount.starts_with("proc ro"), "{mount}");
    assert_eq!(memory(process), "100663296");
}

/// Whether this containerd validates adjustments: NRI has this event since v0.10.
fn validates(suite: &Suite) -> bool {
    suite.version("containerd") >= (2, 2)
}

/// Whether this containerd synchronizes plugins that it launches: upstream does since NRI v0.7.
fn synchronizes_launched(suite: &Suite) -> bool {
    suite.version("containerd") >= (2, 0)
}

/// Returns the events of a container like [`member_events`].
fn events(suite: &Suite, between: &[&'static str]) -> Vec<&'static str> {
    let is_sent = |event: &&str| validates(suite) || *event != "ValidateContainerAdjustment";
    member_events(between).into_iter().filter(is_sent).collect()
}

/// Waits until a plugin has been synchronized with a container or a pod this many times.
fn wait_for_synchronizations(journal: &Journal, id: &str, times: usize) {
    let is_synchronization = |e: &&Value| e["event"] == "Synchronize";
    wait_until(format_args!("{times} synchronizations with {id} in {:?}", journal.path()), || {
        let entries = journal.entries_about(id);
        (entries.iter().filter(is_synchronization).count() >= times).then_some(())
    });
}

/// Waits until a plugin has been configured this many times.
fn wait_for_configurations(journal: &Journal, times: usize) {
    wait_until(format_args!("{times} configurations in {:?}", journal.path()), || {
        let entries = journal.entries();
        (entries.iter().filter(|e| e["event"] == "Configure").count() >= times).then_some(())
    });
}

/// Requests an update of a container's memory limit, and waits for the reply of the runtime.
fn request_memory(plugin: &mut External, container: &str, limit: u64) -> Value {
    let is_reply = |e: &Value| e["event"] == "UpdateContainers";
    let replies = || plugin.journal.entries().into_iter().filter(is_reply).collect::<Vec<_>>();
    let before = replies().len();
    plugin.send(&json!({"container": container, "resources": {"memory": limit}}));
    let journal = plugin.journal.clone();
    wait_until("the reply to UpdateContainers", || {
        journal.entries().into_iter().filter(is_reply).nth(before)
    })
}

#[test]
fn plugins_of_the_sdk_work_under_containerds_own_nri() {
    for_each_with_nri("SDK under containerd's NRI", |suite| {
        let adjust = &Program::Adjust;
        let (containerd, launched) =
            Containerd::start_with_nri_alone(suite, "10-adjust", adjust, &configuration("one"));
        wait_for_configurations(&launched, 1);
        let early = Pod::run(&containerd, "early");
        let waiting = early.start("waiting", &json!({}), &WAIT);

        // The external plugin is synchronized with what exists.
        let options = ["--reconnect", "--updates"];
        let mut external =
            containerd.connect_to_nri("20-adjust", adjust, &options, &configuration("two"));
        wait_for_synchronizations(&external.journal, &early.id, 1);
        wait_for_synchronizations(&external.journal, &waiting, 1);

        let pod = Pod::run(&containerd, "web");
        let resources = json!({"memory_limit_in_bytes": 67_108_864});
        let [one, two] = ["one", "two"].map(|name| pod.start(name, &resources, &WAIT));
        let process = |id: &str| containerd.process(pid(&containerd, id));
        check_adjusted(process(&one), "one");
        check_adjusted(process(&two), "two");
        assert_eq!(process(&waiting).env("ADJUSTED"), None);

        // An update that the external plugin requests, and one of the engine that it changes.
        let reply = request_memory(&mut external, &one, 134_217_728);
        assert_eq!((&reply["container"], &reply["failed"]), (&json!(one), &json!(0)), "{reply}");
        assert_eq!(memory(process(&one)), "134217728");
        assert_eq!(memory(process(&two)), "100663296");
        let request = json!({"container_id": two, "linux": {"cpu_shares": 512}});
        containerd.cri("UpdateContainerResources", &request);
        if !is_cgroup_v2() {
            assert_eq!(process(&two).limit("cpu", "cpu.shares", ""), "256");
        }

        let pod_id = pod.id.clone();
        remove(&containerd, &one);
        pod.remove();
        let update = ["UpdateContainer", "PostUpdateContainer"];
        // The plugin logs its own request, too.
        let requested = ["UpdateContainers"];
        for (journal, own) in [(&launched, &[][..]), (&external.journal, &requested)] {
            journal.wait_for("RemovePodSandbox", &pod_id);
            assert_eq!(journal.events(&one), events(suite, own), "{:?}", journal.path());
            assert_eq!(journal.events(&two), events(suite, &update), "{:?}", journal.path());
            let of_pod = journal.events(&pod_id).into_iter().filter(|e| e.contains("Pod"));
            let expected = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"];
            assert_eq!(of_pod.collect::<Vec<_>>(), expected, "{:?}", journal.path());
        }

        // After a restart of containerd, one plugin is launched again, and the other one connects
        // again.
        containerd.halt();
        assert!(external.is_running(), "{}", external.err());
        containerd.resume();
        wait_for_configurations(&launched, 2);
        if synchronizes_launched(suite) {
            wait_for_synchronizations(&launched, &waiting, 1);
        }
        wait_for_synchronizations(&external.journal, &waiting, 2);
        let [one, two] = ["one", "two"].map(|name| early.start(name, &resources, &WAIT));
        check_adjusted(process(&one), "one");
        check_adjusted(process(&two), "two");
        let reply = request_memory(&mut external, &waiting, 50_331_648);
        assert_eq!(reply["failed"], 0, "{reply}");
        assert_eq!(memory(process(&waiting)), "50331648");
        early.remove();
    });
}
