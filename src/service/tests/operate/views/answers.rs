//! Tests of the answers of `nrictl` about containers whose creation the audit log does not have,
//! that were renamed, or that `mode = "shadow"` left as they were.

use crate::{
    containers::{Sleep, create_and_start},
    node::{Node, wait_until},
    views::audit::plugin,
    views::{json_of, nrictl},
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

/// What the plugin of these tests sets.
const CREATE: &str = "[create]\nannotations = { set = { k = 'v' } }\n\
    env = { set = { NAME = 'hidden-value' } }\n";

fn text(node: &Node, arguments: &[&str]) -> String {
    let output = nrictl(node, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until `explain` has this event, and returns its JSON.
fn explained(node: &Node, container: &str, event: &str) -> Value {
    wait_until(event, || {
        let output = nrictl(node, &["explain", "--json", container]);
        let value: Value = serde_json::from_slice(&output.stdout).ok()?;
        let events = value["events"].as_array()?;
        events.iter().any(|line| line["event"] == event).then_some(value.clone())
    })
}

fn fields(explained: &Value) -> Vec<Value> {
    let fields = explained["fields"].as_array().unwrap();
    fields.iter().map(|f| json!([f["field"], f["after"], f["changes"][0]["by"]])).collect()
}

#[test]
fn explain_has_from_the_record_what_the_audit_log_lacks() {
    let node = Node::new("");
    plugin(&node, "10-a", CREATE);
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let logged = explained(&node, "c1", "started");
    let expected = [json!(["annotations[k]", "v", "10-a"]), json!(["env[NAME]", "***", "10-a"])];
    assert_eq!(fields(&logged), expected);
    assert!(!logged.to_string().contains("from_record"), "{logged}");
    let log = node.state_dir().join("audit.log");
    let lines = fs::read_to_string(&log).unwrap();

    // No log, one that is empty, and one that has only the start, as after a rotation.
    let last: Vec<_> = lines.lines().filter(|line| line.contains("\"started\"")).collect();
    assert_eq!(last.len(), 1, "{lines}");
    for rest in [None, Some(String::new()), Some(format!("{}\n", last[0]))] {
        match &rest {
            None => fs::remove_file(&log).unwrap(),
            Some(rest) => fs::write(&log, rest).unwrap(),
        }
        let found = explained(&node, "c1", "created");
        assert_eq!(fields(&found), expected, "{rest:?}");
        assert_eq!(found["fields"][0]["changes"][0]["from_record"], true, "{rest:?}: {found}");
        let events: Vec<_> = found["events"].as_array().unwrap().iter().collect();
        let started: Vec<_> = events.iter().filter(|line| line["event"] == "started").collect();
        assert_eq!(started.len(), 1, "{found}");
        assert_eq!(started[0]["from_record"] == true, rest.as_deref().unwrap_or("").is_empty());
        let text = text(&node, &["explain", "c1"]);
        let note = "(record): from the container's record; the audit log has no entry of the \
                    creation";
        assert!(text.contains(note) && text.contains("created  (record)"), "{rest:?}: {text}");
        assert!(!text.contains("hidden-value"), "{text}");
    }
    node.stop();
    nrid.wait_for_exit();
    let text = text(&node, &["explain", "c1"]);
    let note = "the audit log has no entry of the creation, and no nrid runs that has the record";
    assert!(text.contains(note), "{text}");
}

#[test]
fn explain_shows_what_shadow_mode_did_not_change() {
    let node = Node::new("mode = 'shadow'\n");
    node.configure(&format!("mode = 'shadow'\n[log]\nfile = {:?}\n", node.path("log")));
    plugin(&node, "10-a", CREATE);
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let found = explained(&node, "c1", "started");
    let expected = [json!(["annotations[k]", "v", "10-a"]), json!(["env[NAME]", "***", "10-a"])];
    assert_eq!(fields(&found), expected);
    assert_eq!(found["fields"][0]["changes"][0]["event"], "would_adjust");
    let shown = text(&node, &["explain", "c1"]);
    let note = "mode = \"shadow\": nothing was changed; plugins would have changed:";
    assert!(shown.contains(note) && !shown.contains("no field was changed"), "{shown}");
    assert_eq!(text(&node, &["explain", "--diff", "c1"]), "");
    let log = fs::read_to_string(node.path("log")).unwrap();
    let line = log.lines().find(|line| line.contains("shadow: would change")).unwrap();
    assert!(line.contains("plugin=\"10-a\"") && line.contains("annotations[k]"), "{line}");
    assert!(!log.contains("hidden-value"), "{log}");
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn explain_shows_what_shadow_mode_did_not_refuse() {
    let node = Node::new("mode = 'shadow'\n");
    for name in ["10-a", "20-b"] {
        plugin(&node, name, "[create]\nannotations = { set = { k = 'v' } }\n");
    }
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let found = explained(&node, "c1", "would_refuse");
    let note = &found["notes"][0];
    assert_eq!((&note["event"], &note["plugin"]), (&json!("would_refuse"), &json!("20-b,10-a")));
    let shown = text(&node, &["explain", "c1"]);
    assert!(shown.contains("would_refuse (create)  20-b,10-a"), "{shown}");
    node.stop();
    nrid.wait_for_exit();
}

/// Writes the file in which dockerd keeps the name of a container.
fn name_docker(node: &Node, id: &str, name: &str) {
    let dir = node.path("docker/containers").join(id);
    fs::create_dir_all(&dir).unwrap();
    let config = json!({"ID": id, "Name": format!("/{name}"), "Config": {"Image": "busybox"}});
    // As dockerd does.
    let new = dir.join("config.new");
    fs::write(&new, config.to_string()).unwrap();
    fs::rename(new, dir.join("config.v2.json")).unwrap();
}

#[test]
fn a_container_that_docker_renamed_has_its_new_name() {
    let node = Node::new("");
    plugin(&node, "10-a", CREATE);
    let nrid = node.start();
    let process = Sleep::new();
    for (id, name) in [("d1", "web"), ("d2", "db")] {
        name_docker(&node, id, name);
        let bundle = node.path("bundles").join(id);
        fs::create_dir_all(&bundle).unwrap();
        let source = node.path("docker/containers").join(id).join("hosts");
        let mount = json!({"destination": "/etc/hosts", "type": "bind", "source": source});
        let config = json!({"ociVersion": "1.0.2", "mounts": [mount]});
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        create_and_start(&node, id, &process).unwrap();
        assert_eq!(json_of(&node, &["inspect", name])["id"], id);
    }
    // Also a name that another container had before.
    name_docker(&node, "d1", "old");
    name_docker(&node, "d2", "web");
    assert_eq!(json_of(&node, &["inspect", "web"])["id"], "d2");
    assert_eq!(json_of(&node, &["inspect", "old"])["name"], "old");
    assert_eq!(nrictl(&node, &["inspect", "db"]).status.code(), Some(1));
    name_docker(&node, "d2", "shop");
    let list = json_of(&node, &["containers", "--json"]);
    let names = list["containers"].as_array().unwrap().iter().map(|c| c["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["old", "shop"]);
    name_docker(&node, "d1", "new");
    let verified = nrictl(&node, &["verify", "--json", "new"]).stdout;
    let verified: Value = serde_json::from_slice(&verified).unwrap();
    assert_eq!(verified["containers"][0]["id"], "d1");
    name_docker(&node, "d1", "newer");
    let explained = explained(&node, "newer", "started");
    assert_eq!((&explained["container"], &explained["name"]), (&json!("d1"), &json!("newer")));
    // A file that cannot be used changes nothing.
    fs::write(node.path("docker/containers/d1/config.v2.json"), "{").unwrap();
    assert_eq!(json_of(&node, &["inspect", "newer"])["id"], "d1");
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn status_counts_the_containers_that_have_ended_apart() {
    let node = Node::new("");
    let nrid = node.start();
    let (first, second) = (Sleep::new(), Sleep::new());
    create_and_start(&node, "c1", &first).unwrap();
    create_and_start(&node, "c2", &second).unwrap();
    drop(second);
    explained(&node, "c2", "stopped");
    let shown = text(&node, &["status"]);
    assert!(shown.contains("containers       1, and 1 that has ended\n"), "{shown}");
    let status = json_of(&node, &["status", "--json"]);
    let counts = (&status["status"]["containers"], &status["status"]["ended_containers"]);
    assert_eq!(counts, (&json!(2), &json!(1)));
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn what_a_plugin_writes_has_one_level_and_one_time() {
    let node = Node::new("");
    node.configure(&format!("[log]\nfile = {:?}\n", node.path("log")));
    let script = "#!/bin/sh\n\
        echo ' INFO 10-a: registered'\n\
        echo ' WARN 10-a: careful'\n\
        echo 'time=\"2026-01-02T03:04:05Z\" level=error msg=\"no such device\"'\n\
        echo 'plain text'\n\
        echo 'INFORMATION'\n\
        exec sleep 1000\n";
    let program = node.plugins().join("10-a");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let nrid = node.start();
    let lines = wait_until("the lines", || {
        let log = fs::read_to_string(node.path("log")).ok()?;
        log.contains("INFORMATION").then_some(log)
    });
    let of: Vec<_> = lines
        .lines()
        .filter(|line| line.contains(" 10-a: "))
        .map(|line| line.split_once("Z ").unwrap().1)
        .collect();
    let expected = [
        " INFO 10-a: 10-a: registered",
        " WARN 10-a: 10-a: careful",
        "ERROR 10-a: msg=\"no such device\"",
        " INFO 10-a: plain text",
        " INFO 10-a: INFORMATION",
    ];
    assert_eq!(of, expected);
    drop(nrid);
}
