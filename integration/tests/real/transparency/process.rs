//! Tests of the attributes of the container's first process, inherited from the caller or set in
//! `config.json`: umask, limits, signals, environment, working directory, user.

use super::{ScenarioRun, check_transparent, exit_status, path_str, status_and_output};
use serde_json::json;

/// Script that prints the attributes of its process.
const SHOW: &str = "umask; pwd; ulimit -n; ulimit -c; cat /proc/self/oom_score_adj; nice; grep -E \
    '^(SigBlk|SigIgn|CapEff|NoNewPrivs|Seccomp):' /proc/$$/status; env | sort | grep -v -E \
    '^(NRI_SEEN|_)='";

/// Runs a container by `run` and by `create` and `start`, called after the shell command `first`,
/// and notes the attributes that it prints.
fn run(scenario: &ScenarioRun, name: &str, first: &str, edit: impl FnOnce(&mut serde_json::Value)) {
    let id = scenario.node.id("c");
    let bundle = scenario.node.bundle(&id).arguments(&["/bin/sh", "-c", SHOW]).make();
    bundle.edit(edit);
    let mut command = scenario.command_after(first);
    command.args(["run", "--bundle", path_str(bundle.dir()), &id]);
    scenario.note(format_args!("{name}, run"), status_and_output(&scenario.node.run(command)));
    let mut create = scenario.command_after(first);
    create.args(["create", "--bundle", path_str(bundle.dir()), &id]);
    let created = scenario.node.run(create);
    let mut start = scenario.command_after(first);
    start.args(["start", &id]);
    let started = scenario.node.run(start);
    if started.code == Some(0) {
        scenario.wait_for(&id, "stopped");
    }
    scenario.note(
        format_args!("{name}, create and start"),
        format_args!("{} {}", exit_status(&started), status_and_output(&created)),
    );
    scenario.call(&["delete", "--force", &id]).success();
}

#[test]
fn the_callers_process_attributes_are_transparent() {
    check_transparent("process attributes of the caller", |scenario| {
        for first in [
            "true",
            "umask 027",
            "umask 777",
            "cd /usr",
            "ulimit -S -n 200",
            "ulimit -c 0",
            "trap '' INT USR1",
            "trap '' CHLD PIPE",
            "export MINE=1 NRI_CONTAINER_RUNTIME_X=2",
            "unset PATH HOME",
            "export PATH=",
        ] {
            run(scenario, first, first, |_| {});
        }
    });
}

#[test]
fn the_process_of_config_json_is_transparent() {
    check_transparent("process of config.json", |scenario| {
        run(scenario, "umask", "umask 027", |d| d["process"]["user"]["umask"] = json!(0o77));
        run(scenario, "cwd", "cd /usr", |d| d["process"]["cwd"] = json!("/tmp"));
        run(scenario, "a missing cwd", "true", |d| d["process"]["cwd"] = json!("/nowhere"));
        run(scenario, "user", "true", |d| {
            d["process"]["user"] = json!({"uid": 1000, "gid": 1001, "additionalGids": [5]})
        });
        run(scenario, "limits", "true", |d| {
            d["process"]["rlimits"] = json!([{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}]);
        });
        run(scenario, "no arguments", "true", |d| d["process"]["args"] = json!([]));
        run(scenario, "no root", "true", |d| drop(d.as_object_mut().unwrap().remove("root")));
        run(scenario, "a missing root", "true", |d| d["root"]["path"] = json!("/nowhere"));
        run(scenario, "an unknown namespace", "true", |d| {
            d["linux"]["namespaces"].as_array_mut().unwrap().push(json!({"type": "nosuch"}));
        });
    });
}

/// The wrapper may refuse a broken `config.json` before it calls the runtime, but only if the
/// runtime would refuse the file, too.
#[test]
fn a_broken_config_json_is_transparent() {
    check_transparent("broken config.json", |scenario| {
        let without_process =
            "{\"ociVersion\": \"1.0.2\", \"root\": {\"path\": \"rootfs\"}, \"linux\": {}}";
        for (n, content) in [without_process, "", "{", "[]", "null", "{}", "{\"process\": 7}"]
            .into_iter()
            .enumerate()
        {
            let id = scenario.node.id(&format!("c{n}"));
            let bundle = scenario.node.bundle(&id).make();
            std::fs::write(bundle.config(), content).unwrap();
            for verb in ["create", "run"] {
                let ended = scenario.call(&[verb, "--bundle", path_str(bundle.dir()), &id]);
                // Only success is compared: runc panics at some of these files, which changes the
                // exit code.
                scenario.note(format_args!("{verb} {content}"), ended.code == Some(0));
            }
        }
        let id = scenario.node.id("none");
        let bundle = scenario.node.bundle(&id).make();
        std::fs::remove_file(bundle.config()).unwrap();
        for verb in ["create", "run"] {
            scenario.call_and_note(&[verb, "--bundle", path_str(bundle.dir()), &id]);
        }
    });
}
