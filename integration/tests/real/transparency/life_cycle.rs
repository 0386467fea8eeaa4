//! Tests of verbs in the right and in the wrong state of a container, with a duplicate id, and with
//! an unknown id.

use super::{ScenarioRun, check_transparent, exit_status, path_str};
use nri_integration::*;

fn status(scenario: &ScenarioRun, id: &str) -> String {
    scenario
        .node
        .state(id)
        .map_or_else(|| "deleted".to_owned(), |state| state["status"].to_string())
}

#[test]
fn delete_is_transparent() {
    check_transparent("delete", |scenario| {
        let id = scenario.start_waiting_container("c");
        let first = scenario.pid(&id);
        let refused = scenario.call_and_note(&["delete", &id]);
        assert_ne!(refused.code, Some(0), "the delete of a running container succeeded");
        assert!(first.is_alive());
        scenario.note("after the refusal", status(scenario, &id));
        scenario.call_and_note(&["delete", "--force", &id]);
        // crun does not wait for the process to exit.
        wait_until("the process to exit", || (!first.is_alive()).then_some(()));
        scenario.note("after the force", status(scenario, &id));
        for again in [&["delete"][..], &["delete", "--force"], &["delete", "-f"]] {
            scenario.call_and_note(&[again, &[id.as_str()]].concat());
        }
        let created = scenario.node.id("d");
        let bundle = scenario.node.bundle(&created).arguments(&["/bin/sleep", "1000"]).make();
        scenario.call(&["create", "--bundle", path_str(bundle.dir()), &created]).success();
        scenario.note(
            "a container that was never started",
            exit_status(&scenario.call(&["delete", &created])),
        );
        scenario.note("then", status(scenario, &created));
        scenario.call(&["delete", "--force", &created]);
        assert_eq!(
            cgroups_of(scenario.node.prefix()).iter().filter(|dir| dir.ends_with(&id)).count(),
            0
        );
    });
}

#[test]
fn kill_is_transparent() {
    check_transparent("kill", |scenario| {
        let id = scenario.start_waiting_container("c");
        for signal in ["0", "SIGWINCH", "winch", "28", "NOSUCH", "999", "-1"] {
            scenario.call_and_note(&["kill", &id, signal]);
        }
        scenario.note("still", status(scenario, &id));
        // The default signal is SIGTERM, at which the container exits with 3.
        scenario.call_and_note(&["kill", &id]);
        scenario.wait_for(&id, "stopped");
        for verb in [
            &["kill", &id, "TERM"][..],
            &["start", &id],
            &["exec", &id, "/bin/true"],
            &["pause", &id],
        ] {
            scenario.note(verb[0], exit_status(&scenario.call(verb)));
        }
        scenario.call_and_note(&["delete", &id]);
    });
}

/// Without a pid namespace, the other processes of a container survive the end of the first
/// process.
#[test]
fn kill_all_is_transparent() {
    check_transparent("kill --all", |scenario| {
        let script = "sleep 1001 & echo $! ; echo ready; while :; do sleep 0.05; done";
        let id = scenario.start_container("c", &["/bin/sh", "-c", script], |config| {
            let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
            namespaces.retain(|namespace| namespace["type"] != "pid");
        });
        let first = scenario.pid(&id);
        let others: Vec<_> =
            Process::all().into_iter().filter(|p| p.parent() == Some(first.0)).collect();
        assert!(!others.is_empty());
        scenario.note("kill --all", exit_status(&scenario.call(&["kill", "--all", &id, "KILL"])));
        scenario.wait_for(&id, "stopped");
        wait_until("all processes to exit", || others.iter().all(|p| !p.is_alive()).then_some(()));
        scenario.call_and_note(&["delete", &id]);
    });
}

#[test]
fn a_duplicate_id_is_transparent() {
    check_transparent("duplicate id", |scenario| {
        let id = scenario.start_waiting_container("c");
        let first = scenario.pid(&id);
        let bundle =
            scenario.node.bundle(&scenario.node.id("other")).arguments(&["/bin/true"]).make();
        let original = bundle.bytes();
        for verb in ["create", "run"] {
            let ended = scenario.call_and_note(&[verb, "--bundle", path_str(bundle.dir()), &id]);
            assert_ne!(ended.code, Some(0));
        }
        assert_eq!(bundle.bytes(), original);
        assert_eq!(scenario.pid(&id), first);
        scenario.call_and_note(&["delete", "--force", &id]);
        scenario.call_and_note(&["run", "--bundle", path_str(bundle.dir()), &id]);
    });
}

#[test]
fn an_unknown_id_is_transparent() {
    check_transparent("unknown id", |scenario| {
        let id = scenario.node.id("unknown");
        scenario.start_waiting_container("c");
        for verb in
            ["state", "start", "kill", "pause", "resume", "delete", "update", "ps", "events"]
        {
            let ended = scenario.call_and_note(&[verb, &id]);
            assert_ne!(ended.code, Some(0), "{verb}");
        }
    });
}

#[test]
fn pause_and_resume_are_transparent() {
    check_transparent("pause", |scenario| {
        let id = scenario.start_waiting_container("c");
        for verb in ["pause", "pause", "resume", "resume", "pause"] {
            scenario.call_and_note(&[verb, &id]);
            // The kernel freezes a cgroup asynchronously, and crun does not wait for it.
            let expected = if verb == "pause" { "paused" } else { "running" };
            scenario.wait_for(&id, expected);
            scenario.note(verb, status(scenario, &id));
        }
        scenario.note("exec", exit_status(&scenario.call(&["exec", &id, "/bin/true"])));
        scenario.note("delete", exit_status(&scenario.call(&["delete", &id])));
        scenario.call_and_note(&["delete", "--force", &id]);
        scenario.note("then", status(scenario, &id));
    });
}
