//! Tests of `create`: `config.json` is not written without plugins, a creation that fails in the
//! runtime is rolled back, events arrive in order.

use nri_integration::*;
use serde_json::json;

#[test]
fn config_json_is_not_written_without_plugins_and_a_later_plugin_knows_the_container() {
    for_each_runtime("untouched", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        let before = (bundle.bytes(), std::fs::metadata(bundle.config()).unwrap());
        let created = node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        let after = (bundle.bytes(), std::fs::metadata(bundle.config()).unwrap());
        assert_eq!(after.0, before.0);
        assert_eq!(after.1.modified().unwrap(), before.1.modified().unwrap());
        let plugin = node.connect("30-late", &Program::Adjust, "");
        plugin.journal.wait_for("Synchronize", &id);
        node.call(&["kill", &id, "KILL"]).success();
        plugin.journal.wait_for("StopContainer", &id);
        node.call(&["delete", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        // PostStartContainer may be sent after `start` has returned.
        let until_start = ["Synchronize", "PostStartContainer"];
        let received: Vec<_> = plugin
            .journal
            .events(&id)
            .into_iter()
            .filter(|e| !until_start.contains(&e.as_str()))
            .collect();
        assert_eq!(received, FROM_STOP);
    });
}

#[test]
fn an_adjusted_creation_that_the_runtime_refuses_is_rolled_back() {
    for_each_runtime("failed create", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        bundle.edit(|config| {
            let mounts = config["mounts"].as_array_mut().unwrap();
            mounts.push(json!({
                "destination": "/x", "type": "bind", "source": "/nonexistent/source",
                "options": ["bind"]
            }));
        });
        let original = bundle.bytes();
        let refused = node.create(&bundle, &id);
        assert_eq!(refused.code, Some(1), "{}", refused.err());
        assert!(
            refused.err().contains("/nonexistent/source"),
            "stderr lacks the runtime's message: {}",
            refused.err()
        );
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), [&REQUESTED[..], &FROM_STOP[..]].concat());
        assert_eq!(bundle.bytes(), original);
        assert!(node.state(&id).is_none());
        assert_eq!(node.status().unwrap()["containers"], 0);

        // After the roll-back the same id and bundle can be used again.
        bundle.edit(|config| drop(config["mounts"].as_array_mut().unwrap().pop()));
        node.create(&bundle, &id).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "77");
        // After a failure, engines call `delete --force`, even for ids that the runtime does not
        // know.
        node.call(&["delete", "--force", &id]).success();
        node.call(&["delete", "--force", &id]).success();
    });
}

#[test]
fn events_of_a_created_container_arrive_in_order() {
    for_each_runtime("life cycle", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        let created = node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        let refused = node.call(&["delete", &id]);
        assert_ne!(refused.code, Some(0), "a running container was deleted");
        node.call(&["kill", &id, "TERM"]).success();
        journal.wait_for("StopContainer", &id);
        node.call(&["delete", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
    });
}
