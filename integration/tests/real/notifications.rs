//! Tests of properties that plugins receive although `config.json` does not contain them: addresses
//! of pods, times, states and exit codes of containers.

use nri_integration::*;
use serde_json::{Value, json};

/// Script of a createRuntime hook that assigns an address to the container, like a network hook of
/// an engine.
const NETWORK_HOOK: &str = "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
pid=$(tr -d ' \n' | sed -n 's/.*\"pid\":\\([0-9]*\\).*/\\1/p')
nsenter -t $pid -n busybox ip addr add 10.9.8.7/24 dev lo";

/// Parses a number of the journal, where 64-bit numbers are strings. A missing number is 0.
fn number(value: &Value) -> u64 {
    value.as_str().map_or_else(|| value.as_u64(), |s| s.parse().ok()).unwrap_or(0)
}

#[test]
fn plugins_see_addresses_namespaces_times_and_the_exit_code() {
    let Some(go_plugin) = go_plugin("addresses, times, exit code") else { return };
    for_each_runtime("addresses, times, exit code", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-go", &go_plugin, "{}");
        plugin.journal.wait_for_plugin_event("Synchronize");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sh", "-c", "exit 7"]).make();
        bundle.edit(|config| {
            config["hooks"] =
                json!({"createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", NETWORK_HOOK]}]});
            config["process"]["user"] = json!({"uid": 5, "gid": 6, "additionalGids": [7]});
        });
        let ended = node.call(&["run", "--bundle", bundle.dir().to_str().unwrap(), &id]);
        assert_eq!(ended.code, Some(7), "{}", ended.err());
        plugin.journal.wait_for("RemovePodSandbox", &id);

        let requested = plugin.journal.wait_for("CreateContainer", &id);
        assert_eq!(
            requested["container"]["user"],
            json!({"uid": 5, "gid": 6, "additionalGids": [7]})
        );
        assert!(number(&requested["container"]["createdAt"]) > 0);
        assert_eq!(number(&requested["container"]["startedAt"]), 0);
        let kinds: Vec<_> = requested["pod"]["linux"]["namespaces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| &n["type"])
            .collect();
        assert!(kinds.contains(&&json!("network")), "{kinds:?}");

        let start_event = plugin.journal.wait_for("StartContainer", &id);
        assert_eq!(
            start_event["pod"]["ips"],
            json!(["10.9.8.7"]),
            "nrid has not read the address in the network namespace"
        );
        assert!(
            number(&start_event["pod"]["pid"]) > 1
                && start_event["pod"]["pid"] == start_event["container"]["pid"],
            "{start_event}"
        );

        let stopped = &plugin.journal.wait_for("StopContainer", &id)["container"];
        let times = ["createdAt", "startedAt", "finishedAt"].map(|t| number(&stopped[t]));
        assert!(times[0] > 0 && times.is_sorted(), "{times:?}");
        assert_eq!(stopped["state"], "CONTAINER_STOPPED");
        if kernel_reports_exit_codes() {
            assert_eq!(
                (&stopped["exitCode"], &stopped["statusReason"]),
                (&json!(7), &json!("Error"))
            );
        } else {
            limitation(
                "addresses, times, exit code",
                "exit codes are not checked: the kernel reports them only since 6.15",
            );
        }
    });
}

/// A wrapper that finds no `nrid`, or a direct call of the runtime, starts a container without a
/// request to `nrid`. `nrid` must detect the start and notify plugins.
#[test]
fn a_start_without_a_request_to_nrid_is_detected() {
    let Some(go_plugin) = go_plugin("start without a verb") else { return };
    for_each_runtime("start without a verb", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-go", &go_plugin, "{}");
        plugin.journal.wait_for_plugin_event("Synchronize");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        plugin.journal.wait_for("PostCreateContainer", &id);
        node.bare(&["start", &id]).success();
        plugin.journal.wait_for("PostStartContainer", &id);
        node.call(&["delete", "--force", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(plugin.journal.events(&id), life_cycle(&[]));
    });
}

/// A pod that is made for one container has what plugins know from Kubernetes, and nothing that
/// does not exist yet: NRI v0.1 plugins refuse a pod without its cgroup.
#[test]
fn a_pod_of_one_container_has_a_stable_identity_and_what_exists_at_the_time() {
    let Some(go_plugin) = go_plugin("pod of one container") else { return };
    for_each_runtime("pod of one container", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-go", &go_plugin, "{}");
        plugin.journal.wait_for_plugin_event("Synchronize");
        let id = node.id("c");
        let run = |n: usize| {
            let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
            node.create(&bundle, &id).success();
            node.call(&["start", &id]).success();
            let pid = node.state(&id).unwrap()["pid"].clone();
            node.call(&["delete", "--force", &id]).success();
            let events = wait_until(format_args!("removal {n}"), || {
                let all = plugin.journal.entries_about(&id);
                let is_removal = |e: &&Value| e["event"] == "RemovePodSandbox";
                (all.iter().filter(is_removal).count() == n).then_some(all)
            });
            let pod = |name: &str| {
                let found = events.iter().rfind(|e| e["event"] == name);
                found.unwrap_or_else(|| panic!("no {name}"))["pod"].clone()
            };
            let network = |pod: &Value| {
                let all = pod["linux"]["namespaces"].as_array().unwrap().iter();
                all.clone().find(|n| n["type"] == "network").unwrap()["path"].clone()
            };
            let new = pod("RunPodSandbox");
            assert_eq!((&new["pid"], &new["linux"]["cgroupsPath"]), (&Value::Null, &Value::Null));
            assert_ne!(new["linux"]["cgroupParent"], Value::Null);
            assert_eq!(network(&new), Value::Null);
            let started = pod("StartContainer");
            assert_eq!(started["pid"], pid);
            assert_eq!(network(&started), json!(format!("/proc/{pid}/ns/net")));
            assert!(started["linux"]["cgroupsPath"].as_str().unwrap().contains(&id), "{started}");
            for ended in ["StopContainer", "StopPodSandbox", "RemovePodSandbox"].map(pod) {
                assert_eq!((&ended["pid"], network(&ended)), (&Value::Null, Value::Null));
            }
            (new["namespace"].clone(), new["uid"].as_str().unwrap().to_owned())
        };
        let (namespace, uid) = run(1);
        assert_eq!(namespace, "default");
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        node.configure("pods.namespace = 'containers'\n");
        node.ctl(&["reload"]).success();
        assert_eq!(run(2), (json!("containers"), uid));
    });
}
