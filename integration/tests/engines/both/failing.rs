//! Tests of containers that cannot be created or started, and of the messages that the engine then
//! shows to its users.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

test_both! {
    a_command_that_cannot_run_fails_as_without_the_wrapper,
    a_refusal_names_the_plugin_and_its_reason,
}

/// Returns the ids of the containers in CreateContainer requests, in order.
fn requested_ids(journal: &Journal) -> Vec<String> {
    let requests = journal.entries().into_iter().filter(|e| e["event"] == "CreateContainer");
    requests.map(|e| e["container_id"].as_str().unwrap().to_owned()).collect()
}

fn a_command_that_cannot_run_fails_as_without_the_wrapper<E: Engine>() {
    for_each::<E>("run, no such command", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        for (code, command) in [(127, "no-such-command"), (126, "/etc")] {
            let bare = adjusted.engine.run_with("runc", &[IMAGE, command]);
            let ours = adjusted.engine.run_with("nri", &[IMAGE, command]);
            assert_eq!((bare.code, ours.code), (Some(code), Some(code)), "{}", ours.err());
            assert_eq!(E::error(&ours, "nri"), E::error(&bare, "runc"));
        }
        let ids = requested_ids(&adjusted.plugin.journal);
        assert_eq!(ids.len(), 2, "{ids:?}");
        for id in ids {
            assert_eq!(
                adjusted.events_until_removal(&id, 1),
                [&REQUESTED[..], &FROM_STOP].concat()
            );
        }
        assert_eq!(adjusted.engine.out(&["ps", "--all", "--quiet"]), "");
    });
}

fn a_refusal_names_the_plugin_and_its_reason<E: Engine>() {
    for_each::<E>("run, refused", |suite, go_plugin| {
        check_refusals(&Adjusted::<E>::start(suite, go_plugin), go_plugin);
    });
}

/// Checks that the engine shows why a container was refused, for several plugins that refuse it,
/// and that a container runs when no plugin refuses it.
pub(crate) fn check_refusals<E: Engine>(adjusted: &Adjusted<E>, go_plugin: &Program) {
    let engine = &adjusted.engine;
    let limit = json!({"linux": {"resources": {"pids": {"limit": 77}}}});
    for (name, rule, texts) in [
        (
            "20-refuses",
            json!({"error": "no more seats today"}),
            ["plugin 20-refuses", "no more seats today"],
        ),
        (
            "20-conflicts",
            json!({"adjust": limit}),
            ["\"20-conflicts\" and \"10-go\"", "pids.limit"],
        ),
        (
            "20-late",
            json!({"event": "StartContainer", "error": "not now"}),
            ["plugin 20-late", "not now"],
        ),
    ] {
        let plugin = engine.connect(name, go_plugin, &json!({"rules": [rule]}).to_string());
        let ended = engine.run_with("nri", &[IMAGE, "true"]);
        assert_eq!(ended.code, Some(E::RUNTIME_FAILED), "{name}: {}", ended.err());
        for text in texts {
            assert!(ended.err().contains(text), "{name}: {}", ended.err());
        }
        plugin.stop();
        engine.wait_for_plugin_to_close(name);
    }
    let ended = engine.run_with("nri", &[IMAGE, "sh", "-c", "echo $NRI"]);
    assert_eq!(ended.success().out(), "here\n");
    let ids = requested_ids(&adjusted.plugin.journal);
    // Three refused containers and one that ran.
    assert_eq!(ids.len(), 4, "{ids:?}");
    // Docker 20 does not delete a container whose start was refused, the third one here.
    let keeps_third = engine.out(&["--version"]).contains("Docker version 20.");
    for (n, id) in ids.iter().enumerate() {
        if !(keeps_third && n == 2) {
            adjusted.events_until_removal(id, 1);
        }
    }
    assert_eq!(
        adjusted.plugin.journal.events(&ids[0]),
        [
            "RunPodSandbox",
            "CreateContainer",
            "StopContainer",
            "RemoveContainer",
            "StopPodSandbox",
            "RemovePodSandbox"
        ]
    );
    assert_eq!(engine.out(&["ps", "--all", "--quiet"]), "");
}
