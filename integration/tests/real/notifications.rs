//! Properties of containers and pods that plugins receive and that are not in `config.json`:
//! addresses, times, states, exit codes.

use nri_integration::*;
use serde_json::{Value, json};

/// Script of a createRuntime hook that, like a network hook of an engine, gives the container an
/// address from outside.
const NETWORK_HOOK: &str = "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
pid=$(tr -d ' \n' | sed -n 's/.*\"pid\":\\([0-9]*\\).*/\\1/p')
nsenter -t $pid -n busybox ip addr add 10.9.8.7/24 dev lo";

fn number(value: &Value) -> u64 {
    value.as_str().map_or_else(|| value.as_u64(), |s| s.parse().ok()).unwrap_or(0)
}

#[test]
fn plugins_see_addresses_namespaces_times_and_the_exit_code() {
    let Some(go) = go("addresses, times, exit code") else { return };
    for_each_runtime("addresses, times, exit code", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-go", &go, "{}");
        plugin.journal.wait_for_own("Synchronize");
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

        let starts = plugin.journal.wait_for("StartContainer", &id);
        assert_eq!(starts["pod"]["ips"], json!(["10.9.8.7"]), "read inside the network namespace");
        assert!(
            number(&starts["pod"]["pid"]) > 1 && starts["pod"]["pid"] == starts["container"]["pid"],
            "{starts}"
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
                "exit codes: a kernel before 6.15 does not report them",
            );
        }
    });
}
