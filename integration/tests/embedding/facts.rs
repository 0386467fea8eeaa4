//! A program in C with `nri.h` looks up classes, CDI devices and properties of its host for
//! plugins. Its function is passed on as a `RuntimeHandler`, so that this also tests `nri-runtime`.

use crate::compiled;
use nri_integration::*;
use serde_json::{Value, json};

/// A rule of the Go plugin for a container.
fn rule(id: &str, adjust: &Value) -> Value {
    json!({"id": id, "adjust": adjust})
}

fn class(field: &str, name: &str) -> Value {
    json!({"linux": {"resources": {field: {"value": name}}}})
}

fn device(name: &str) -> Value {
    json!({"CDIDevices": [{"name": name}]})
}

fn mount(source: &str) -> Value {
    let mount = json!({
        "destination": "/in", "source": source, "type": "bind", "options": ["rbind", "rshared"],
    });
    json!({"mounts": [mount]})
}

#[test]
fn a_program_in_c_knows_classes_devices_and_mounts_of_its_host() {
    let Some(go_plugin) = go_plugin("embedding: facts") else { return };
    for_each_runtime("embedding: facts", |runtime| {
        let node = Node::new(runtime);
        let rules = [
            rule("class", &class("blockioClass", "slow")),
            rule("rdt", &class("rdtClass", "gold")),
            rule("cdi", &device("example.org/gpu=0")),
            rule("mount", &mount("/shared")),
            rule("no-class", &class("blockioClass", "fast")),
            rule("broken", &class("blockioClass", "broken")),
            rule("no-rdt", &class("rdtClass", "silver")),
            rule("no-cdi", &device("example.org/gpu=1")),
            rule("no-mount", &mount("/private")),
        ];
        node.launch("10-a", &go_plugin, &json!({"rules": rules}).to_string());
        let mut command = compiled(&node, &script("tests/embedding/facts.c"));
        command.arg(node.path("plugins")).arg(node.path("conf.d"));
        command.args(rules.iter().map(|rule| rule["id"].as_str().unwrap()));
        let printed = run(command, &node.path("calls")).success().out();
        let mut lines = printed.lines();
        let mut next = || lines.next().unwrap_or_else(|| panic!("too few lines: {printed}"));

        let mut created = |lookups: &[&str], id: &str, expected: Value| {
            lookups.iter().for_each(|lookup| assert_eq!(next(), format!("lookup {lookup} 1")));
            let config = next().strip_prefix(&format!("{id} 0 ")).unwrap().to_owned();
            assert_eq!(serde_json::from_str::<Value>(&config).unwrap(), expected, "{id}");
        };
        let block_io = json!({"linux": {"resources": {"blockIO": {"weight": 100}}}});
        created(&["1 slow: known"], "class", block_io);
        created(&["2 gold: known"], "rdt", json!({"linux": {"intelRdt": {"closID": "g"}}}));
        let node = json!({
            "path": "/dev/gpu", "type": "c", "major": 240, "minor": 7, "fileMode": 0o660,
        });
        let allowed = json!({
            "allow": true, "type": "c", "major": 240, "minor": 7, "access": "rwm",
        });
        let adjusted = json!({
            "process": {"env": ["GPU=high"]},
            "linux": {"devices": [node], "resources": {"devices": [allowed]}},
        });
        created(&["3 : known", "4 /dev/gpu: known"], "cdi", adjusted);
        let bind = json!({
            "destination": "/in", "type": "bind", "source": "/shared",
            "options": ["rbind", "rshared"],
        });
        let mounted = json!({"mounts": [bind], "linux": {"rootfsPropagation": "rshared"}});
        created(&["5 /shared: known"], "mount", mounted);

        let mut refused = |lookup: &str, id: &str, field: &str| {
            assert_eq!(next(), format!("lookup {lookup} 1"));
            let line = next();
            assert!(line.starts_with(&format!("{id} 2 ")), "{line}");
            for part in ["by plugin 10-a", field] {
                assert!(line.contains(part), "{part:?} is not in {line}");
            }
        };
        refused("1 fast: unknown", "no-class", "blockio_class \"fast\"");
        refused("1 broken: known", "broken", "blockio_class \"broken\"");
        refused("2 silver: unknown", "no-rdt", "rdt_class \"silver\"");
        refused("3 : known", "no-cdi", "example.org/gpu=1");
        refused("5 /private: unknown", "no-mount", "/private");
        assert_eq!(lines.next(), None);
    });
}
