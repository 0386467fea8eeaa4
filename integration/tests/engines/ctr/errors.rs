//! Tests of the errors of the wrapper and of the runtime that `ctr` shows to its user.

use super::{SET_ENV_A, run, run_bare};
use nri_integration::{engines::*, *};
use serde_json::json;

#[test]
fn a_missing_command_fails_as_with_the_bare_runtime() {
    for_each_suite("ctr run, no such command", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch("10-adjust", &Program::Adjust, SET_ENV_A);
        let (ours, bare) = (containerd.id("c"), containerd.id("b"));
        let with_wrapper = run(&containerd, &["--detach"], &ours, &["/nonexistent/program"]);
        let with_runc = run_bare(&containerd, &["--detach"], &bare, &["/nonexistent/program"]);
        assert!(with_wrapper.err().contains("/nonexistent/program"), "{}", with_wrapper.err());
        assert_eq!(with_wrapper.err().replace(&ours, "ID"), with_runc.err().replace(&bare, "ID"));
        assert_eq!(with_wrapper.code, with_runc.code);
        journal.wait_for("RemovePodSandbox", &ours);
        assert_eq!(
            containerd.status().unwrap()["containers"],
            0,
            "nrid still has a record of the failed container"
        );
        let received = journal.events(&ours);
        assert_eq!(received[..3], life_cycle(&[])[..3]);
        assert_eq!(received[received.len() - 4..], FROM_STOP);
    });
}

#[test]
fn a_refusal_reaches_the_user() {
    let Some(go_plugin) = go_plugin("ctr refusal") else { return };
    for_each_suite("ctr refusal", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let config = json!({"rules": [{"error": "not today"}]});
        containerd.launch("10-strict", &go_plugin, &config.to_string());
        let id = containerd.id("c");
        let refused = run(&containerd, &["--detach"], &id, &["/bin/sleep", "1000"]);
        assert_eq!(refused.code, Some(1));
        for part in ["10-strict", "not today", &id] {
            assert!(refused.err().contains(part), "{part:?} is not in: {}", refused.err());
        }
        assert_eq!(containerd.ctr(&["tasks", "ls", "--quiet"]).out(), "");
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}

#[test]
fn a_conflict_names_both_plugins_and_the_field() {
    for_each_suite("ctr conflict", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        containerd.launch("10-one", &Program::Adjust, "[create.resources]\nmemory = 67108864\n");
        containerd.launch("20-other", &Program::Adjust, "[create.resources]\nmemory = 50331648\n");
        let id = containerd.id("c");
        let refused = run(&containerd, &["--detach"], &id, &["/bin/sleep", "1000"]);
        assert_eq!(refused.code, Some(1));
        for part in ["one", "other", "memory.limit"] {
            assert!(refused.err().contains(part), "{part:?} is not in: {}", refused.err());
        }
        assert_eq!(containerd.ctr(&["tasks", "ls", "--quiet"]).out(), "");
    });
}
