//! Tests of the audit log, and of what `nrictl explain` makes of it.

use nri_integration::*;
use serde_json::{Value, json};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// Number of updates in [`the_last_values_of_explain_are_those_of_the_cgroup`].
const UPDATES: u64 = 50;

fn explain(node: &Node, id: &str) -> Value {
    let ended = node.ctl(&["explain", "--json", id]).success();
    serde_json::from_str(&ended.out()).unwrap()
}

/// Returns what `explain` says of a field.
fn field<'a>(explained: &'a Value, name: &str) -> &'a Value {
    let fields = explained["fields"].as_array().unwrap();
    fields.iter().find(|field| field["field"] == name).unwrap_or(&Value::Null)
}

/// Waits until the audit log has a line about a container.
fn wait_for(node: &Node, id: &str, event: &str) {
    wait_until(event, || {
        let ended = node.ctl(&["events", "--json", "--container", id]);
        ended.out().contains(&format!("\"event\":\"{event}\"")).then_some(())
    });
}

/// The engine, two plugins that are connected where Go is installed, and a plugin that replies to
/// updates of the engine update a container in turn.
#[test]
fn the_last_values_of_explain_are_those_of_the_cgroup() {
    for_each_runtime("explain", |runtime| {
        let node = Node::new(runtime);
        let create = "[create]\nenv = { set = { SECRET = 'hidden' } }\n\
            [create.resources]\nmemory = 100663296\npids = 70\n";
        node.launch("10-create", &Program::Adjust, create);
        node.launch("20-update", &Program::Adjust, "[update]\nshares = 700\n");
        let id = node.id("c");
        let resources = r#"{"pids": {"limit": 50}, "memory": {"limit": 67108864}}"#;
        let bundle = node.bundle(&id).resources(resources).arguments(&["/probe", "wait"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        let go_plugin = go_plugin("explain");
        let mut connected: Vec<_> = go_plugin
            .iter()
            .flat_map(|program| ["30-go", "40-go"].map(|name| node.connect(name, program, "{}")))
            .collect();
        let limits = || {
            let pids = node.cgroup_file(&id, "pids", "pids.max", "pids.max");
            (pids, node.cgroup_file(&id, "memory", "memory.limit_in_bytes", "memory.max"))
        };
        for n in 0..UPDATES {
            let (pids, memory) = (80 + n, (110 + n) * MIB);
            let (wanted_pids, wanted_memory) = (pids.to_string(), memory.to_string());
            let by_plugin = match n % 4 {
                0 => {
                    node.call(&["update", "--pids-limit", &wanted_pids, &id]).success();
                    continue;
                }
                1 => {
                    node.call(&["update", "--memory", &wanted_memory, &id]).success();
                    continue;
                }
                2 => json!({"pids": {"limit": pids}}),
                _ => json!({"memory": {"limit": {"value": memory}}}),
            };
            let Some(plugin) = connected.get_mut(usize::from(n % 4 == 3)) else { continue };
            let update = json!({"containerId": id, "linux": {"resources": by_plugin}});
            plugin.send(&json!({"update": [update]}));
            wait_until("the update", || {
                let (pids, memory) = limits();
                (pids == wanted_pids || memory == wanted_memory).then_some(())
            });
        }
        let (pids, memory) = limits();
        let is_current = |explained: &Value| {
            field(explained, "pids.limit")["after"].as_u64() == pids.parse().ok()
                && field(explained, "memory.limit")["after"].as_u64() == memory.parse().ok()
        };
        wait_until("the values of the cgroup", || is_current(&explain(&node, &id)).then_some(()));
        let explained = explain(&node, &id);
        let shares = field(&explained, "cpu.shares");
        assert_eq!(
            (&shares["after"], &shares["changes"][0]["by"]),
            (&json!(700), &json!("20-update"))
        );
        let pids = field(&explained, "pids.limit");
        let first = &pids["changes"][0];
        assert_eq!((&first["by"], &first["before"]), (&json!("10-create"), &json!(50)));
        // Each change starts from the value of the one before.
        for changes in pids["changes"].as_array().unwrap().windows(2) {
            assert_eq!(changes[0]["after"], changes[1]["before"], "{changes:?}");
        }
        assert_eq!(field(&explained, "env[SECRET]")["after"], "***");
        assert_eq!(explained["plugins"], json!(["10-create", "20-update"]));
        if go_plugin.is_some() {
            let mut by =
                Vec::from_iter(explained["fields"].as_array().unwrap().iter().flat_map(|field| {
                    field["changes"].as_array().unwrap().iter().map(|c| c["by"].to_string())
                }));
            by.sort();
            by.dedup();
            let all = ["10-create", "20-update", "30-go", "40-go", "engine"];
            assert_eq!(by, all.map(|name| format!("{name:?}")));
        }
        let text = node.ctl(&["explain", &id]).success().out();
        assert!(text.contains("pids.limit") && !text.contains("hidden"), "{text}");
        node.call(&["kill", &id, "KILL"]).success();
        node.call(&["delete", "--force", &id]).success();
        wait_for(&node, &id, "removed");
        assert!(is_current(&explain(&node, &id)), "the container is gone, its history is kept");
    });
}

/// `make demo` compares the last values of `explain` with what its containers see.
#[test]
fn explain_of_the_demo_ends_with_what_its_containers_see() {
    let (usable, unfit) = runtimes();
    unfit.iter().for_each(|(runtime, reason)| skip(&format!("demo ({runtime})"), reason));
    if usable.is_empty() {
        return;
    }
    let demo = program_dir().join("examples/demo");
    assert!(demo.is_file(), "build it with `cargo build --workspace --examples`");
    let mut command = Command::new(demo);
    command.env("NO_COLOR", "1");
    let dir = tempfile::tempdir().unwrap();
    let ended = run(command, dir.path());
    let out = ended.out();
    let compared = out.lines().filter(|line| line.contains("the last values of explain: "));
    assert!(compared.clone().all(|line| line.ends_with("as the container sees them  ok")), "{out}");
    assert_eq!((compared.count(), ended.code), (usable.len(), Some(0)), "{out}{}", ended.err());
}

/// A plugin updates a container that does not exist, and another one may not update any.
#[test]
fn refused_updates_have_lines_of_their_plugin() {
    let Some(go_plugin) = go_plugin("audit of updates") else { return };
    for_each_runtime("audit of updates", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin = [{ match = 'denied', deny = ['update'] }]");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        let mut plugin = node.connect("30-go", &go_plugin, "{}");
        let mut denied = node.connect("40-denied", &go_plugin, "{}");
        let update = |id: &str| {
            let resources = json!({"pids": {"limit": 50}});
            json!({"update": [{"containerId": id, "linux": {"resources": resources}}]})
        };
        plugin.send(&update("unknown"));
        denied.send(&update(&id));
        let lines = wait_until("the lines of both plugins", || {
            let text = node.ctl(&["events", "--json"]).out();
            let lines: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let refusals = lines.iter().filter(|line| line["event"] == "refusal").count();
            (refusals == 2).then_some(lines)
        });
        let of = |plugin: &str| {
            let is_wanted = |line: &&Value| line["event"] == "refusal" && line["plugin"] == plugin;
            lines.iter().find(is_wanted).unwrap_or_else(|| panic!("{plugin}: {lines:?}"))
        };
        assert_eq!(of("30-go")["container"], "unknown");
        let message = of("40-denied")["message"].to_string();
        assert!(message.contains("denies update"), "{message}");
    });
}

#[test]
fn explain_names_the_plugins_of_a_refused_creation() {
    for_each_runtime("explain a refusal", |runtime| {
        let node = Node::new(runtime);
        for name in ["10-a", "20-b"] {
            node.launch(name, &Program::Adjust, "[create.resources]\npids = 70\n");
        }
        let id = node.id("c");
        let message = node.create(&node.bundle(&id).make(), &id).refusal();
        wait_for(&node, &id, "refusal");
        let explained = explain(&node, &id);
        assert_eq!(explained["plugins"], json!(["10-a", "20-b"]));
        let note = &explained["notes"][0];
        assert_eq!((&note["event"], &note["plugin"]), (&json!("refusal"), &json!("20-b,10-a")));
        assert_eq!(note["changes"][0]["field"], "pids.limit");
        assert_eq!(explained["fields"], json!([]), "nothing was changed");
        assert!(message.contains(note["message"].as_str().unwrap()), "{message}: {note}");
        let page = node.ctl(&["explain", "--html", &id]).success().out();
        for part in ["<svg", "10-a", "20-b", "conflict: pids.limit", "</html>"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let error = node.ctl(&["explain", "no-such-container"]);
        assert!(error.err().contains("the audit log has no container"), "{}", error.err());
    });
}
