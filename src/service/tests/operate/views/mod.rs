//! Tests of `nrictl containers`, `pods` and `inspect` with a real `nrid`.

mod answers;
pub(crate) mod audit;
mod other_runtime;
mod top;

use crate::{
    containers::{Sleep, create_and_start},
    node::{Node, Nrid, example, wait_until},
    size::multiply,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Number of containers that are more than one page.
const PAGES: usize = 300;

/// Calls `nrictl`, which cargo puts beside `nrid`.
pub(crate) fn nrictl(node: &Node, arguments: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("nrictl");
    assert!(program.is_file(), "{} is missing: `cargo build -p nrictl`", program.display());
    let mut command = Command::new(program);
    command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    command.args(arguments).output().unwrap()
}

/// Returns the JSON that `nrictl` prints.
pub(crate) fn json_of(node: &Node, arguments: &[&str]) -> Value {
    let output = nrictl(node, arguments);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(node: &Node, arguments: &[&str]) -> String {
    let output = nrictl(node, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn lists_and_inspect_show_who_adjusted_a_container_and_what_it_missed() {
    let node = Node::new("[[plugin]]\nmatch = '10-crashes'\nrestart_backoff = '10m'\n");
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join("20-adjust")).unwrap();
    let rules = "[create]\nenv = { set = { NAME = 'hidden-value' } }\n";
    fs::write(node.path("conf.d/20-adjust.conf"), rules).unwrap();
    std::os::unix::fs::symlink("/bin/false", node.plugins().join("10-crashes")).unwrap();
    let nrid = node.start();
    wait_until("the plugins", || {
        let plugins = node.status().plugins;
        let is = |name, state| plugins.iter().any(|p| p.name == name && p.state == state);
        (is("20-adjust", "active") && is("10-crashes", "restarting")).then_some(())
    });
    let process = Sleep::new();
    create_and_start(&node, "web-1", &process).unwrap();

    let list = json_of(&node, &["containers", "--json"]);
    let container = &list["containers"][0];
    assert_eq!(container["id"], "web-1");
    assert_eq!(
        (&container["state"], &container["pid"]),
        (&json!("running"), &process.pid().into())
    );
    assert_eq!(container["adjusted_by"], json!(["20-adjust"]));
    assert_eq!(container["missed"][0]["plugin"], "10-crashes");
    assert_eq!(container["runtime"], "/bin/false");
    let pods = json_of(&node, &["pods", "--json"]);
    let pod = &pods["pods"][0];
    assert_eq!((&pod["id"], &pod["container_count"]), (&json!("web-1"), &json!(1)));
    assert_eq!((&pod["kind"], &pod["state"]), (&json!("container"), &json!("running")));
    assert_eq!(pod["adjusted_by"], json!(["20-adjust"]));
    let table = String::from_utf8(nrictl(&node, &["containers"]).stdout).unwrap();
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.contains("20-adjust") && table.contains("10-crashes"), "{table}");

    let text = nrictl(&node, &["inspect", "web"]).stdout;
    assert!(!String::from_utf8_lossy(&text).contains("hidden-value"));
    let inspected: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(inspected["id"], "web-1");
    assert_eq!(inspected["owners"]["env[NAME]"], json!(["20-adjust"]));
    assert_eq!(inspected["resources"]["requested"], json!({}));
    assert_eq!(inspected["bundle"]["adjusted"], true);
    let cgroups = &inspected["cgroups"];
    assert!(cgroups["v2"].is_string() || cgroups["v1"]["cpu"].is_string(), "{inspected}");
    assert_eq!(json_of(&node, &["inspect", "--type", "pod", "web-1"])["type"], "pod");

    let second = Sleep::new();
    create_and_start(&node, "web-2", &second).unwrap();
    let e = refusal(&node, &["inspect", "web"]);
    assert!(e.contains("several") && e.contains("web-1, web-2"), "{e}");
    let e = refusal(&node, &["inspect", "unknown"]);
    assert!(e.contains("no such container or pod: unknown"), "{e}");

    drop(second);
    wait_until("the end of web-2", || {
        let list = json_of(&node, &["containers", "--json"]);
        (list["containers"].as_array().unwrap().len() == 1).then_some(())
    });
    let all = json_of(&node, &["containers", "--all", "--json"]);
    assert_eq!(all["containers"][1]["state"], "stopped");
    assert_eq!(json_of(&node, &["inspect", "web-2"])["state"], "stopped");
    node.stop();
    nrid.wait_for_exit();
}

/// Starts `nrid` with `count` containers, all with the same process.
pub(crate) fn start_with(count: usize, process: &Sleep) -> (Node, Nrid) {
    let node = Node::new("plugin_request_timeout = 60\nplugin_registration_timeout = 60\n");
    let nrid = node.start();
    create_and_start(&node, "c0", process).unwrap();
    node.stop();
    nrid.wait_for_exit();
    multiply(&node, count);
    let nrid = node.start();
    (node, nrid)
}

#[test]
fn lists_of_several_pages_have_every_container_and_pod_once() {
    let process = Sleep::new();
    let (node, nrid) = start_with(PAGES, &process);
    for (command, list) in [("containers", "containers"), ("pods", "pods")] {
        let value = json_of(&node, &[command, "--json"]);
        let ids = value[list].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap());
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), PAGES, "{command}");
    }
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn logs_has_what_a_plugin_has_written() {
    let node = Node::new("");
    node.configure(&format!("[log]\nfile = {:?}\n", node.path("log")));
    node.plugin("10-logger");
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "web-1", &process).unwrap();
    let logs = |arguments: &[&str]| {
        let output = nrictl(&node, &[&["logs"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let event = r#"{"event":"StartContainer""#;
    wait_until("the plugin's line", || logs(&["logger"]).contains(event).then_some(()));
    let of_plugin = logs(&["10-logger"]);
    let is_of_plugin =
        |line: &str| line.contains("Z  INFO {") || line.contains("plugin=\"10-logger\"");
    assert!(of_plugin.lines().all(is_of_plugin), "{of_plugin}");
    assert!(logs(&[]).contains("INFO 10-logger: {"), "{}", logs(&[]));
    assert_eq!(logs(&["other"]), "");
    node.stop();
    nrid.wait_for_exit();
}
