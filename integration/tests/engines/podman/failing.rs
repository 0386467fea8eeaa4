//! What fails, and how Podman's users hear of it: through `--log` where Podman knows that its
//! runtime takes it, else through stderr.

use super::*;
use crate::FROM_STOP;

/// What plugins hear of a container that the runtime could not create, up to that.
const ASKED: [&str; 3] = ["RunPodSandbox", "CreateContainer", "ValidateContainerAdjustment"];

/// `podman run` to its end.
fn run(podman: &Podman, runtime: &str, arguments: &[&str]) -> Ended {
    podman.podman(&[&["--runtime", runtime, "run", "--rm", "--network=none"], arguments].concat())
}

/// Ids of the containers that plugins were asked for.
fn ids(journal: &Journal) -> Vec<String> {
    let created = journal.entries().into_iter().filter(|e| e["event"] == "CreateContainer");
    created.map(|e| e["container_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_command_that_cannot_run_fails_as_without_us() {
    for_each("podman run, no such command", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let podman = &adjusted.podman;
        for (code, command) in [(127, "no-such-command"), (126, "/etc")] {
            let bare = run(podman, "runc", &[IMAGE, command]);
            let ours = run(podman, "nri", &[IMAGE, command]);
            assert_eq!((bare.code, ours.code), (Some(code), Some(code)), "{}", ours.err());
            // Podman names its runtime.
            assert_eq!(ours.err().replace("nri:", "runc:"), bare.err());
        }
        let ids = ids(&adjusted.plugin.journal);
        assert_eq!(ids.len(), 2);
        for id in ids {
            assert_eq!(adjusted.lives(&id, 1), [&ASKED[..], &FROM_STOP].concat());
        }
        assert_eq!(podman.out(&["ps", "--all", "--quiet"]), "");
    });
}

#[test]
fn a_refusal_is_told_in_words() {
    for_each("podman run, refused", |suite, go| {
        for json in [true, false] {
            let adjusted = Adjusted::with(Podman::start_with(suite, json), go, &adjustment());
            let podman = &adjusted.podman;
            for (name, rule, words) in [
                (
                    "refuses",
                    json!({"error": "no more seats today"}),
                    ["plugin 20-refuses", "no more seats today"],
                ),
                (
                    "conflicts",
                    json!({"adjust": {"linux": {"resources": {"pids": {"limit": 77}}}}}),
                    ["\"20-conflicts\" and \"10-go\"", "PidsLimit"],
                ),
                (
                    "late",
                    json!({"event": "StartContainer", "error": "not now"}),
                    ["plugin 20-late", "not now"],
                ),
            ] {
                let full = format!("20-{name}");
                let plugin = podman.connect(&full, go, &json!({"rules": [rule]}).to_string());
                let ended = run(podman, "nri", &[IMAGE, "true"]);
                assert_eq!(ended.code, Some(126), "{name}: {}", ended.err());
                for word in words {
                    assert!(ended.err().contains(word), "{name}, json {json}: {}", ended.err());
                }
                plugin.stop();
                podman.wait_for_plugin_to_go(&full);
            }
            assert_eq!(
                run(podman, "nri", &[IMAGE, "sh", "-c", "echo $NRI"]).success().out(),
                "here\n"
            );
            let all = ids(&adjusted.plugin.journal);
            assert_eq!(all.len(), 4);
            for id in &all {
                adjusted.lives(id, 1);
            }
            assert_eq!(
                adjusted.plugin.journal.events(&all[0]),
                [
                    "RunPodSandbox",
                    "CreateContainer",
                    "StopContainer",
                    "RemoveContainer",
                    "StopPodSandbox",
                    "RemovePodSandbox"
                ]
            );
            assert_eq!(podman.out(&["ps", "--all", "--quiet"]), "");
        }
    });
}
