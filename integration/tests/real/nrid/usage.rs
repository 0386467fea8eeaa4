//! Tests that `nrictl containers`, `inspect`, `stats` and `top` show what the kernel has.

use nri_integration::*;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

fn json_of(node: &Node, arguments: &[&str]) -> Value {
    serde_json::from_str(&node.ctl(arguments).success().out()).unwrap()
}

#[test]
fn stats_are_those_of_the_cgroup() {
    for_each_runtime("stats", |runtime| {
        let node = Node::new(runtime);
        node.launch(
            "10-adjust",
            &Program::Adjust,
            &format!("[create.resources]\nmemory = {}\npids = 77\n", 96 * MIB),
        );
        let id = node.id("stats");
        let resources = r#"{"cpu": {"quota": 50000, "period": 100000}}"#;
        let bundle = node.bundle(&id).resources(resources).arguments(&["sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();

        let stats = json_of(&node, &["stats", &id, "--json"]);
        assert_eq!(stats["state"], "running");
        assert_eq!(stats["memory"]["limit_bytes"], 96 * MIB);
        assert_eq!((&stats["pids"]["limit"], &stats["pids"]["current"]), (&json!(77), &json!(1)));
        assert_eq!(stats["cpu"]["limit_cpus"], 0.5);
        assert_eq!(stats["memory"]["oom_kills"], 0);
        assert!(stats["cpu"]["usage_us"].as_u64().unwrap() > 0, "{stats}");
        assert!(stats["memory"]["usage_bytes"].as_u64().unwrap() > 0, "{stats}");
        let usage = node.cgroup_file(&id, "memory", "memory.usage_in_bytes", "memory.current");
        let (shown, found) = (&stats["memory"]["usage_bytes"], usage.parse::<u64>().unwrap());
        assert!(shown.as_u64().unwrap().abs_diff(found) < 8 * MIB, "{shown} {found}");
        // What this host does not have is named, and is not zero.
        for (name, value) in [
            ("pressure.cpu", &stats["pressure"]["cpu"]),
            ("huge_pages", &stats["huge_pages"]),
            ("swap.usage_bytes", &stats["swap"]["usage_bytes"]),
        ] {
            assert_eq!(value.is_null(), stats["unavailable"][name].is_string(), "{name}: {stats}");
        }
        let text = node.ctl(&["stats", &id]).success().out();
        assert!(text.contains("96 MiB") && text.contains("OOM kills   0"), "{text}");

        let top = json_of(&node, &["top", "--json"]);
        assert_eq!(top["containers"][0]["pids"], 1);
        let inspected = json_of(&node, &["inspect", &id]);
        assert_eq!(inspected["owners"]["memory.limit"], json!(["10-adjust"]));
        assert_eq!(inspected["resources"]["effective"]["memory"]["limit"], 96 * MIB);
        assert_eq!(inspected["pid"], json!(node.state(&id).unwrap()["pid"]));

        node.call(&["pause", &id]).success();
        assert_eq!(json_of(&node, &["containers", "--json"])["containers"][0]["state"], "paused");
        node.call(&["resume", &id]).success();
        assert_eq!(json_of(&node, &["containers", "--json"])["containers"][0]["state"], "running");
        node.call(&["delete", "--force", &id]).success();
    });
}
