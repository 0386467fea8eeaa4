//! Tests of the names of containers, which `nrid` reads from the engine's files.

use crate::adjusted::*;
use nri_integration::engines::*;
use serde_json::json;

test_both! {
    a_plugin_can_select_containers_by_name,
    a_plugin_that_connects_after_the_creation_receives_the_name,
}

fn a_plugin_can_select_containers_by_name<E: Engine>() {
    for_each::<E>("run, matched by name", |suite, go_plugin| {
        let engine = E::start(suite);
        engine.ctl(&["start"]).success();
        let adjust = json!({"env": [{"key": "FOR", "value": "db"}]});
        let rules = json!({"rules": [{"name": "db-*", "adjust": adjust}]});
        let _plugin = engine.connect("10-go", go_plugin, &rules.to_string());
        for (name, expected) in [("db-1", "for db\n"), ("web-1", "for others\n")] {
            let script = "echo for ${FOR:-others}";
            let ended = engine.run_with("nri", &["--name", name, IMAGE, "sh", "-c", script]);
            assert_eq!(ended.success().out(), expected, "{name}");
        }
    });
}

fn a_plugin_that_connects_after_the_creation_receives_the_name<E: Engine>() {
    for_each::<E>("names at Synchronize", |suite, go_plugin| {
        let engine = E::start(suite);
        let id = engine.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let plugin = engine.connect("20-late", go_plugin, "{}");
        let synchronized = plugin.journal.wait_for_plugin_event("Synchronize");
        // The wrapper started nrid for the creation, so nrid has a record of the container.
        assert_eq!(synchronized["containers"], json!([id]));
        engine.out(&["rm", "--force", "web"]);
        let removed = plugin.journal.wait_for("RemoveContainer", &id);
        assert_eq!(removed["name"], "web", "{removed}");
    });
}
