//! Test of `checkpoint` and `restore`, where criu and the runtime support them.

use super::{ScenarioRun, Way, check_transparent, path_str, status_and_output};
use nri_integration::*;
use std::process::Command;

/// Script that counts, so that the test sees whether a restored container continues.
const SCRIPT: &str = "n=0; while :; do n=$((n + 1)); echo $n >/tmp/count; sleep 0.05; done";
/// Redirection of stdin, stdout and stderr, since criu cannot checkpoint files that were opened
/// outside of the container.
const QUIET: &str = "exec </dev/null >/dev/null 2>&1";

/// Runs a container, checkpoints and restores it twice, and notes each step. Returns the message of
/// the first step that fails.
fn checkpoint_and_restore(
    scenario: &ScenarioRun,
    name: &str,
    program: &dyn Fn() -> Command,
) -> Result<(), String> {
    let id = scenario.node.id(name);
    let bundle = scenario.node.bundle(&id).arguments(&["/bin/sh", "-c", SCRIPT]).make();
    let original = bundle.bytes();
    let images = scenario.node.path(&format!("{name}-images"));
    let call = |first: &str, verb: &str, arguments: &[&str]| {
        let mut command = command_after(first, &program());
        command.args([verb]).args(arguments).arg(&id);
        let ended = scenario.node.run(command);
        scenario.note(verb, status_and_output(&ended));
        if ended.code == Some(0) {
            Ok(())
        } else {
            Err(format!("{verb}: {}", ended.err().lines().last().unwrap_or("no message")))
        }
    };
    let count = || {
        let mut exec = program();
        exec.args(["exec", &id, "/bin/cat", "/tmp/count"]);
        scenario.node.run(exec).out().trim().parse::<u64>().ok()
    };
    let wait_for_progress = || {
        let before = wait_until("a count", count);
        wait_until("a higher count", || count().filter(|now| *now > before));
    };
    let dir = ["--bundle", path_str(bundle.dir())];
    call(QUIET, "run", &[&["--detach"], &dir[..]].concat())?;
    for _ in 0..2 {
        wait_for_progress();
        call("true", "checkpoint", &["--image-path", path_str(&images)])?;
        scenario.note("then", scenario.node.state(&id).is_some());
        call(
            QUIET,
            "restore",
            &[&["--detach", "--image-path", path_str(&images)], &dir[..]].concat(),
        )?;
        scenario.wait_for(&id, "running");
    }
    wait_for_progress();
    call("true", "delete", &["--force"])?;
    assert_eq!(bundle.bytes(), original);
    Ok(())
}

#[test]
fn checkpoint_and_restore_are_transparent() {
    check_transparent("checkpoint", |scenario| {
        let bare = || scenario.node.runtime().command(&scenario.node.root());
        if let Err(reason) = checkpoint_and_restore(scenario, "try", &bare) {
            if scenario.way == Way::Bare {
                limitation(&format!("checkpoint ({})", scenario.node.runtime().name), &reason);
            }
            // `check_transparent` requires that the plugin received an event.
            scenario.start_waiting_container("c");
            scenario.notes.take();
            scenario.note("skipped", reason);
            return;
        }
        scenario.notes.take();
        let result = checkpoint_and_restore(scenario, "c", &|| scenario.command());
        assert_eq!(result, Ok(()), "{:?}", scenario.notes);
    });
}
