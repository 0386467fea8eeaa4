//! Upgrades of an external plugin while containers are created: the new version connects under the
//! name of the old one, and replaces it.

use nri_integration::*;
use serde_json::json;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

/// Number of threads that create containers.
const CREATORS: usize = 4;
/// Number of containers that each thread creates.
const CONTAINERS_PER_CREATOR: usize = 50;
/// Name of both versions.
const NAME: &str = "10-upgraded";

/// The creation of a container.
struct Creation {
    /// Before and after the engine's call.
    called: [Instant; 2],
    /// Values of the variables `VERSION_…` in the container's environment.
    versions: Vec<String>,
}

/// Returns a configuration with which the program adds a variable `VERSION_…` to each container. As
/// versions set different variables, two of them would not conflict.
fn config(program: &Program, version: &str) -> String {
    let key = format!("VERSION_{version}");
    match program {
        Program::Adjust => format!("[create]\nenv = {{ set = {{ {key} = \"{version}\" }} }}"),
        Program::Go(_) => {
            let adjust = json!({"env": [{"key": key, "value": version}]});
            let rules = json!([{"adjust": adjust}]);
            json!({"events": ["CreateContainer"], "rules": rules}).to_string()
        }
    }
}

/// Creates a container, and deletes it.
fn create(node: &Node, id: &str) -> Creation {
    let bundle = node.bundle(id).make();
    let before = Instant::now();
    node.create(&bundle, id).success();
    let called = [before, Instant::now()];
    let config = node.adjusted(id);
    let env = config["process"]["env"].as_array().unwrap().iter().filter_map(|v| v.as_str());
    let versions = env.filter(|v| v.starts_with("VERSION_")).map(str::to_owned).collect();
    node.call(&["delete", "--force", id]).success();
    Creation { called, versions }
}

/// Replaces a plugin by another one while 200 containers are created.
fn check_upgrade(old_program: &Program, new_program: &Program) {
    let Some(runtime) = runtimes().0.iter().find(|r| r.name == "runc") else {
        return skip("upgrade", "no runc that can run a container here");
    };
    let node = Node::new(runtime);
    node.ctl(&["start"]).success();
    // Creates the shared root file system before the threads start.
    let _ = node.bundle(&node.id("root")).make();
    let mut old = node.connect_version("-old", NAME, old_program, &config(old_program, "old"));
    let created = AtomicUsize::new(0);
    let (creations, newer) = thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                let (node, created) = (&node, &created);
                scope.spawn(move || -> Vec<_> {
                    let create_nth = |n: usize| {
                        let creation = create(node, &node.id(&format!("{creator}-{n}")));
                        created.fetch_add(1, Ordering::SeqCst);
                        creation
                    };
                    (0..CONTAINERS_PER_CREATOR).map(create_nth).collect()
                })
            })
            .collect();
        let third = CREATORS * CONTAINERS_PER_CREATOR / 3;
        wait_until("containers", || (created.load(Ordering::SeqCst) >= third).then_some(()));
        let config = config(new_program, "new");
        let newer = node.connect_version("-new", NAME, new_program, &config);
        let creations: Vec<_> =
            creators.into_iter().flat_map(|c| c.join().expect("no creation fails")).collect();
        (creations, newer)
    });

    let by = |version: &str| -> Vec<&Creation> {
        let variable = format!("VERSION_{version}={version}");
        creations.iter().filter(|creation| creation.versions == [&*variable]).collect()
    };
    let (by_old, by_new) = (by("old"), by("new"));
    let all = CREATORS * CONTAINERS_PER_CREATOR;
    let others: Vec<_> = creations.iter().filter(|c| c.versions.len() != 1).collect();
    assert_eq!(others.len(), 0, "{:?}", others.first().map(|creation| &creation.versions));
    assert_eq!(by_old.len() + by_new.len(), all);
    assert!(by_old.len() >= all / 3 && by_new.len() >= all / 3, "{}", by_old.len());
    let last_old = by_old.iter().map(|creation| creation.called[0]).max();
    let first_new = by_new.iter().map(|creation| creation.called[1]).min();
    assert!(last_old < first_new, "the old version came after the new one");

    // The old version gets Shutdown, then its connection is closed.
    old.journal.wait_for_plugin_event("Shutdown");
    match old_program {
        Program::Adjust => assert!(old.wait_for_exit().success(), "{}", old.err()),
        // It stays until its stdin is closed.
        Program::Go(_) => drop(old.journal.wait_for_plugin_event("Closed")),
    }
    let status = wait_until("the end of the old session", || {
        node.status().filter(|status| status["plugins"].as_array().is_some_and(|p| p.len() == 1))
    });
    let plugin = &status["plugins"][0];
    assert_eq!((&plugin["state"], &plugin["restarts"]), (&json!("active"), &json!(1)), "{plugin}");
    let calls = plugin["calls"]["events"].as_array().unwrap();
    let creations = calls.iter().find(|calls| calls["event"] == "CREATE_CONTAINER").unwrap();
    let counts = &creations["counts"];
    assert_eq!((&counts["calls"], &counts["failures"]), (&json!(all), &json!(0)), "{plugin}");
    assert!(status["missed"].as_array().is_none_or(Vec::is_empty), "{status}");
    drop(newer);
}

#[test]
fn a_plugin_of_the_sdk_is_replaced_by_one_of_the_go_stub_under_load() {
    let Some(gostub) = go_plugin("upgrade") else { return };
    check_upgrade(&Program::Adjust, &gostub);
}

#[test]
fn a_plugin_of_the_go_stub_is_replaced_by_one_of_the_sdk_under_load() {
    let Some(gostub) = go_plugin("upgrade") else { return };
    check_upgrade(&gostub, &Program::Adjust);
}
