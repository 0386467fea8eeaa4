//! Tests of `nrictl plugins`, and of the statistics of plugins that it shows.

use crate::{
    containers::{Sleep, create_and_start},
    doctor::nrictl,
    node::{Node, wait_until},
};
use serde_json::Value;

fn text(node: &Node, arguments: &[&str]) -> String {
    let output = nrictl(node, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the only plugin in the JSON.
fn plugin(node: &Node) -> Value {
    let json: Value = serde_json::from_str(&text(node, &["plugins", "--json"])).unwrap();
    assert_eq!(json["running"], true);
    assert_eq!(json["plugins"].as_array().map(Vec::len), Some(1), "{json}");
    json["plugins"][0].clone()
}

#[test]
fn plugins_are_shown_with_their_calls_times_and_memory() {
    let node = Node::new("");
    node.plugin("10-logger");
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let by_event =
        |found: &Value| found["calls"]["by_event"].as_array().cloned().unwrap_or_default();
    // Post-events are delivered after the reply to the runtime.
    let found = wait_until("the call of PostStartContainer", || {
        let found = plugin(&node);
        let has_event =
            by_event(&found).iter().any(|event| event["event"] == "POST_START_CONTAINER");
        has_event.then_some(found)
    });
    for (member, value) in [("index", "10"), ("name", "logger"), ("kind", "launched")] {
        assert_eq!(found[member], value, "{found}");
    }
    assert_eq!(found["state"], "active");
    assert!(found["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{found}");
    let total = &found["calls"]["total"];
    assert_eq!((&total["failures"], &total["timeouts"]), (&0.into(), &0.into()), "{found}");
    let calls = |counts: &Value| counts["calls"].as_u64().unwrap();
    let sum: u64 = by_event(&found).iter().map(|event| calls(&event["counts"])).sum();
    assert_eq!(calls(total), sum, "{found}");
    let create = by_event(&found).into_iter().find(|e| e["event"] == "CREATE_CONTAINER").unwrap();
    assert_eq!(calls(&create["counts"]), 1);
    let time = |name: &str| create["counts"][name].as_u64().unwrap();
    assert!(time("p50_us") > 0 && time("p50_us") <= time("p99_us"), "{found}");

    let table = text(&node, &["plugins"]);
    let mut lines = table.lines();
    let header: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    let expected = "INDEX NAME KIND PID VERSION STATE CALLS FAILED P50 P99 MEMORY";
    assert_eq!(header.join(" "), expected);
    let row = lines.next().unwrap();
    assert!(row.contains("10     logger  launched"), "{table}");
    assert!(!table.contains("CREATE_CONTAINER"));
    assert!(text(&node, &["plugins", "-o", "wide"]).contains("CREATE_CONTAINER"));

    // The plugin is launched again, and continues to count.
    let reload = nrictl(&node, &["reload"]);
    assert!(reload.status.success(), "{reload:?}");
    let pid = found["pid"].as_u64().unwrap();
    let killed = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    let again = wait_until("the next session", || {
        let again = plugin(&node);
        (again["state"] == "active" && again["pid"] != found["pid"]).then_some(again)
    });
    assert_eq!(again["restarts"], 1);
    assert!(calls(&again["calls"]["total"]) >= sum, "{again}");
    node.stop();
    nrid.wait_for_exit();
}
