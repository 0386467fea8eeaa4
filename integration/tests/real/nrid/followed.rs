//! Tests of `start` and `delete` whose wrapper has become the runtime when `nrid` is killed: the
//! next `nrid` follows the runtime, and does not call it for its `state`.

use nri_integration::*;
use serde_json::Value;
use std::{fs, thread};

/// A created container whose runtime pauses in a verb, and notes calls of `state`.
struct Followed {
    node: Node,
    paused: PausedRuntime,
    journal: Journal,
    id: String,
}

impl Followed {
    /// Creates the container. `case` is the `case` clause of a verb.
    fn new(runtime: &Runtime, go_plugin: &Program, case: &str) -> Self {
        let node = Node::new(runtime);
        let state = format!("state) echo >>'{}' ;;\n", node.path("states").display());
        let paused = PausedRuntime::with_cases(&node, &format!("{state}{case}"));
        let journal = node.launch("10-observer", go_plugin, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let mut create = node.wrapper_of(&paused.runtime);
        create.args(["create", "--bundle"]).arg(bundle.dir()).arg(&id);
        node.run(create).success();
        assert_eq!(
            node.log().contains("does not report exit codes"),
            !kernel_reports_exit_codes(),
            "{}",
            node.log()
        );
        Self { node, paused, journal, id }
    }

    fn call(&self, arguments: &[&str]) -> Ended {
        let mut command = self.node.wrapper_of(&self.paused.runtime);
        command.args(arguments).arg(&self.id);
        self.node.run(command)
    }

    /// Calls a verb that pauses in the runtime, and kills `nrid` meanwhile. Then calls `next`,
    /// which resumes the runtime, before or after the start of the next `nrid`. Returns how the
    /// verb ended.
    fn call_across_nrids(&self, arguments: &[&str], next: impl FnOnce()) -> Ended {
        thread::scope(|scope| {
            let caller = scope.spawn(|| self.call(arguments));
            self.paused.wait_for_pause();
            self.node.kill_nrid();
            let _ = fs::remove_file(self.node.path("states"));
            next();
            caller.join().unwrap()
        })
    }

    fn restart(&self) {
        self.node.ctl(&["start"]).success();
    }

    /// Status of the container in its record; `None` while the record cannot be read.
    fn status(&self) -> Option<String> {
        let text = fs::read(self.node.records("containers").first()?).ok()?;
        let record: Value = serde_json::from_slice(&text).ok()?;
        Some(record["status"].as_str()?.to_owned())
    }

    /// Checks that `nrid` has not called `state`, and deletes the container.
    fn finish(self) {
        self.check_no_state();
        self.call(&["delete", "--force"]).success();
        self.journal.wait_for("RemovePodSandbox", &self.id);
        let events = self.journal.events(&self.id);
        for event in ["StopContainer", "RemoveContainer"] {
            assert_eq!(events.iter().filter(|e| *e == event).count(), 1, "{event}: {events:?}");
        }
    }

    fn check_no_state(&self) {
        let states = fs::read_to_string(self.node.path("states")).unwrap_or_default();
        assert_eq!(states.lines().count(), 0, "nrid has called state");
    }
}

#[test]
fn the_next_nrid_follows_a_start() {
    let Some(go_plugin) = go_plugin("followed start") else { return };
    // Paused before and after the runtime has started the container.
    let cases = ["start) pause ;;", r#"start) "$real" "$@"; code=$?; pause; exit $code ;;"#];
    for case in cases {
        for_each_runtime("followed start", |runtime| {
            let followed = Followed::new(runtime, &go_plugin, case);
            let ended = followed.call_across_nrids(&["start"], || {
                followed.restart();
                assert_eq!(followed.status().unwrap(), "created");
                followed.paused.resume();
            });
            ended.success();
            followed.journal.wait_for("PostStartContainer", &followed.id);
            assert_eq!(followed.status().unwrap(), "running");
            assert_eq!(followed.node.state(&followed.id).unwrap()["status"], "running");
            followed.finish();
        });
    }
}

#[test]
fn the_next_nrid_finds_a_start_whose_runtime_has_ended() {
    let Some(go_plugin) = go_plugin("start without nrid") else { return };
    for_each_runtime("start without nrid", |runtime| {
        let followed = Followed::new(runtime, &go_plugin, "start) pause ;;");
        let ended = followed.call_across_nrids(&["start"], || followed.paused.resume());
        ended.success();
        followed.restart();
        assert_eq!(followed.status().unwrap(), "running");
        followed.finish();
    });
}

#[test]
fn the_next_nrid_follows_a_start_that_fails() {
    let Some(go_plugin) = go_plugin("followed start that fails") else { return };
    for_each_runtime("followed start that fails", |runtime| {
        let case = r#"start) [ -e "$0.paused" ] || { : >"$0.paused"; pause; exit 3; } ;;"#;
        let followed = Followed::new(runtime, &go_plugin, case);
        let ended = followed.call_across_nrids(&["start"], || {
            followed.restart();
            followed.paused.resume();
        });
        assert_eq!(ended.code, Some(3));
        assert_eq!(followed.status().unwrap(), "created");
        followed.call(&["start"]).success();
        followed.journal.wait_for("PostStartContainer", &followed.id);
        followed.finish();
    });
}

#[test]
fn the_next_nrid_follows_a_delete() {
    let Some(go_plugin) = go_plugin("followed delete") else { return };
    for_each_runtime("followed delete", |runtime| {
        let followed = Followed::new(runtime, &go_plugin, "delete) pause ;;");
        followed.call(&["start"]).success();
        followed.call(&["kill"]).success();
        let ended = followed.call_across_nrids(&["delete", "--force"], || {
            followed.restart();
            assert_eq!(followed.node.status().unwrap()["containers"], 1);
            followed.paused.resume();
        });
        ended.success();
        followed.journal.wait_for("RemoveContainer", &followed.id);
        wait_until("the record to be removed", || followed.status().is_none().then_some(()));
        followed.check_no_state();
    });
}
