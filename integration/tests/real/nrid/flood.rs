//! Test that a plugin that requests updates without pause does not delay requests of engines and
//! does not make `nrid` use more and more memory.

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// Returns the resident memory of a process in KiB.
fn memory(process: Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0)).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn endless_updates_by_a_plugin_delay_no_other_request() {
    let Some(go_plugin) = go_plugin("updates without end") else { return };
    for_each_runtime("updates without end", |runtime| {
        let node = Node::new(runtime);
        let create = |name: &str| {
            let id = node.id(name);
            let begin = Instant::now();
            node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id).success();
            (id, begin.elapsed())
        };
        let (victim, _) = create("victim");
        let mut plugin = node.connect("20-flood", &go_plugin, &json!({"events": []}).to_string());
        let usual = create("usual").1;
        let nrid = node.nrid().unwrap();
        let before = memory(nrid);
        // Requests alternate between one update of an existing container and 200 updates of unknown
        // containers, which the reply lists as failed. The ids of unknown containers have 4 kB
        // each, so that such a request and its reply have 800 kB each.
        let update = |id: &str, limit: usize| {
            let resources = json!({"pids": {"limit": limit}});
            json!({"containerId": id, "linux": {"resources": resources}})
        };
        let existing = |n: usize| update(&victim, 100 + n % 50);
        let unknown = |n: usize| update(&format!("unknown{n}{}", "x".repeat(4000)), 1);
        let (stop, stop_guard) = StopFlag::new();
        let requests = AtomicU32::new(0);
        let (slowest, peak) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.is_set() {
                    let round = requests.fetch_add(1, Ordering::Relaxed) as usize;
                    let updates: Vec<Value> = match round % 2 {
                        0 => vec![existing(round)],
                        _ => (0..200).map(unknown).collect(),
                    };
                    plugin.send(&json!({"update": updates}));
                }
            });
            let (mut slowest, mut peak) = (Duration::ZERO, 0);
            for n in 0..5 {
                let (id, took) = create(&format!("c{n}"));
                slowest = slowest.max(took);
                peak = peak.max(memory(nrid));
                node.call(&["delete", "--force", &id]).success();
            }
            drop(stop_guard);
            (slowest, peak)
        });
        println!(
            "{}: a creation took {usual:?} before, at most {slowest:?} with {} requests; nrid used \
                {before} kB before, at most {peak} kB with them",
            runtime.name,
            requests.load(Ordering::Relaxed)
        );
        // Generous limits, since the machine may be busy: the test detects unbounded growth.
        assert!(
            slowest < usual * 20 + Duration::from_secs(30),
            "a creation took {slowest:?} with updates, {usual:?} without"
        );
        assert!(
            peak < before + (100 << 10),
            "the memory of nrid grew from {before} kB to {peak} kB"
        );
    });
}
