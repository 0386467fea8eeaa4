//! `checkpoint` and `restore`, where criu and the runtime support them.

use super::{Stage, Way, alike, saying, text};
use nri_integration::*;
use std::process::Command;

/// Script of a container that counts: a restored container continues at the count of the
/// checkpoint.
const SCRIPT: &str = "n=0; while :; do n=$((n + 1)); echo $n >/tmp/count; sleep 0.05; done";
/// Redirection of standard files: criu cannot checkpoint open files from outside of the container.
const QUIET: &str = "exec </dev/null >/dev/null 2>&1";

/// Runs, checkpoints and restores a container, and notes each step. Returns the message of the
/// first step that fails.
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
            Err(format!("{verb}: {}", ended.err().lines().last().unwrap_or("no message")))
        }
    };
    let count = || {
        let mut exec = program();
        exec.args(["exec", &id, "/bin/cat", "/tmp/count"]);
        stage.node.run(exec).out().trim().parse::<u64>().ok()
    };
    let wait_for_progress = || {
        let before = wait_until("a count", count);
        wait_until("a higher count", || count().filter(|now| *now > before));
    };
    let dir = ["--bundle", text(bundle.dir())];
    call(QUIET, "run", &[&["--detach"], &dir[..]].concat())?;
    for _ in 0..2 {
        wait_for_progress();
        call("true", "checkpoint", &["--image-path", text(&images)])?;
        stage.note("then", stage.node.state(&id).is_some());
        call(QUIET, "restore", &[&["--detach", "--image-path", text(&images)], &dir[..]].concat())?;
        stage.wait_for(&id, "running");
    }
    wait_for_progress();
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
            // `alike` requires that the plugin received an event.
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
