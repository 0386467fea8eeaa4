//! What fails, and how Docker's users hear of it.

use super::*;
use crate::FROM_STOP;

/// What plugins hear of a container that the runtime could not create, up to that.
const ASKED: [&str; 3] = ["RunPodSandbox", "CreateContainer", "ValidateContainerAdjustment"];

/// `docker run` to its end.
fn run(docker: &Docker, options: &[&str]) -> Ended {
    docker.docker(&[&["run", "--rm", "--network=none"], options].concat())
}

#[test]
fn a_command_that_cannot_run_fails_as_without_us() {
    for_each("docker run, no such command", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
        for (code, command) in [
            (127, &[IMAGE, "no-such-command"][..]),
            (126, &[IMAGE, "/etc"]),
            (125, &["--workdir", "/bin/busybox", IMAGE, "true"]),
        ] {
            let bare = run(docker, &[&["--runtime", "runc"], command].concat());
            let ours = run(docker, command);
            assert_eq!((bare.code, ours.code), (Some(code), Some(code)), "{}", ours.err());
            // The client of 20.10 may add a line of its own.
            let line = |ended: &Ended| ended.err().lines().next().map(str::to_owned);
            assert_eq!(line(&ours), line(&bare));
        }
        let ids = ids(&adjusted.plugin.journal);
        assert!(ids.len() >= 2, "{ids:?}");
        for id in ids {
            assert_eq!(adjusted.lives(&id, 1), [&ASKED[..], &FROM_STOP].concat());
        }
        assert_eq!(docker.out(&["ps", "--all", "--quiet"]), "");
    });
}

/// Ids of the containers that plugins were asked for.
fn ids(journal: &Journal) -> Vec<String> {
    let created = journal.entries().into_iter().filter(|e| e["event"] == "CreateContainer");
    created.map(|e| e["container_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_refusal_is_told_in_words() {
    for_each("docker run, refused", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
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
            let plugin =
                docker.connect(&format!("20-{name}"), go, &json!({"rules": [rule]}).to_string());
            let ended = run(docker, &[IMAGE, "true"]);
            assert_eq!(ended.code, Some(125), "{name}: {}", ended.err());
            for word in words {
                assert!(ended.err().contains(word), "{name}: {}", ended.err());
            }
            plugin.stop();
            docker.wait_for_plugin_to_go(&format!("20-{name}"));
        }
        assert_eq!(run(docker, &[IMAGE, "sh", "-c", "echo $NRI"]).success().out(), "here\n");
        let first = &ids(&adjusted.plugin.journal)[0];
        assert_eq!(
            adjusted.lives(first, 1),
            [
                "RunPodSandbox",
                "CreateContainer",
                "StopContainer",
                "RemoveContainer",
                "StopPodSandbox",
                "RemovePodSandbox"
            ]
        );
        // A container that is kept says why, and starts as soon as nobody refuses.
        let plugin = docker.connect("30-refuses", go, r#"{"rules": [{"error": "not this one"}]}"#);
        assert_eq!(
            docker
                .docker(&["run", "--detach", "--network=none", "--name=kept", IMAGE, "true"])
                .code,
            Some(125)
        );
        assert!(
            docker
                .out(&["inspect", "--format", "{{.State.Error}}", "kept"])
                .contains("not this one")
        );
        plugin.stop();
        docker.wait_for_plugin_to_go("30-refuses");
        docker.out(&["start", "kept"]);
        assert_eq!(docker.out(&["wait", "kept"]), "0");
    });
}
