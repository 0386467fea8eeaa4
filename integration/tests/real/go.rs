//! Tests with a plugin that is built on the Go stub of containerd/nri.

use nri_integration::*;
use serde_json::{Value, json};

/// Returns the configuration of a plugin that sets an environment variable, an annotation, a memory
/// limit, a pids limit and an rlimit.
fn adjusting_config() -> Value {
    json!({"rules": [{"adjust": {
        "env": [{"key": "GO", "value": "was here"}],
        "annotations": {"example.org/go": "yes"},
        "linux": {"resources": {"memory": {"limit": {"value": 100663296}}, "pids": {"limit": 66}}},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}]
    }}]})
}

#[test]
fn a_go_plugin_receives_events_in_order_and_adjusts() {
    let Some(go_plugin) = go_plugin("go plugin") else { return };
    for_each_runtime("go plugin", |runtime| {
        let node = Node::new(runtime);
        let existing = node.id("existing");
        node.create(&node.bundle(&existing).make(), &existing).success();
        let plugin = node.connect("10-go", &go_plugin, &adjusting_config().to_string());
        let synchronized = plugin.journal.wait_for_plugin_event("Synchronize");
        assert_eq!(synchronized["containers"], json!([existing]));
        assert_eq!(synchronized["pods"], json!([existing]));

        let id = node.id("c");
        let bundle = node
            .bundle(&id)
            .resources(r#"{"pids": {"limit": 50}}"#)
            .arguments(&["/probe", "wait"])
            .make();
        let created = node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        Report::parse(&created.out()).check(&[
            ("env.GO", "was here"),
            ("pids.max", "66"),
            ("memory.limit_in_bytes|memory.max", "100663296"),
            ("rlimit.nofile", "512 1024"),
        ]);
        let resources = node.path("resources.json");
        std::fs::write(&resources, r#"{"pids": {"limit": 55}}"#).unwrap();
        node.call(&["update", "--resources", resources.to_str().unwrap(), &id]).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "55");
        assert_eq!(
            node.cgroup_file(&id, "memory", "memory.limit_in_bytes", "memory.max"),
            "100663296",
            "the engine's update, which has no memory limit, changed the limit of the plugin"
        );
        node.call(&["kill", &id, "TERM"]).success();
        plugin.journal.wait_for("StopContainer", &id);
        node.call(&["delete", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(
            plugin.journal.events(&id),
            life_cycle(&["UpdateContainer", "PostUpdateContainer"])
        );

        let requested = plugin.journal.wait_for("CreateContainer", &id);
        assert_eq!(
            requested["container"]["linux"]["resources"]["pids"]["limit"], "50",
            "CreateContainer lacks the pids limit that the engine requested"
        );
        assert_eq!(
            plugin.journal.wait_for("UpdateContainer", &id)["resources"]["pids"]["limit"],
            "55"
        );
        let started = plugin.journal.wait_for("PostStartContainer", &id);
        assert!(started["pid"].as_u64().is_some_and(|pid| pid > 1), "{started}");
    });
}

#[test]
fn a_go_plugin_is_launched_and_configured() {
    let Some(go_plugin) = go_plugin("go plugin, launched") else { return };
    for_each_runtime("go plugin, launched", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go_plugin, &adjusting_config().to_string());
        let id = node.id("c");
        let created =
            node.create(&node.bundle(&id).arguments(&["/probe", "wait"]).make(), &id).success();
        node.call(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        Report::parse(&created.out()).check(&[("env.GO", "was here"), ("pids.max", "66")]);
        assert!(
            journal.wait_for_plugin_event("Configure")["config"]
                .as_str()
                .unwrap()
                .contains("was here")
        );
        journal.wait_for("PostStartContainer", &id);
        assert_eq!(journal.events(&id), TO_START);
    });
}

#[test]
fn a_go_plugin_updates_other_containers() {
    let Some(go_plugin) = go_plugin("go plugin, updates") else { return };
    for_each_runtime("go plugin, updates", |runtime| {
        let node = Node::new(runtime);
        let (first, second) = (node.id("first"), node.id("second"));
        let pids = |id: &str| node.cgroup_file(id, "pids", "pids.max", "pids.max");
        let update = |id: &str, limit: u64| {
            let resources = json!({"pids": {"limit": limit}});
            json!({"containerId": id, "linux": {"resources": resources}})
        };
        node.ctl(&["start"]).success();
        let config = json!({"rules": [{"id": second, "updates": [update(&first, 41)]}]});
        let mut plugin = node.connect("10-go", &go_plugin, &config.to_string());
        let resources = r#"{"pids": {"limit": 50}}"#;
        node.create(&node.bundle(&first).resources(resources).make(), &first).success();
        assert_eq!(pids(&first), "50");
        node.create(&node.bundle(&second).resources(resources).make(), &second).success();
        assert_eq!((pids(&first).as_str(), pids(&second).as_str()), ("41", "50"));

        plugin.send(&json!({"update": [update(&second, 42), update("unknown", 43)]}));
        let done = plugin.journal.wait_for_plugin_event("UpdateContainers");
        assert_eq!(pids(&second), "42");
        assert_eq!(done["failed"], json!(["unknown"]), "{done}");
    });
}

#[test]
fn a_creation_that_the_runtime_refuses_leaves_other_containers_as_they_were() {
    let Some(go_plugin) = go_plugin("go plugin, undone updates") else { return };
    for_each_runtime("go plugin, undone updates", |runtime| {
        let node = Node::new(runtime);
        let (first, second) = (node.id("first"), node.id("second"));
        let limits = || {
            let file = |controller, v1, v2| node.cgroup_file(&first, controller, v1, v2);
            [
                file("pids", "pids.max", "pids.max"),
                file("cpuset", "cpuset.cpus", "cpuset.cpus"),
                file("memory", "memory.limit_in_bytes", "memory.max"),
                file("cpu", "cpu.cfs_quota_us", "cpu.max"),
            ]
        };
        node.ctl(&["start"]).success();
        // The first container has no values of the last three.
        let resources = json!({"pids": {"limit": 41}, "memory": {"limit": {"value": 100663296}},
            "cpu": {"cpus": "0", "quota": {"value": 20000}}});
        let update = json!({"containerId": first, "linux": {"resources": resources}});
        // The runtime fails when it sets the invalid list of CPUs.
        let adjust = json!({"linux": {"resources": {"cpu": {"cpus": "zero"}}}});
        let config = json!({"rules": [{"id": second, "adjust": adjust, "updates": [update]}]});
        let plugin = node.connect("10-go", &go_plugin, &config.to_string());
        let of_engine = r#"{"pids": {"limit": 50}}"#;
        let bundle = node.bundle(&first).resources(of_engine).arguments(&["/bin/sleep", "1000"]);
        node.create(&bundle.make(), &first).success();
        node.call(&["start", &first]).success();
        let before = limits();
        for verb in ["create", "run"] {
            let bundle = node.bundle(&second).make();
            let mut command = node.wrapper();
            command.args([verb, "--bundle"]).arg(bundle.dir()).arg(&second);
            assert_ne!(node.run(command).code, Some(0), "{verb} with invalid CPUs succeeded");
            plugin.journal.wait_for("RemoveContainer", &second);
            wait_until("the end of the creation", || {
                node.own_bundle(&second).is_none().then_some(())
            });
            assert_eq!(limits(), before, "{verb}");
            node.ctl(&["verify"]).success();
            let made = node.ctl(&["explain", &first]).success().out();
            assert!(made.contains("pids.limit") && made.contains("undo of an update"), "{made}");
        }
        let inspected = node.ctl(&["inspect", "--json", &first]).success().out();
        assert!(!inspected.contains("10-go"), "{inspected}");
    });
}

/// crun does not revert what it has set before it failed.
#[test]
fn a_failed_update_of_a_plugin_leaves_no_limits_where_there_were_none() {
    let Some(go_plugin) = go_plugin("go plugin, failed update") else { return };
    for_each_runtime("go plugin, failed update", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let limits = || {
            let memory = node.cgroup_file(&id, "memory", "memory.limit_in_bytes", "memory.max");
            [node.cgroup_file(&id, "pids", "pids.max", "pids.max"), memory]
        };
        node.ctl(&["start"]).success();
        let mut plugin = node.connect("10-go", &go_plugin, "{}");
        node.create(&node.bundle(&id).make(), &id).success();
        let before = limits();
        let resources = json!({"pids": {"limit": 41}, "memory": {"limit": {"value": 100663296}},
            "cpu": {"cpus": "4096"}});
        let update = json!({"containerId": id, "linux": {"resources": resources}});
        plugin.send(&json!({"update": [update]}));
        let done = plugin.journal.wait_for_plugin_event("UpdateContainers");
        assert_eq!(done["failed"], json!([id]), "{done}");
        assert_eq!(limits(), before);
    });
}

#[test]
fn a_creation_fails_if_a_go_plugin_refuses_it_but_not_if_the_plugin_exits_or_hangs() {
    let Some(go_plugin) = go_plugin("go plugin, failing") else { return };
    for_each_runtime("go plugin, failing", |runtime| {
        for (name, rule, is_created) in [
            ("exits", json!({"exit": 3}), true),
            ("sleeps", json!({"sleep": 60}), true),
            ("refuses", json!({"error": "not today"}), false),
        ] {
            let node = Node::new(runtime);
            if name == "sleeps" {
                node.configure("plugin = [{ match = '10-bad', timeout = '500ms' }]\n");
            }
            // The plugin does not subscribe to validation, since a creation fails if a validator
            // exits.
            let events = ["CreateContainer", "PostCreateContainer"];
            let journal = node.launch(
                "10-bad",
                &go_plugin,
                &json!({"events": events, "rules": [rule]}).to_string(),
            );
            node.launch("20-good", &go_plugin, &adjusting_config().to_string());
            let id = node.id(name);
            let bundle = node.bundle(&id).make();
            let original = bundle.bytes();
            let created = node.create(&bundle, &id);
            journal.wait_for("CreateContainer", &id);
            if is_created {
                created.success();
                assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "66", "{name}");
            } else {
                let line = created.refusal();
                assert!(
                    line.contains("10-bad") && line.contains("not today") && line.contains(&id),
                    "{line}"
                );
                assert_eq!(bundle.bytes(), original);
                assert!(node.state(&id).is_none());
            }
        }
    });
}
