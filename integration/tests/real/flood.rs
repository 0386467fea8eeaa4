//! A plugin that requests updates without end, and what becomes of everybody else.

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// Resident memory, in kilobytes.
fn memory(process: Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0)).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn endless_updates_by_a_plugin_delay_no_other_request() {
    let Some(go) = go("updates without end") else { return };
    for_each_runtime("updates without end", |runtime| {
        let node = Node::new(runtime);
        let create = |name: &str| {
            let id = node.id(name);
            let begin = Instant::now();
            node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id).success();
            (id, begin.elapsed())
        };
        let (victim, _) = create("victim");
        let mut plugin = node.connect("20-floods", &go, &json!({"events": []}).to_string());
        let usual = create("usual").1;
        let nrid = node.nrid().unwrap();
        let before = memory(nrid);
        // Many updates in a request, and many that nobody is there for: each is answered.
        let one = |n: usize| json!({"containerId": victim, "linux": {"resources": {"pids": {"limit": 100 + n % 50}}}});
        let absent = |n: usize| json!({"containerId": format!("nobody{n}{}", "x".repeat(4000)), "linux": {"resources": {"pids": {"limit": 1}}}});
        let (stop, end) = StopFlag::new();
        let reported = AtomicU32::new(0);
        let (slowest, peak) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.is_set() {
                    let round = reported.fetch_add(1, Ordering::Relaxed) as usize;
                    let updates: Vec<Value> = match round % 2 {
                        0 => vec![one(round)],
                        _ => (0..200).map(absent).collect(),
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
            drop(end);
            (slowest, peak)
        });
        println!(
            "{}: {usual:?} without, at most {slowest:?} with {} requests; {before} kB, then at \
                most {peak} kB",
            runtime.name,
            reported.load(Ordering::Relaxed)
        );
        assert!(slowest < usual * 20 + Duration::from_secs(30), "{slowest:?}");
        assert!(peak < before + (100 << 10), "{before} kB, then {peak} kB");
    });
}
