//! Tests of `mode = "shadow"`, in which plugins are called but nothing is applied, and of
//! containers that opt out.

use nri_integration::*;
use std::fs;

const CREATE: &str =
    "[create]\nenv = { set = { ADDED = 'by 10' } }\n[create.resources]\npids = 77\n";

#[test]
fn shadow_mode_calls_plugins_and_changes_nothing() {
    for_each_runtime("shadow", |runtime| {
        let node = Node::new(runtime);
        node.configure("mode = 'shadow'\n");
        let journal = node.launch("10-adjust", &Program::Adjust, CREATE);
        // The second plugin sets the same variable, which is a conflict.
        node.launch("20-adjust", &Program::Adjust, CREATE);
        let id = node.id("c");
        let bundle = node.bundle(&id).resources(r#"{"pids": {"limit": 50}}"#);
        let bundle = bundle.arguments(&["/bin/sleep", "1000"]).make();
        let original = bundle.bytes();
        node.create(&bundle, &id).success();
        assert_eq!(bundle.bytes(), original);
        node.call(&["start", &id]).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max").trim(), "50");
        node.call(&["update", "--memory", "67108864", &id]).success();
        node.call(&["delete", "--force", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
        assert!(
            journal.events(&id).contains(&"StartContainer".to_owned()),
            "{:?}",
            journal.events(&id)
        );
        let log = node.log();
        assert!(log.contains("shadow: would be refused"), "{log}");
        assert!(log.contains("both tried to set env[ADDED]"), "{log}");
    });
}

/// In other modes, `nrid` does not start if a required plugin does not start.
#[test]
fn a_required_plugin_that_fails_refuses_nothing_in_shadow_mode() {
    for_each_runtime("shadow's required plugins", |runtime| {
        let node = Node::new(runtime);
        node.configure("mode = 'shadow'\n");
        let text = fs::read_to_string(node.config()).unwrap()
            + "[[plugin]]\nmatch = '10-x'\nrequired = true\n";
        fs::write(node.config(), text).unwrap();
        let plugin = node.path("plugins/10-x");
        write_program(&plugin, "#!/bin/sh\nexit 1\n");
        let id = node.id("c");
        node.create(&node.bundle(&id).make(), &id).success();
        node.call(&["delete", "--force", &id]).success();
        let log = node.log();
        assert!(
            log.contains("shadow: would be refused") && log.contains("required plugin 10-x"),
            "{log}"
        );
    });
}

#[test]
fn shadow_mode_logs_what_would_change() {
    for_each_runtime("shadow's differences", |runtime| {
        let node = Node::new(runtime);
        node.configure("mode = 'shadow'\n");
        node.launch("10-adjust", &Program::Adjust, CREATE);
        let id = node.id("c");
        let bundle = node.bundle(&id).resources(r#"{"pids": {"limit": 50}}"#).make();
        node.create(&bundle, &id).success();
        node.call(&["delete", "--force", &id]).success();
        let log = node.log();
        for change in ["pids.limit: 50 -> 77", "env[ADDED]: null -> "] {
            assert!(log.contains(change), "{change:?} is not in: {log}");
        }
        assert!(
            !log.contains("by 10"),
            "the log has the value of a variable, which may be secret: {log}"
        );
    });
}

#[test]
fn an_annotation_opts_a_container_out_where_configured() {
    for_each_runtime("opting out", |runtime| {
        for is_configured in [true, false] {
            let node = Node::new(runtime);
            node.configure(if is_configured {
                "opt_out = { annotation = 'example.org/no-nri' }\n"
            } else {
                ""
            });
            let journal = node.launch("10-adjust", &Program::Adjust, CREATE);
            let id = node.id("c");
            let bundle = node.bundle(&id).annotation("example.org/no-nri=true").make();
            node.create(&bundle, &id).success();
            assert_eq!(node.own_bundle(&id).is_none(), is_configured);
            assert_eq!(journal.events(&id).is_empty(), is_configured);
            node.call(&["start", &id]).success();
            node.call(&["delete", "--force", &id]).success();
        }
    });
}
