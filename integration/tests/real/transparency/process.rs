//! Attributes of the container's first process, inherited from the caller or set in `config.json`:
//! umask, limits, signals, environment, working directory, user.

use super::{Stage, alike, how, saying, text};
use serde_json::json;

const SHOW: &str = "umask; pwd; ulimit -n; ulimit -c; cat /proc/self/oom_score_adj; nice; grep -E \
    '^(SigBlk|SigIgn|CapEff|NoNewPrivs|Seccomp):' /proc/$$/status; env | sort | grep -v -E \
    '^(NRI_SEEN|_)='";

/// Runs a container by `run` and by `create` and `start`, called after the shell command `first`,
/// and notes the attributes that it prints.
fn run(stage: &Stage, name: &str, first: &str, edit: impl FnOnce(&mut serde_json::Value)) {
    let id = stage.node.id("c");
    let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", SHOW]).make();
    bundle.edit(edit);
    let mut command = stage.after(first);
    command.args(["run", "--bundle", text(bundle.dir()), &id]);
    stage.note(format_args!("{name}, run"), saying(&stage.node.run(command)));
    let mut create = stage.after(first);
    create.args(["create", "--bundle", text(bundle.dir()), &id]);
    let created = stage.node.run(create);
    let mut start = stage.after(first);
    start.args(["start", &id]);
    let started = stage.node.run(start);
    if started.code == Some(0) {
        stage.wait_for(&id, "stopped");
    }
    stage.note(
        format_args!("{name}, create and start"),
        format_args!("{} {}", how(&started), saying(&created)),
    );
    stage.call(&["delete", "--force", &id]).success();
}

#[test]
fn the_callers_process_attributes_are_transparent() {
    alike("process attributes of the caller", |stage| {
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
            run(stage, first, first, |_| {});
        }
    });
}

#[test]
fn the_process_of_config_json_is_transparent() {
    alike("process of config.json", |stage| {
        run(stage, "umask", "umask 027", |d| d["process"]["user"]["umask"] = json!(63));
        run(stage, "cwd", "cd /usr", |d| d["process"]["cwd"] = json!("/tmp"));
        run(stage, "a missing cwd", "true", |d| d["process"]["cwd"] = json!("/nowhere"));
        run(stage, "user", "true", |d| {
            d["process"]["user"] = json!({"uid": 1000, "gid": 1001, "additionalGids": [5]})
        });
        run(stage, "limits", "true", |d| {
            d["process"]["rlimits"] = json!([{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}]);
        });
        run(stage, "no arguments", "true", |d| d["process"]["args"] = json!([]));
        run(stage, "no root", "true", |d| drop(d.as_object_mut().unwrap().remove("root")));
        run(stage, "a missing root", "true", |d| d["root"]["path"] = json!("nowhere"));
        run(stage, "an unknown namespace", "true", |d| {
            d["linux"]["namespaces"].as_array_mut().unwrap().push(json!({"type": "nosuch"}));
        });
    });
}

/// The wrapper may refuse such a bundle itself, but only where the runtime would, too.
#[test]
fn a_broken_config_json_is_transparent() {
    alike("broken config.json", |stage| {
        let without_process =
            "{\"ociVersion\": \"1.0.2\", \"root\": {\"path\": \"rootfs\"}, \"linux\": {}}";
        for (n, content) in [without_process, "", "{", "[]", "null", "{}", "{\"process\": 7}"]
            .into_iter()
            .enumerate()
        {
            let id = stage.node.id(&format!("c{n}"));
            let bundle = stage.node.bundle(&id).make();
            std::fs::write(bundle.config(), content).unwrap();
            for verb in ["create", "run"] {
                let ended = stage.call(&[verb, "--bundle", text(bundle.dir()), &id]);
                // Only success is compared: runc panics at some of these, with another exit code.
                stage.note(format_args!("{verb} {content}"), ended.code == Some(0));
            }
        }
        let id = stage.node.id("none");
        let bundle = stage.node.bundle(&id).make();
        std::fs::remove_file(bundle.config()).unwrap();
        for verb in ["create", "run"] {
            stage.reported(&[verb, "--bundle", text(bundle.dir()), &id]);
        }
    });
}
