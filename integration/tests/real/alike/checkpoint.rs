//! Checkpoint and restore, where criu and the runtime can do it.

use super::{Stage, Way, alike, how, saying, text};
use nri_integration::*;

/// Counts, so that what is restored shows that it went on.
const SCRIPT: &str = "n=0; echo ready; while :; do n=$((n + 1)); echo $n >/tmp/count; sleep 0.05; done";

/// The reason why the bare runtime cannot do it here.
fn unable(stage: &Stage) -> Option<String> {
    let id = stage.node.id("try");
    let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", SCRIPT]).make();
    let images = stage.node.path("try-images");
    stage.node.bare(&["run", "--detach", "--bundle", text(bundle.dir()), &id]);
    let checkpoint = stage.node.bare(&["checkpoint", "--image-path", text(&images), &id]);
    let restore = stage.node.bare(&[
        "restore",
        "--detach",
        "--image-path",
        text(&images),
        "--bundle",
        text(bundle.dir()),
        &id,
    ]);
    stage.node.bare(&["delete", "--force", &id]);
    let failed = [checkpoint, restore].into_iter().find(|ended| ended.code != Some(0))?;
    Some(failed.err().lines().last().unwrap_or("it said nothing").to_owned())
}

#[test]
fn and_restore() {
    alike("checkpoint", |stage| {
        if let Some(reason) = unable(stage) {
            if stage.way == Way::Bare {
                limitation(&format!("checkpoint ({})", stage.node.runtime().name), &reason);
            }
            // So that all three say it, and a plugin has heard of something.
            stage.note("state", how(&stage.call(&["state", &stage.waiting("c")])));
            return;
        }
        let id = stage.node.id("c");
        let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", SCRIPT]).make();
        let original = bundle.bytes();
        let images = stage.node.path("images");
        let ran = stage.call(&["run", "--detach", "--bundle", text(bundle.dir()), &id]).success();
        wait_until("the container", || ran.out().contains("ready").then_some(()));
        for n in 0..2 {
            let ended = stage.call(&["checkpoint", "--image-path", text(&images), &id]);
            stage.note(format_args!("checkpoint {n}"), saying(&ended));
            stage.note("then", stage.node.state(&id).is_some());
            let ended = stage.call(&[
                "restore",
                "--detach",
                "--image-path",
                text(&images),
                "--bundle",
                text(bundle.dir()),
                &id,
            ]);
            stage.note(format_args!("restore {n}"), saying(&ended));
            assert_eq!(ended.code, Some(0), "{}", ended.err());
            stage.wait_for(&id, "running");
            let count = || {
                stage.call(&["exec", &id, "/bin/cat", "/tmp/count"]).out().trim().parse::<u64>().unwrap_or(0)
            };
            let before = count();
            wait_until("the count to go on", || (count() > before).then_some(()));
        }
        stage.told(&["delete", "--force", &id]);
        assert_eq!(bundle.bytes(), original);
    });
}
