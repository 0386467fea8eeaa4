//! Tests of the engine's hooks while `nrid` injects hooks between them: the order of the hooks,
//! their input, and the effect of a failed hook.

use super::{ScenarioRun, check_transparent, exit_status, path_str};
use nri_integration::*;
use serde_json::{Value, json};
use std::fs;

const STAGES: [&str; 6] =
    ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// Creates a bundle with two hooks of each stage, each of which logs a line. The hooks of the stage
/// `failing` fail.
fn bundle(scenario: &ScenarioRun, id: &str, failing: Option<&str>, arguments: &[&str]) -> Bundle {
    let bundle = scenario.node.bundle(id).arguments(arguments).make();
    let log_dir = scenario.node.path("hooks");
    fs::create_dir_all(&log_dir).unwrap();
    bundle.edit(|config| {
        // Some hooks run in the container, where the log must have the same path.
        config["mounts"].as_array_mut().unwrap().push(json!({
            "destination": path_str(&log_dir), "type": "bind", "source": path_str(&log_dir),
            "options": ["bind", "rw"]
        }));
        config["root"]["readonly"] = json!(false);
        let hook = |name: &str, n: u8| {
            let end = if failing == Some(name) { "exit 5" } else { "exit 0" };
            let status = "sed -n 's/.*\"status\": *\"\\([a-z]*\\)\".*/\\1/p'";
            let mut hook = json!({
                "path": "/bin/sh",
                "args": ["sh", "-c", format!("echo {name} {n} $(cat | tr -d '\\n' | {status}) \
                    $MARK >>{}/log; {end}", path_str(&log_dir))],
                "env": [format!("MARK={name}"), "PATH=/bin:/usr/bin"]
            });
            // crun 1.8.1 may miss the exit of a hook with a timeout, and then waits until the
            // timeout. On two busy cores this happened in about 3 % of the runs.
            if scenario.node.runtime().name != "crun" {
                hook["timeout"] = json!(20);
            }
            hook
        };
        let hooks = STAGES.map(|name| (name.to_owned(), json!([hook(name, 1), hook(name, 2)])));
        config["hooks"] = Value::Object(hooks.into_iter().collect());
    });
    bundle
}

/// Returns the lines of the hooks' log so far, and removes the log. Lines of `startContainer` are
/// moved to the end, since crun does not wait for these hooks.
fn take_log(scenario: &ScenarioRun) -> String {
    let file = scenario.node.path("hooks/log");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(file);
    let (late, others): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.starts_with("startContainer"));
    [others, late].concat().join("\n")
}

/// Waits until both hooks of the stage `startContainer` have been called.
fn wait_for_start_container_hooks(scenario: &ScenarioRun) {
    wait_until("startContainer", || {
        let text = fs::read_to_string(scenario.node.path("hooks/log")).unwrap_or_default();
        text.contains("startContainer 2").then_some(())
    });
}

#[test]
fn hooks_of_the_engine_run_in_order_with_the_state() {
    check_transparent("hooks in order", |scenario| {
        let id = scenario.node.id("c");
        let long = bundle(scenario, &id, None, &["/bin/sleep", "1000"]);
        let original = long.bytes();
        scenario.call(&["create", "--bundle", path_str(long.dir()), &id]).success();
        scenario.note("create", take_log(scenario));
        scenario.call(&["start", &id]).success();
        wait_for_start_container_hooks(scenario);
        scenario.note("start", take_log(scenario));
        scenario.call(&["kill", &id, "KILL"]).success();
        scenario.wait_for(&id, "stopped");
        scenario.call(&["delete", &id]).success();
        let last = take_log(scenario);
        assert!(last.starts_with("poststop 1"), "{last}");
        scenario.note("delete", last);
        assert_eq!(long.bytes(), original);
        let short = bundle(scenario, &id, None, &["/bin/sh", "-c", "exit 4"]);
        scenario.note(
            "run",
            exit_status(&scenario.call(&["run", "--bundle", path_str(short.dir()), &id])),
        );
        let all = take_log(scenario);
        assert_eq!(all.lines().count(), 2 * STAGES.len(), "{all}");
        scenario.note("run", all);
    });
}

#[test]
fn failing_hooks_of_the_engine_are_transparent() {
    check_transparent("hooks that fail", |scenario| {
        // crun does not wait for the hooks of startContainer, and may miss that such a hook fails.
        let is_crun = scenario.node.runtime().name == "crun";
        for name in STAGES {
            let id = scenario.node.id("c");
            let long = bundle(scenario, &id, Some(name), &["/bin/sleep", "1000"]);
            for verbs in [&["create", "start"][..], &["run"]] {
                for verb in verbs {
                    let ended = match *verb {
                        "create" => {
                            scenario.call(&["create", "--bundle", path_str(long.dir()), &id])
                        }
                        "run" => scenario.call(&[
                            "run",
                            "--detach",
                            "--bundle",
                            path_str(long.dir()),
                            &id,
                        ]),
                        verb => scenario.call(&[verb, &id]),
                    };
                    if name == "poststart" && !is_crun {
                        // The message contains the number of the hook, which must not count
                        // injected hooks.
                        scenario.note("err", ended.err());
                    }
                    if name != "startContainer" || !is_crun {
                        scenario.note(format_args!("{name}, {verb}"), exit_status(&ended));
                    }
                }
                scenario.note("delete", exit_status(&scenario.call(&["delete", "--force", &id])));
                scenario.note("then", scenario.node.state(&id).is_some());
                // Hooks that run in the container may be killed before they log.
                let reported = |line: &&str| !line.starts_with("startContainer");
                scenario.note(
                    "hooks",
                    take_log(scenario).lines().filter(reported).collect::<Vec<_>>().join("\n"),
                );
            }
        }
    });
}

#[test]
fn missing_hooks_of_the_engine_are_transparent() {
    check_transparent("missing hooks", |scenario| {
        for name in STAGES {
            let id = scenario.node.id("c");
            let bundle = scenario.node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
            bundle.edit(|config| config["hooks"] = json!({name: [{"path": "/nowhere/hook"}]}));
            let ended =
                scenario.call(&["run", "--detach", "--bundle", path_str(bundle.dir()), &id]);
            // The process of crun that calls poststart hooks may die by SIGPIPE when it writes to
            // a missing hook; the exit code of `run` is then 0 or 1.
            if name != "poststart" || scenario.node.runtime().name != "crun" {
                scenario.note(name, exit_status(&ended));
            }
            // The result is not noted: crun may die by SIGPIPE when it writes to a missing hook.
            scenario.call(&["delete", "--force", &id]);
        }
    });
}
