//! Tests of runtimes that fail at what a plugin requested: the engine's log and that of `nrid` name
//! the plugin and the field after the runtime's own error.

use nri_integration::*;
use serde_json::{Deserializer, Value};
use std::fs;

/// Launches a plugin that adjusts only containers with the annotation `case=NAME`.
fn launch(node: &Node, name: &str, rules: &str) {
    let config = format!("[filter.annotations]\ncase = '{name}'\n{rules}");
    node.launch(&format!("10-{name}"), &Program::Adjust, &config);
}

/// Calls the wrapper as containerd does. Returns the errors in the file of `--log`, and checks that
/// the call failed.
fn errors(node: &Node, arguments: &[&str]) -> Vec<String> {
    let log = node.path("log.json");
    let _ = fs::remove_file(&log);
    let mut command = node.wrapper();
    command.arg("--log").arg(&log).args(["--log-format", "json"]).args(arguments);
    let ended = node.run(command);
    assert_ne!(ended.code, Some(0), "{arguments:?}");
    assert!(ended.err().contains("set by plugins: "), "{}", ended.err());
    let text = fs::read_to_string(&log).unwrap();
    let values = Deserializer::from_str(&text).into_iter::<Value>().map(Result::unwrap);
    let errors = values.filter(|value| value["level"] == "error");
    errors.map(|value| value["msg"].as_str().unwrap().to_owned()).collect()
}

/// Checks that the last error is the runtime's with the plugin and field after it, and that the log
/// of `nrid` has both.
fn check(node: &Node, errors: &[String], expected: &str) {
    let [.., own, last] = errors else { panic!("the runtime's error is missing: {errors:?}") };
    // Between them, the reason that another process of runc has logged.
    assert!(last.starts_with(own.trim_end()), "{last}");
    assert!(last.ends_with(&format!("; set by plugins: {expected}")), "{last}");
    let log = node.log();
    assert!(log.contains(own.trim_end()) && log.contains(expected), "{own} {expected}: {log}");
}

#[test]
fn the_error_of_the_runtime_names_the_plugin_and_the_field() {
    for_each_runtime("runtime failures", |runtime| {
        let node = Node::new(runtime);
        node.launch("20-other", &Program::Adjust, "create.env.set = { SET = 'by 20' }\n");
        launch(
            &node,
            "mount",
            "[[create.mounts]]\ndestination = '/data'\nsource = '/nowhere/x'\ntype = 'bind'\n\
             options = ['bind']\n",
        );
        launch(&node, "hook", "[[create.hooks]]\nstage = 'create_runtime'\npath = '/bin/false'\n");
        launch(&node, "oom", "[create]\noom_score_adj = 5000\n");
        launch(&node, "cpu", "[create.resources]\ncpus = '4096'\n");
        launch(&node, "update", "[update]\ncpus = '4096'\n");
        let bundle = |case: &str| {
            let bundle = node.bundle(&node.id(case)).annotation(&format!("case={case}"));
            bundle.arguments(&["/bin/sleep", "1000"]).make()
        };
        let mut cases = vec![
            ("mount", "10-mount: mounts[/data]"),
            ("hook", "10-hook: hooks"),
            ("oom", "10-oom: oom_score_adj"),
        ];
        if has_cpusets() {
            cases.push(("cpu", "10-cpu: cpu.cpus=\"4096\""));
        }
        for (case, expected) in cases {
            let (bundle, id) = (bundle(case), node.id(case));
            let dir = bundle.dir().to_str().unwrap();
            check(&node, &errors(&node, &["create", "--bundle", dir, &id]), expected);
            assert!(node.state(&id).is_none(), "{case}");
        }
        if has_cpusets() {
            let (bundle, id) = (bundle("update"), node.id("update"));
            node.create(&bundle, &id).success();
            node.call(&["start", &id]).success();
            let found = errors(&node, &["update", "--pids-limit", "50", &id]);
            check(&node, &found, "10-update: cpu.cpus=\"4096\"");
        }
    });
}

#[test]
fn an_error_at_what_the_engine_requested_is_that_of_the_runtime() {
    for_each_runtime("runtime failures of the engine", |runtime| {
        let node = Node::new(runtime);
        node.launch("20-other", &Program::Adjust, "create.env.set = { SET = 'by 20' }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/no-such-command"]).make();
        let (log, dir) = (node.path("log.json"), bundle.dir().to_str().unwrap());
        let mut command = node.wrapper();
        command.arg("--log").arg(&log).args(["--log-format", "json"]);
        command.args(["create", "--bundle", dir, &id]);
        let ended = node.run(command);
        assert_ne!(ended.code, Some(0));
        let texts = [ended.err(), fs::read_to_string(log).unwrap()];
        assert!(texts.iter().all(|text| text.contains("no-such-command")), "{texts:?}");
        assert!(!texts.iter().any(|text| text.contains("set by")), "{texts:?}");
        let log = node.log();
        assert!(log.contains("runtime failed to create") && !log.contains("20-other:"), "{log}");
    });
}
