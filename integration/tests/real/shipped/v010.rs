//! The adapter calls plugins of NRI v0.1: a shell script, and a program made with the Go module of
//! NRI v0.1.0.

use super::{install, node};
use nri_integration::*;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Installs the adapter with its configuration and the directory of its programs.
fn launch_adapter(node: &Node, configuration: &Value) {
    let (config, programs) = (node.path("conf.json"), node.path("bin.d"));
    fs::write(&config, configuration.to_string()).unwrap();
    let arguments = format!("-config {} -bin-dir {}", config.display(), programs.display());
    install(node, "v010-adapter", &arguments);
}

/// Writes a program that appends requests to `requests`, and sets the OOM score of a container to
/// 77. It refuses containers with the annotation `refuse`.
fn write_script(node: &Node, requests: &Path) {
    fs::create_dir(node.path("bin.d")).unwrap();
    let text = format!(
        r#"#!/bin/sh
request=$(cat)
echo "$request" >>'{}'
case $request in
  *'"refuse":"yes"'*) echo '{{"plugin": "script", "error": "not on this node"}}'; exit 0 ;;
esac
pid=$(echo "$request" | sed -n 's/.*"state":"create".*"pid":\([0-9][0-9]*\).*/\1/p')
[ -z "$pid" ] || echo 77 >/proc/$pid/oom_score_adj
echo '{{"plugin": "script", "version": "0.1", "error": "", "metadata": {{"a": "b"}}}}'
"#,
        requests.display()
    );
    write_program(&node.path("bin.d").join("script"), &text);
}

#[test]
fn a_script_receives_requests_of_version_0_1_and_acts() {
    for_each_runtime("v010-adapter", |runtime| {
        let node = node(runtime);
        let requests = node.path("requests");
        write_script(&node, &requests);
        let plugins = json!([{"type": "script", "conf": {"a": [1, 2]}}, {"type": "script"}]);
        launch_adapter(&node, &json!({"version": "0.1", "plugins": plugins}));
        let id = node.id("c");
        let script = "cat /proc/self/oom_score_adj";
        let bundle = node
            .bundle(&id)
            .arguments(&["/bin/sh", "-c", script])
            .annotation("qos.class=ls")
            .resources(r#"{"pids": {"limit": 50}}"#)
            .make();
        let created = node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        wait_until("the OOM score", || (created.out().trim() == "77").then_some(()));
        node.call(&["delete", "--force", &id]).success();
        let requests = wait_until("the removal", || {
            let text = fs::read_to_string(&requests).unwrap();
            let all: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
            let has_ended = |r: &&Value| r["state"] == "delete" && r.get("results").is_some();
            (all.iter().filter(has_ended).count() == 2).then_some(all)
        });
        // Pod and container have the same id on a bare runtime, so the events tell them apart: the
        // pod starts first, and stops last.
        let states: Vec<_> = requests.iter().map(|r| r["state"].as_str().unwrap()).collect();
        let (create, delete) = (["create"; 4], ["delete"; 4]);
        assert_eq!(states, [create, delete].concat());
        for pair in requests.chunks(2) {
            assert_eq!(pair[0]["conf"], json!({"a": [1, 2]}));
            assert!(pair[1].get("conf").is_none() && pair[0].get("results").is_none());
            let result = json!([{"plugin": "script", "version": "0.1", "error": "",
                "metadata": {"a": "b"}}]);
            assert_eq!(pair[1]["results"], result);
            assert_eq!((&pair[0]["version"], &pair[0]["id"]), (&json!("0.1"), &json!(id)));
        }
        let start = &requests[2];
        assert!(start["pid"].as_u64().is_some_and(|pid| pid > 1), "{start}");
        assert!(start["sandboxID"].is_string(), "{start}");
        let spec = &start["spec"];
        assert_eq!(spec["annotations"]["qos.class"], "ls");
        assert_eq!(spec["resources"]["pids"]["limit"], 50);
        assert!(spec["cgroupsPath"].as_str().is_some_and(|p| p.contains(&id)), "{spec}");
        assert!(spec["namespaces"]["mount"].is_string(), "{spec}");
    });
}

#[test]
fn an_error_of_a_program_refuses_the_start() {
    for_each_runtime("v010-adapter, refused", |runtime| {
        let node = node(runtime);
        write_script(&node, &node.path("requests"));
        let plugins = json!([{"type": "script"}, {"type": "absent"}]);
        launch_adapter(&node, &json!({"version": "0.1", "plugins": plugins}));
        let create = |name: &str, annotation: &str| {
            let id = node.id(name);
            let bundle = node.bundle(&id).annotation(annotation).make();
            node.create(&bundle, &id).refusal()
        };
        // RunPodSandbox is part of the creation.
        let line = create("refused", "refuse=yes");
        assert!(line.contains("NRI v0.1 plugin script: not on this node"), "{line}");
        let line = create("absent", "refuse=no");
        assert!(line.contains("NRI v0.1 plugin absent: no program of this name in "), "{line}");
    });
}

#[test]
fn a_program_of_the_module_of_version_0_1_0_acts() {
    let Some(program) = v010_plugin("v0.1.0 program") else { return };
    for_each_runtime("v0.1.0 program", |runtime| {
        let node = node(runtime);
        fs::create_dir(node.path("bin.d")).unwrap();
        copy_program(&program, &node.path("bin.d").join("clearquota"));
        let plugins = json!([{"type": "clearquota", "conf": {"class": "ls"}}]);
        launch_adapter(&node, &json!({"version": "0.1", "plugins": plugins}));
        for (class, expected) in [("ls", ["-1", "max 100000"]), ("be", ["50000", "50000 100000"])] {
            let id = node.id(class);
            let bundle = node
                .bundle(&id)
                .arguments(&["/bin/sleep", "1000"])
                .annotation(&format!("qos.class={class}"))
                .resources(r#"{"cpu": {"quota": 50000, "period": 100000}}"#)
                .make();
            node.create(&bundle, &id).success();
            let quota = || node.cgroup_file(&id, "cpu", "cpu.cfs_quota_us", "cpu.max");
            assert!(["50000", "50000 100000"].contains(&quota().as_str()), "{}", quota());
            node.call(&["start", &id]).success();
            assert!(expected.contains(&quota().as_str()), "{class}: {}", quota());
            node.call(&["delete", "--force", &id]).success();
        }
    });
}
