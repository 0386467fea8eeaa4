//! Hooks of the engine: their order, their input, and the effect of their failure, with the hooks
//! of the wrapper injected between them.

use super::{Stage, alike, how, text};
use nri_integration::*;
use serde_json::{Value, json};
use std::fs;

const STAGES: [&str; 6] =
    ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// Makes a bundle with two hooks of each stage, each of which logs a line. The hooks of the stage
/// `failing` fail.
fn bundle(stage: &Stage, id: &str, failing: Option<&str>, arguments: &[&str]) -> Bundle {
    let bundle = stage.node.bundle(id).arguments(arguments).make();
    let log = stage.node.path("hooks");
    fs::create_dir_all(&log).unwrap();
    bundle.edit(|config| {
        // Some hooks run in the container, where the log must have the same path.
        config["mounts"].as_array_mut().unwrap().push(json!({
            "destination": text(&log), "type": "bind", "source": text(&log),
            "options": ["bind", "rw"]
        }));
        config["root"]["readonly"] = json!(false);
        let hook = |name: &str, n: u8| {
            let end = if failing == Some(name) { "exit 5" } else { "exit 0" };
            let status = "sed -n 's/.*\"status\": *\"\\([a-z]*\\)\".*/\\1/p'";
            let mut hook = json!({
                "path": "/bin/sh",
                "args": ["sh", "-c", format!("echo {name} {n} $(cat | tr -d '\\n' | {status}) \
                    $MARK >>{}/log; {end}", text(&log))],
                "env": [format!("MARK={name}"), "PATH=/bin:/usr/bin"]
            });
            // crun 1.8.1 may miss the exit of a hook that has a timeout, and then waits for the
            // whole timeout: in some 3 % of these runs on two busy cores.
            if stage.node.runtime().name != "crun" {
                hook["timeout"] = json!(20);
            }
            hook
        };
        let hooks = STAGES.map(|name| (name.to_owned(), json!([hook(name, 1), hook(name, 2)])));
        config["hooks"] = Value::Object(hooks.into_iter().collect());
    });
    bundle
}

/// Returns the lines of the log so far and removes it. Lines of `startContainer` are moved to the
/// end, since crun does not wait for these hooks.
fn log(stage: &Stage) -> String {
    let file = stage.node.path("hooks/log");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(file);
    let (late, others): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.starts_with("startContainer"));
    [others, late].concat().join("\n")
}

/// Waits until both hooks of `startContainer` have been called.
fn wait_for_the_start(stage: &Stage) {
    wait_until("startContainer", || {
        let text = fs::read_to_string(stage.node.path("hooks/log")).unwrap_or_default();
        text.contains("startContainer 2").then_some(())
    });
}

#[test]
fn hooks_of_the_engine_run_in_order_with_the_state() {
    alike("hooks in order", |stage| {
        let id = stage.node.id("c");
        let long = bundle(stage, &id, None, &["/bin/sleep", "1000"]);
        let original = long.bytes();
        stage.call(&["create", "--bundle", text(long.dir()), &id]).success();
        stage.note("create", log(stage));
        stage.call(&["start", &id]).success();
        wait_for_the_start(stage);
        stage.note("start", log(stage));
        stage.call(&["kill", &id, "KILL"]).success();
        stage.wait_for(&id, "stopped");
        stage.call(&["delete", &id]).success();
        let last = log(stage);
        assert!(last.starts_with("poststop 1"), "{last}");
        stage.note("delete", last);
        assert_eq!(long.bytes(), original);
        let short = bundle(stage, &id, None, &["/bin/sh", "-c", "exit 4"]);
        stage.note("run", how(&stage.call(&["run", "--bundle", text(short.dir()), &id])));
        let all = log(stage);
        assert_eq!(all.lines().count(), 12, "{all}");
        stage.note("run", all);
    });
}

#[test]
fn failing_hooks_of_the_engine_are_transparent() {
    alike("hooks that fail", |stage| {
        // crun does not wait for the hooks of startContainer: whether their failure is reported is
        // a race.
        let crun = stage.node.runtime().name == "crun";
        for name in STAGES {
            let id = stage.node.id("c");
            let long = bundle(stage, &id, Some(name), &["/bin/sleep", "1000"]);
            for verbs in [&["create", "start"][..], &["run"]] {
                for verb in verbs {
                    let ended = match *verb {
                        "create" => stage.call(&["create", "--bundle", text(long.dir()), &id]),
                        "run" => {
                            stage.call(&["run", "--detach", "--bundle", text(long.dir()), &id])
                        }
                        verb => stage.call(&[verb, &id]),
                    };
                    if name == "poststart" && !crun {
                        // The message names the number of the hook among those of the engine.
                        stage.note("err", ended.err());
                    }
                    if name != "startContainer" || !crun {
                        stage.note(format_args!("{name}, {verb}"), how(&ended));
                    }
                }
                stage.note("delete", how(&stage.call(&["delete", "--force", &id])));
                stage.note("then", stage.node.state(&id).is_some());
                // Hooks that run in the container may be killed before they log.
                let reported = |line: &&str| !line.starts_with("startContainer");
                stage.note(
                    "hooks",
                    log(stage).lines().filter(reported).collect::<Vec<_>>().join("\n"),
                );
            }
        }
    });
}

#[test]
fn missing_hooks_of_the_engine_are_transparent() {
    alike("missing hooks", |stage| {
        for name in STAGES {
            let id = stage.node.id("c");
            let bundle = stage.node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
            bundle.edit(|config| config["hooks"] = json!({name: [{"path": "/nowhere/hook"}]}));
            stage.note(
                name,
                how(&stage.call(&["run", "--detach", "--bundle", text(bundle.dir()), &id])),
            );
            // The result is not noted: whether crun dies by SIGPIPE when it writes to a missing
            // hook is a race.
            stage.call(&["delete", "--force", &id]);
        }
    });
}
