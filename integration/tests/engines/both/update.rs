//! Tests of `docker update` and `podman update`: an update keeps the values of plugins, and a
//! plugin can refuse an update and request updates itself.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

test_both! {
    an_update_by_the_user_keeps_what_plugins_set,
    a_plugin_can_refuse_an_update_and_request_another,
}

fn an_update_by_the_user_keeps_what_plugins_set<E: Engine>() {
    for_each::<E>("update", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let id = adjusted.run_waiting("web");
        let process = adjusted.engine.process_of("web");
        check_resources_except(process, &[]);
        adjusted.engine.out(&["update", "--cpus", "0.5", "web"]);
        assert_eq!(quota(process), "50000");
        check_resources_except(process, &[]);
        // A value that the user requests replaces the plugin's value of the same field.
        let memory = ["update", "--memory", "80m", "--memory-swap", "160m", "web"];
        adjusted.engine.out(&memory);
        assert_eq!(quota(process), "50000", "the quota of the previous update");
        assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), "83886080");
        check_resources_except(process, &["memory.limit_in_bytes"]);
        adjusted.engine.out(&["rm", "--force", "web"]);
        let updates = ["UpdateContainer", "PostUpdateContainer"].repeat(2);
        assert_eq!(adjusted.events_until_removal(&id, 1), life_cycle(&updates));
        let number = |n: u64| json!({"value": n.to_string()});
        let cpu = json!({"quota": number(50000), "period": number(100_000)});
        let memory = json!({"limit": number(80 << 20), "swap": number(160 << 20)});
        assert_eq!(
            requested_updates(&adjusted.plugin.journal, &id),
            [json!({"cpu": cpu}), json!({"memory": memory})],
            "plugins must receive only the requested fields"
        );
    });
}

fn a_plugin_can_refuse_an_update_and_request_another<E: Engine>() {
    for_each::<E>("update, refused", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let id = adjusted.run_waiting("web");
        let Adjusted { engine, mut plugin } = adjusted;
        let process = engine.process_of("web");
        let rule = json!({"event": "UpdateContainer", "error": "not while it works"});
        plugin.send(&json!({"config": {"rules": [rule]}}));
        plugin.journal.wait_for_plugin_event("Reconfigured");
        let refused = engine.call_client(&["update", "--cpus", "0.5", "web"]);
        assert!(refused.code.is_some_and(|code| code != 0));
        for text in ["plugin 10-go", "not while it works"] {
            assert!(refused.err().contains(text), "{}", refused.err());
        }
        check_resources_except(process, &[]);
        assert_ne!(quota(process), "50000", "the refused quota is effective");
        let resources = json!({"resources": {"pids": {"limit": 44}}});
        plugin.send(&json!({"update": [{"containerId": id, "linux": resources}]}));
        plugin.journal.wait_for_plugin_event("UpdateContainers");
        assert_eq!(process.limit("pids", "pids.max", "pids.max"), "44");
    });
}
