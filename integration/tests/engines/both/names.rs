//! Names of containers, which `nrid` reads from the files of the engine.

use crate::adjusted::*;
use nri_integration::engines::*;
use serde_json::json;

test_both! {
    a_plugin_can_match_names,
    a_plugin_that_connects_later_knows_the_names,
}

fn a_plugin_can_match_names<E: Engine>() {
    for_each::<E>("run, matched by name", |suite, go| {
        let engine = E::start(suite);
        engine.ctl(&["start"]).success();
        let adjust = json!({"env": [{"key": "FOR", "value": "db"}]});
        let rules = json!({"rules": [{"name": "db-*", "adjust": adjust}]});
        let _plugin = engine.connect("10-go", go, &rules.to_string());
        for (name, expected) in [("db-1", "for db\n"), ("web-1", "for others\n")] {
            let script = "echo for ${FOR:-others}";
            let ended = engine.run_with("nri", &["--name", name, IMAGE, "sh", "-c", script]);
            assert_eq!(ended.success().out(), expected, "{name}");
        }
    });
}

fn a_plugin_that_connects_later_knows_the_names<E: Engine>() {
    for_each::<E>("names at Synchronize", |suite, go| {
        let engine = E::start(suite);
        let id = engine.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let plugin = engine.connect("20-late", go, "{}");
        let synchronized = plugin.journal.wait_for_own("Synchronize");
        // The creation started nrid, which has the container on record.
        assert_eq!(synchronized["containers"], json!([id]));
        engine.out(&["rm", "--force", "web"]);
        let removed = plugin.journal.wait_for("RemoveContainer", &id);
        assert_eq!(removed["name"], "web", "{removed}");
    });
}
