//! Checkpoint and restore, where criu and the runtime can do it.

use super::{Stage, Way, alike, saying, text};
use nri_integration::*;
use std::process::Command;

/// Counts, so that what is restored shows that it went on.
const SCRIPT: &str = "n=0; while :; do n=$((n + 1)); echo $n >/tmp/count; sleep 0.05; done";
/// criu takes no open file from outside of the container.
const QUIET: &str = "exec </dev/null >/dev/null 2>&1";

/// Runs, checkpoints and restores a container; notes each step, up to the first that fails, whose
/// words are returned.
fn play(stage: &Stage, name: &str, program: &dyn Fn() -> Command) -> Result<(), String> {
    let id = stage.node.id(name);
    let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", SCRIPT]).make();
    let original = bundle.bytes();
    let images = stage.node.path(&format!("{name}-images"));
    let call = |first: &str, verb: &str, arguments: &[&str]| {
        let mut command = after(first, &program());
        command.args([verb]).args(arguments).arg(&id);
        let ended = stage.node.run(command);
        stage.note(verb, saying(&ended));
        if ended.code == Some(0) {
            Ok(())
        } else {
            Err(format!("{verb}: {}", ended.err().lines().last().unwrap_or("it said nothing")))
        }
    };
    let count = || {
        let mut exec = program();
        exec.args(["exec", &id, "/bin/cat", "/tmp/count"]);
        stage.node.run(exec).out().trim().parse::<u64>().ok()
    };
    let goes_on = || {
        let before = wait_until("a count", count);
        wait_until("the count to go on", || count().filter(|now| *now > before));
    };
    let dir = ["--bundle", text(bundle.dir())];
    call(QUIET, "run", &[&["--detach"], &dir[..]].concat())?;
    for _ in 0..2 {
        goes_on();
        call("true", "checkpoint", &["--image-path", text(&images)])?;
        stage.note("then", stage.node.state(&id).is_some());
        call(QUIET, "restore", &[&["--detach", "--image-path", text(&images)], &dir[..]].concat())?;
        stage.wait_for(&id, "running");
    }
    goes_on();
    call("true", "delete", &["--force"])?;
    assert_eq!(bundle.bytes(), original);
    Ok(())
}

#[test]
fn checkpoint_and_restore_are_transparent() {
    alike("checkpoint", |stage| {
        let bare = || stage.node.runtime().command(&stage.node.root());
        if let Err(reason) = play(stage, "try", &bare) {
            if stage.way == Way::Bare {
                limitation(&format!("checkpoint ({})", stage.node.runtime().name), &reason);
            }
            // So that a plugin has heard of something.
            stage.waiting("c");
            stage.notes.take();
            stage.note("skipped", reason);
            return;
        }
        stage.notes.take();
        let result = play(stage, "c", &|| stage.command());
        assert_eq!(result, Ok(()), "{:?}", stage.notes);
    });
}
