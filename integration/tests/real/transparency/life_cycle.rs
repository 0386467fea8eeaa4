//! Verbs in the right and the wrong state: `kill`, `delete` with and without `--force`, `pause`, a
//! duplicate id, an unknown id.

use super::{Stage, alike, how, text};
use nri_integration::*;

fn status(stage: &Stage, id: &str) -> String {
    stage.node.state(id).map_or_else(|| "deleted".to_owned(), |state| state["status"].to_string())
}

#[test]
fn delete_is_transparent() {
    alike("delete", |stage| {
        let id = stage.waiting("c");
        let first = stage.pid(&id);
        let refused = stage.reported(&["delete", &id]);
        assert_ne!(refused.code, Some(0), "the container runs");
        assert!(first.is_alive());
        stage.note("after the refusal", status(stage, &id));
        stage.reported(&["delete", "--force", &id]);
        // crun does not wait for the process to exit.
        wait_until("the process to exit", || (!first.is_alive()).then_some(()));
        stage.note("after the force", status(stage, &id));
        for again in [&["delete"][..], &["delete", "--force"], &["delete", "-f"]] {
            stage.reported(&[again, &[id.as_str()]].concat());
        }
        let created = stage.node.id("d");
        let bundle = stage.node.bundle(&created).arguments(&["/bin/sleep", "1000"]).make();
        stage.call(&["create", "--bundle", text(bundle.dir()), &created]).success();
        stage.note("a container that was never started", how(&stage.call(&["delete", &created])));
        stage.note("then", status(stage, &created));
        stage.call(&["delete", "--force", &created]);
        assert_eq!(
            cgroups_of(stage.node.prefix()).iter().filter(|dir| dir.ends_with(&id)).count(),
            0
        );
    });
}

#[test]
fn kill_is_transparent() {
    alike("kill", |stage| {
        let id = stage.waiting("c");
        for signal in ["0", "SIGWINCH", "winch", "28", "NOSUCH", "999", "-1"] {
            stage.reported(&["kill", &id, signal]);
        }
        stage.note("still", status(stage, &id));
        // The default is SIGTERM, at which the container exits with 3.
        stage.reported(&["kill", &id]);
        stage.wait_for(&id, "stopped");
        for verb in [
            &["kill", &id, "TERM"][..],
            &["start", &id],
            &["exec", &id, "/bin/true"],
            &["pause", &id],
        ] {
            stage.note(verb[0], how(&stage.call(verb)));
        }
        stage.reported(&["delete", &id]);
    });
}

/// In a shared pid namespace the other processes of a container survive the first one.
#[test]
fn kill_all_is_transparent() {
    alike("kill --all", |stage| {
        let script = "sleep 1001 & echo $! ; echo ready; while :; do sleep 0.05; done";
        let id = stage.started("c", &["/bin/sh", "-c", script], |config| {
            let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
            namespaces.retain(|namespace| namespace["type"] != "pid");
        });
        let first = stage.pid(&id);
        let others: Vec<_> =
            Process::all().into_iter().filter(|p| p.parent() == Some(first.0)).collect();
        assert!(!others.is_empty());
        stage.note("kill --all", how(&stage.call(&["kill", "--all", &id, "KILL"])));
        stage.wait_for(&id, "stopped");
        wait_until("all processes to exit", || others.iter().all(|p| !p.is_alive()).then_some(()));
        stage.reported(&["delete", &id]);
    });
}

#[test]
fn a_duplicate_id_is_transparent() {
    alike("duplicate id", |stage| {
        let id = stage.waiting("c");
        let first = stage.pid(&id);
        let bundle = stage.node.bundle(&stage.node.id("other")).arguments(&["/bin/true"]).make();
        let original = bundle.bytes();
        for verb in ["create", "run"] {
            let ended = stage.reported(&[verb, "--bundle", text(bundle.dir()), &id]);
            assert_ne!(ended.code, Some(0));
        }
        assert_eq!(bundle.bytes(), original);
        assert_eq!(stage.pid(&id), first);
        stage.reported(&["delete", "--force", &id]);
        stage.reported(&["run", "--bundle", text(bundle.dir()), &id]);
    });
}

#[test]
fn an_unknown_id_is_transparent() {
    alike("unknown id", |stage| {
        let id = stage.node.id("unknown");
        stage.waiting("c");
        for verb in
            ["state", "start", "kill", "pause", "resume", "delete", "update", "ps", "events"]
        {
            let ended = stage.reported(&[verb, &id]);
            assert_ne!(ended.code, Some(0), "{verb}");
        }
    });
}

#[test]
fn pause_and_resume_are_transparent() {
    alike("pause", |stage| {
        let id = stage.waiting("c");
        for verb in ["pause", "pause", "resume", "resume", "pause"] {
            stage.reported(&[verb, &id]);
            // The kernel freezes a cgroup asynchronously, and crun does not wait for it.
            let wanted = if verb == "pause" { "paused" } else { "running" };
            stage.wait_for(&id, wanted);
            stage.note(verb, status(stage, &id));
        }
        stage.note("exec", how(&stage.call(&["exec", &id, "/bin/true"])));
        stage.note("delete", how(&stage.call(&["delete", &id])));
        stage.reported(&["delete", "--force", &id]);
        stage.note("then", status(stage, &id));
    });
}
